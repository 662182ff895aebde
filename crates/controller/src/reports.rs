//! Deletes the reports of nodes that are gone, or that netqos leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use kube::api::{Api, DeleteParams};
use kube::{Client, Error};
use netqos_cluster::{NotLeading, ObjectVersion, is_outdated};
use netqos_k8s::NetworkQoSNodeReport;
use tokio::time::{Instant, timeout};

use crate::agents::Agents;
use crate::metrics::{Metrics, Outcome};

const RESOURCE: &str = "networkqosnodereports";
/// The time that a node is missing before its report is deleted.
const ABSENT: Duration = Duration::from_secs(30);
/// The most reports that one call deletes, and at the same time.
const MOST: usize = 32;
const AT_ONCE: usize = 8;
/// How long a deletion may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reports that exist.
pub(crate) struct Reports {
    /// Refuses to write where this replica does not lead.
    writer: Client,
    versions: BTreeMap<Arc<str>, ObjectVersion>,
    /// The times since which nodes with reports have been missing.
    absent: BTreeMap<Arc<str>, Instant>,
    metrics: Metrics,
}

impl Reports {
    pub(crate) fn new(writer: Client, metrics: Metrics) -> Self {
        Self {
            writer,
            versions: BTreeMap::new(),
            absent: BTreeMap::new(),
            metrics,
        }
    }

    /// A report exists in this version; `None`: it is gone.
    pub(crate) fn found(&mut self, node: &Arc<str>, version: Option<ObjectVersion>) {
        match version {
            Some(version) => drop(self.versions.insert(node.clone(), version)),
            None => drop(self.versions.remove(node)),
        }
    }

    /// Deletes the report of a node that has been missing among these for a while. One at a time: other work
    /// waits meanwhile.
    pub(crate) async fn delete_absent(&mut self, nodes: &BTreeSet<Arc<str>>) {
        // A cluster without any node is one whose nodes are not known yet.
        if nodes.is_empty() {
            self.absent.clear();
            return;
        }
        let versions = &self.versions;
        let is_absent = |node: &Arc<str>| versions.contains_key(node) && !nodes.contains(node);
        self.absent.retain(|node, _| is_absent(node));
        let now = Instant::now();
        for node in versions.keys().filter(|node| is_absent(node)) {
            self.absent.entry(node.clone()).or_insert(now);
        }
        let mut absent = self.absent.iter();
        let due = absent.rfind(|(_, since)| now.duration_since(**since) >= ABSENT);
        if let Some(node) = due.map(|(node, _)| node.clone()) {
            self.absent.remove(&node);
            self.delete(&node).await;
        }
    }

    /// Deletes reports of nodes that netqos leaves: nothing of them holds any longer.
    pub(crate) async fn delete_left(&self, agents: &Agents) {
        let left = agents.left();
        let left = left.filter(|node| self.versions.contains_key(*node));
        let deletions = left.take(MOST).map(|node| self.delete(node));
        stream::iter(deletions)
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
    }

    /// Deletes a report in the state that was seen last: one that was written since is another.
    async fn delete(&self, node: &Arc<str>) {
        let Some(version) = self.versions.get(node) else {
            return;
        };
        let api: Api<NetworkQoSNodeReport> = Api::all(self.writer.clone());
        let parameters = DeleteParams::default().preconditions(version.preconditions());
        let deleted = timeout(PATIENCE, api.delete(node, &parameters)).await;
        let outcome = match deleted {
            Ok(Ok(_)) => {
                tracing::info!(%node, "deleted the report of a node without netqos");
                Outcome::Done
            }
            Ok(Err(error)) if NotLeading::caused(&error) => return,
            // The watch reports what it is now.
            Ok(Err(Error::Api(status))) if status.code == 404 || is_outdated(&status) => {
                Outcome::Done
            }
            _ => Outcome::Failed,
        };
        self.metrics.wrote(RESOURCE, outcome);
    }
}
