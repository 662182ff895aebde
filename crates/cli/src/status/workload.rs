//! What keeps agents and controllers running: a DaemonSet and a Deployment, and how far they have come.

use std::collections::BTreeMap;

use netqos_cluster::{ReadError, Which, list_any};
use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;

/// As the manifests label it.
const AGENTS: (&str, &str, &str, &str) = (
    "apps/v1",
    "DaemonSet",
    "daemonsets",
    "app.kubernetes.io/name=netqos,app.kubernetes.io/component=agent",
);
/// The same, of controllers.
const CONTROLLERS: (&str, &str, &str, &str) = (
    "apps/v1",
    "Deployment",
    "deployments",
    "app.kubernetes.io/name=netqos,app.kubernetes.io/component=controller",
);

/// A DaemonSet or a Deployment, as its status has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// `DaemonSet` or `Deployment`.
    pub kind: &'static str,
    /// `namespace/name`.
    pub name: String,
    /// How many are to run: on as many nodes as the scheduler finds for a DaemonSet, with an eye to its
    /// selector and to taints.
    pub desired: i64,
    /// How many of them are of the present template.
    pub updated: i64,
    /// How many answer that they work.
    pub ready: i64,
    /// The version that it is labelled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True: its pods take everything out of force on their nodes, and run no agent.
    #[serde(skip_serializing_if = "is_false")]
    pub leaving: bool,
    /// False: its status is of a template before, or there is none yet.
    pub observed: bool,
    /// What a node has to be labelled with.
    #[serde(skip)]
    selector: BTreeMap<String, String>,
}

/// The DaemonSets of agents.
///
/// # Errors
/// They may not be listed, or the server does not answer.
pub fn agents(cluster: &Cluster) -> Result<Vec<Workload>, ReadError> {
    read(cluster, AGENTS, Workload::of_daemon_set)
}

/// The Deployments of controllers.
///
/// # Errors
/// As of [`agents`].
pub fn controllers(cluster: &Cluster) -> Result<Vec<Workload>, ReadError> {
    read(cluster, CONTROLLERS, Workload::of_deployment)
}

fn read(
    cluster: &Cluster,
    (api_version, kind, plural, labels): (&str, &str, &str, &str),
    of: fn(&Value) -> Workload,
) -> Result<Vec<Workload>, ReadError> {
    let which = Which::Labelled(labels);
    let all = list_any(cluster.client(), (api_version, kind, plural), None, which);
    Ok(cluster.wait(all)?.iter().map(of).collect())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

fn number(value: &Value, path: &str) -> i64 {
    let number = value.pointer(path).and_then(Value::as_i64);
    number.unwrap_or_default()
}

impl Workload {
    fn of_daemon_set(object: &Value) -> Self {
        Self {
            kind: AGENTS.1,
            desired: number(object, "/status/desiredNumberScheduled"),
            updated: number(object, "/status/updatedNumberScheduled"),
            ready: number(object, "/status/numberReady"),
            ..Self::of(object)
        }
    }

    fn of_deployment(object: &Value) -> Self {
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
        Self {
            kind: CONTROLLERS.1,
            desired: replicas.unwrap_or(1),
            updated: number(object, "/status/updatedReplicas"),
            ready: number(object, "/status/readyReplicas"),
            ..Self::of(object)
        }
    }

    fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let generation = number(object, "/metadata/generation");
        let selector = object.pointer("/spec/template/spec/nodeSelector");
        let selector = selector.and_then(Value::as_object).into_iter().flatten();
        let labels =
            selector.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
        Self {
            kind: "",
            name: format!(
                "{}/{}",
                text("/metadata/namespace").unwrap_or_default(),
                text("/metadata/name").unwrap_or_default()
            ),
            desired: 0,
            updated: 0,
            ready: 0,
            version: text("/metadata/labels/app.kubernetes.io~1version").map(str::to_owned),
            leaving: text("/spec/template/metadata/labels/netqos.io~1leaving") == Some("true"),
            observed: object.pointer("/status/observedGeneration").is_some()
                && number(object, "/status/observedGeneration") >= generation,
            selector: labels.collect(),
        }
    }

    /// What keeps it from being whole: each that is wanted runs, is of the present template, and works.
    pub fn lacks(&self) -> Option<String> {
        let Self {
            kind,
            name,
            desired,
            updated,
            ready,
            ..
        } = self;
        let lacks = if self.leaving {
            let through = self.through();
            format!(
                "netqos is leaving: it has taken everything out of force on {through} of {desired} nodes"
            )
        } else if !self.observed {
            "nothing is said of its present generation yet".to_owned()
        } else if *desired == 0 {
            "none of them is to run anywhere".to_owned()
        } else if updated < desired {
            format!("{updated} of {desired} are of its present template")
        } else if ready < desired {
            format!("{ready} of {desired} are ready")
        } else {
            return None;
        };
        Some(format!("{kind} {name}: {lacks}"))
    }

    /// On how many nodes the pods of the present template have begun to be ready.
    pub fn through(&self) -> i64 {
        match self.observed {
            true => self.updated.min(self.ready),
            false => 0,
        }
    }

    /// True where as many work as are to run, of whatever template.
    pub fn is_in_service(&self) -> bool {
        !self.leaving && self.observed && self.desired > 0 && self.ready >= self.desired
    }

    /// True where its pods may run, by the labels of the node. Taints and affinity are not looked at.
    pub fn is_for(&self, node: &Value) -> bool {
        let labels = node.pointer("/metadata/labels");
        let mut wanted = self.selector.iter();
        wanted.all(|(key, value)| {
            let label = labels.and_then(|it| it.get(key)).and_then(Value::as_str);
            label == Some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn daemon_set(observed: i64, desired: i64, updated: i64, ready: i64) -> Workload {
        Workload::of_daemon_set(&json!({
            "metadata": {"namespace": "n", "name": "a", "generation": 2},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}},
            "status": {
                "observedGeneration": observed, "desiredNumberScheduled": desired,
                "updatedNumberScheduled": updated, "numberReady": ready
            }
        }))
    }

    #[test]
    fn a_workload_is_whole_when_every_one_is_new_and_ready() {
        for (of, words) in [
            (daemon_set(1, 3, 3, 3), "nothing is said"),
            (daemon_set(2, 0, 0, 0), "none of them"),
            (daemon_set(2, 3, 2, 3), "2 of 3 are of its present template"),
            (daemon_set(2, 3, 3, 2), "2 of 3 are ready"),
        ] {
            let lacks = of.lacks().unwrap_or_default();
            assert!(
                lacks.starts_with("DaemonSet n/a: ") && lacks.contains(words),
                "{lacks}"
            );
        }
        assert_eq!(daemon_set(2, 3, 3, 3).lacks(), None);
        let fresh = Workload::of_deployment(&json!({"metadata": {"name": "c"}}));
        assert!(
            fresh.lacks().is_some(),
            "a Deployment that nobody has looked at: {fresh:?}"
        );
    }

    /// Ready pods are no agents then.
    #[test]
    fn one_that_takes_everything_away_is_not_whole_however_ready_it_is() {
        let of = Workload::of_daemon_set(&json!({
            "metadata": {"namespace": "n", "name": "a", "generation": 2},
            "spec": {"template": {"metadata": {"labels": {"netqos.io/leaving": "true"}}}},
            "status": {
                "observedGeneration": 2, "desiredNumberScheduled": 3,
                "updatedNumberScheduled": 3, "numberReady": 3
            }
        }));
        let lacks = of.lacks().unwrap();
        assert!(
            lacks.contains("netqos is leaving") && lacks.contains("on 3 of 3"),
            "{lacks}"
        );
        assert!(!of.is_in_service());
    }

    #[test]
    fn a_node_counts_that_has_the_labels_of_the_selector() {
        let of = daemon_set(2, 1, 1, 1);
        let node = |system: &str| json!({"metadata": {"labels": {"kubernetes.io/os": system}}});
        assert!(of.is_for(&node("linux")));
        assert!(!of.is_for(&node("windows")) && !of.is_for(&json!({})));
    }
}
