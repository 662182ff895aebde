//! Programs that nobody wrote down: whoever put them there lost the record.

use std::collections::HashSet;

use netqos_bpf::Pins;
use netqos_bpf::rules::Rules;
use netqos_netlink::Handle;

use super::site::{self, RULES, RULES_NEW, Site};
use crate::endpoint::Side;
use crate::error::{Doing, Errors};
use crate::record::SideName;
use crate::{Paths, Result};

/// Takes programs away from the node's interfaces, and pins, that are of none of the endpoints that
/// are written down. Says how many there were.
///
/// In the namespace of a pod such a program stays until the pod goes. It lets every packet pass,
/// unless its number becomes another endpoint's, of which there are 65,535. An empty clsact stays:
/// nobody knows whose it was.
///
/// # Errors
/// What could not be removed; the rest is.
pub(super) fn remove(host: &mut Side, rules: &Rules, paths: &Paths) -> (u64, Result<()>) {
    // Also of those that are not of the plan and could not be removed.
    let sites = Site::all(paths);
    let mut errors = Errors::default();
    let mut removed = 0;
    let on_host = sites.iter().filter(|site| site.side == SideName::Host);
    let known: HashSet<u32> = on_host.map(|site| site.index).collect();
    let links = errors.note(host.socket.links().doing("list links"));
    for link in links.into_iter().flatten() {
        if !known.contains(&link.index) {
            let hook = Handle::CLSACT_INGRESS;
            let filters = errors.note(site::remove_filters(&mut host.socket, &link, hook));
            removed += filters.unwrap_or_default();
        }
    }
    let tags = sites.iter().map(|site| site.attachment.tag().to_string());
    let tags: HashSet<String> = tags.collect();
    for name in errors.note(pinned(paths)).into_iter().flatten() {
        let tag = name
            .strip_suffix(RULES)
            .or_else(|| name.strip_suffix(RULES_NEW));
        if tag.is_some_and(|tag| !tags.contains(tag)) {
            let released = site::release(&[rules.link_path(&name)]);
            removed += u64::from(errors.note(released).is_some());
        }
    }
    (removed, errors.finish())
}

fn pinned(paths: &Paths) -> Result<Vec<String>> {
    match Pins::open(paths.bpffs())? {
        Some(pins) => Ok(pins.link_names()?),
        None => Ok(Vec::new()),
    }
}
