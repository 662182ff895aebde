//! What a measurement changes while it runs.

use std::time::Duration;

use netqos_core::ObjectName;
use serde_json::Value;

use super::check::At;
use super::{Change, ChangeDocument};
use crate::manifest::ManifestError;

impl At<'_> {
    /// In the order of time; each is of an object that is there, before the measurement ends.
    pub(super) fn changes(
        &self,
        parsed: Vec<ChangeDocument>,
        length: Duration,
    ) -> Result<Vec<Change>, ManifestError> {
        let mut changes = Vec::new();
        for (index, change) in parsed.into_iter().enumerate() {
            let at = self.below(&format!("changes[{index}]"));
            changes.push(at.change(change, length)?);
        }
        if !changes.is_empty() && !self.objects.need_an_agent() {
            let problem = "there is no agent that would follow: no object here needs one";
            return Err(self.problem("changes", problem));
        }
        changes.sort_by_key(|change| change.at);
        Ok(changes)
    }

    fn change(&self, parsed: ChangeDocument, length: Duration) -> Result<Change, ManifestError> {
        let at = parsed.at.0;
        if at >= length {
            return Err(self.problem("at", "the measurement is over then"));
        }
        let text = |path: &str| parsed.patch.pointer(path).and_then(Value::as_str);
        let missing = |field: &str| self.problem(field, "missing: it says what is changed");
        let kind = text("/kind").ok_or_else(|| missing("patch.kind"))?;
        let name = text("/metadata/name").ok_or_else(|| missing("patch.metadata.name"))?;
        let namespace = text("/metadata/namespace");
        let namespace = namespace.unwrap_or(if kind == "Pod" { "default" } else { "" });
        let is_pod = |name: &str| {
            let mut pods = self.pods.iter().map(|pod| &pod.pod);
            pods.any(|pod| pod.name == name && pod.namespace == namespace)
        };
        let name = ObjectName::new(namespace, name);
        let mut objects = self.objects.all.iter();
        let is_there = match kind {
            "Pod" => is_pod(&name.name),
            kind => objects.any(|one| one.kind == kind && one.name == name),
        };
        let shown = match namespace {
            "" => format!("{kind} {}", name.name),
            _ => format!("{kind} {name}"),
        };
        if !is_there {
            let problem = format!("there is no {shown} in this folder");
            return Err(self.problem("patch.metadata.name", problem));
        }
        Ok(Change {
            at,
            title: parsed.title.unwrap_or(shown),
            kind: kind.to_owned(),
            name,
            patch: parsed.patch,
        })
    }
}
