//! Programs that nobody wrote down: whoever put them there lost the record.

use std::collections::HashSet;

use netqos_netlink::Handle;

use super::engine::RuleDatapath;
use super::site::{self, RULES, RULES_NEW, Site};
use crate::Result;
use crate::error::{Doing, Errors};
use crate::record::SideName;

impl RuleDatapath {
    /// Takes programs away from the node's interfaces, and pins, that are of no endpoint. In the
    /// namespace of a pod they stay until it goes, and let every packet pass.
    ///
    /// # Errors
    /// What could not be removed; the rest is.
    pub(super) fn remove_strays(&mut self) -> Result<()> {
        // Also of those that are not of the plan and could not be removed.
        let sites = Site::all(&self.paths);
        let on_host = sites.iter().filter(|site| site.side == SideName::Host);
        let known: HashSet<u32> = on_host.map(|site| site.index).collect();
        let mut errors = Errors::default();
        for link in self.host.socket.links().doing("list links")? {
            if known.contains(&link.index) {
                continue;
            }
            let socket = &mut self.host.socket;
            let removed = site::remove_filters(socket, &link, Handle::CLSACT_INGRESS);
            self.changes += errors.note(removed).unwrap_or_default();
        }
        let tags = sites.iter().map(|site| site.attachment.tag().to_string());
        let tags: HashSet<String> = tags.collect();
        for name in self.pins.link_names()? {
            let tag = name
                .strip_suffix(RULES)
                .or_else(|| name.strip_suffix(RULES_NEW));
            if tag.is_some_and(|tag| !tags.contains(tag)) {
                errors.note(site::release(&[self.rules.link_path(&name)]));
                self.changes += 1;
            }
        }
        errors.finish()
    }
}
