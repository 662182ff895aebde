//! GC: what is left of attachments that nobody uses any more.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CachedAttachment, NetworkConfigList, Runtime, RuntimeError};
use crate::CniVersion;
use crate::plugin::{Command, GcAttachment};

/// The keys under which plugins look for the living attachments: that of the specification, and
/// the one that its text has used by mistake (containernetworking/cni#1101).
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

impl Runtime {
    /// GC: deletes the cached attachments of the network that are not among the `valid` ones, then
    /// lets each plugin remove what else it finds (since 1.1.0). Does nothing when the list says
    /// `disableGC`. Must not run beside ADD or DEL of the same network.
    ///
    /// # Errors
    ///
    /// Returns all errors. None stops the rest.
    pub fn gc(
        &self,
        list: &NetworkConfigList,
        valid: &BTreeSet<GcAttachment>,
    ) -> Result<(), RuntimeError> {
        if list.disable_gc {
            return Ok(());
        }
        let mut failures: Vec<_> = self
            .cached_attachments()
            .iter()
            .filter(|cached| cached.network == list.name && !valid.contains(&identity(cached)))
            .filter_map(|cached| self.delete_stale(list, cached).err())
            .collect();
        if list.version >= CniVersion::V1_1_0 {
            failures.extend(self.gc_plugins(list, valid));
        }
        RuntimeError::of_all(failures)
    }

    fn delete_stale(
        &self,
        list: &NetworkConfigList,
        cached: &CachedAttachment,
    ) -> Result<(), RuntimeError> {
        self.del(list, &cached.request())
            .map_err(|error| RuntimeError::StaleAttachment {
                container_id: cached.container_id.clone(),
                ifname: cached.ifname.clone(),
                error: Box::new(error),
            })
    }

    fn gc_plugins(
        &self,
        list: &NetworkConfigList,
        valid: &BTreeSet<GcAttachment>,
    ) -> Vec<RuntimeError> {
        let valid: Value = valid
            .iter()
            .map(|alive| json!({"containerID": alive.container_id, "ifname": alive.ifname}))
            .collect();
        list.plugins
            .iter()
            .filter_map(|plugin| {
                let mut config = list.config_for(plugin);
                config.extend(KEYS.map(|key| (key.to_owned(), valid.clone())));
                self.execute(Command::Gc, plugin, &config, None).err()
            })
            .collect()
    }
}

fn identity(cached: &CachedAttachment) -> GcAttachment {
    GcAttachment {
        container_id: cached.container_id.clone(),
        ifname: cached.ifname.clone(),
    }
}
