//! What was seen last, on disk: a list of objects for each kind, as `kubectl get -o json` prints
//! one. `netqos plan --manifests` reads it, too.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use netqos_cluster::Kind;
use netqos_coexistence::Homes;
use netqos_core::{Digest, ObjectName};
use netqos_datapath::Documents;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::seen::Read;
use crate::places::objects_directory;

/// The lists.
#[derive(Debug)]
pub(super) struct Saved {
    documents: Documents,
    node: String,
    homes: Arc<Homes>,
    /// What each list was when it was written last, by its digest.
    written: BTreeMap<Kind, Digest>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'l> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Stamp<'l>,
    items: &'l [&'l RawValue],
}

#[derive(Deserialize)]
struct Written {
    metadata: Stamp<'static>,
    items: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stamp<'s> {
    /// Seconds since 1970.
    written_at: u64,
    /// The node that it was written for: under another name the machine has other pods. Absent where an
    /// older agent wrote it.
    #[serde(default)]
    node: Option<Cow<'s, str>>,
}

impl Saved {
    /// Those of this node below this folder, which need not exist yet.
    pub(super) fn new(state: &Path, node: &str, homes: Arc<Homes>) -> Self {
        Self {
            documents: Documents::new(objects_directory(state)),
            node: node.to_owned(),
            homes,
            written: BTreeMap::new(),
        }
    }

    /// The kinds of which there is anything.
    pub(super) fn kinds(&self) -> BTreeSet<Kind> {
        let is_some = |kind: &Kind| self.read(*kind).is_some_and(|(_, all)| !all.is_empty());
        Kind::ALL.into_iter().filter(is_some).collect()
    }

    /// The list of a kind, and when it was written; `None` where there is none of this node that can be
    /// read.
    pub(super) fn read(&self, kind: Kind) -> Option<(u64, BTreeMap<ObjectName, Read>)> {
        let written: Written = self.documents.read(kind.plural()).ok().flatten()?;
        if written.metadata.node.is_some_and(|node| node != self.node) {
            return None;
        }
        let objects = written.items.into_iter().filter_map(|value| {
            let metadata = value.get("metadata")?;
            let text = |name: &str| metadata.get(name).and_then(Value::as_str);
            let name = ObjectName::new(text("namespace").unwrap_or_default(), text("name")?);
            let read = Read::of(kind, &name, value, &self.homes);
            Some((name, read))
        });
        Some((written.metadata.written_at, objects.collect()))
    }

    /// Writes down the lists that are others than before. `texts` are the objects of a kind.
    ///
    /// # Errors
    /// One could not be written: what was written before stands there.
    #[allow(clippy::disallowed_methods, reason = "a date for people")]
    pub(super) fn write<'t>(
        &mut self,
        mut texts: impl FnMut(Kind) -> Vec<&'t RawValue>,
    ) -> netqos_datapath::Result<()> {
        // What a killed writer left.
        let _ = self.documents.remove_unfinished();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let written_at = now.map_or(0, |now| now.as_secs());
        // Reports are told to others, and ConfigMaps are read by the controller.
        let others = [Kind::NetworkQoSNodeReport, Kind::ConfigMap];
        let kinds = Kind::ALL.into_iter();
        for kind in kinds.filter(|kind| !others.contains(kind)) {
            let items = texts(kind);
            let digest = Digest::of(&items);
            if self.written.get(&kind) == Some(&digest) {
                continue;
            }
            let list = List {
                api_version: "v1",
                kind: "List",
                metadata: Stamp {
                    written_at,
                    node: Some(self.node.as_str().into()),
                },
                items: &items,
            };
            self.documents.write(kind.plural(), &list)?;
            self.written.insert(kind, digest);
        }
        Ok(())
    }
}
