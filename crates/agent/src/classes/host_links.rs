//! The host's ends of pods' interfaces, and the host's links below those that have none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::objects::LocalInterface;
use netqos_core::plan::{Attach, Interface};
use netqos_netlink::{Namespace, Result, Socket};

/// The host ends and lower links that were looked up.
#[derive(Debug, Default)]
pub(crate) struct HostLinks {
    known: BTreeMap<Interface, Arc<str>>,
    lower: BTreeMap<Interface, u32>,
}

impl HostLinks {
    /// The host's ends of these interfaces, where they have one that is to be found.
    pub(crate) fn of(&mut self, interfaces: &[LocalInterface]) -> BTreeSet<Arc<str>> {
        let veths = interfaces.iter().filter_map(|one| match &one.attach {
            Attach::HostVeth(interface) => Some(interface),
            Attach::PodNetns(_) | Attach::Unsupported { .. } => None,
        });
        let names = veths.filter_map(|interface| {
            if let Some(name) = self.known.get(interface) {
                return Some(name.clone());
            }
            let found = host_end(interface).unwrap_or_else(|why| {
                tracing::debug!(interface = interface.name, "look for the host's end: {why}");
                None
            });
            let name: Arc<str> = found?.into();
            self.known.insert(interface.clone(), name.clone());
            Some(name)
        });
        names.collect()
    }

    /// The index of the host's link below an interface without a host end, such as a macvlan's; `None` if it is not found.
    pub(crate) fn below(&mut self, interface: &LocalInterface) -> Option<u32> {
        let Attach::PodNetns(interface) = &interface.attach else {
            return None;
        };
        if let Some(index) = self.lower.get(interface) {
            return Some(*index);
        }
        let found = lower(interface).unwrap_or_else(|why| {
            tracing::debug!(interface = interface.name, "look for the link below: {why}");
            None
        });
        self.lower.insert(interface.clone(), found?);
        found
    }

    /// Forgets those that are of none of these interfaces.
    pub(crate) fn keep<'i>(&mut self, used: impl Iterator<Item = &'i LocalInterface>) {
        let used: BTreeSet<&Interface> = used.filter_map(|one| one.attach.interface()).collect();
        self.known.retain(|interface, _| used.contains(interface));
        self.lower.retain(|interface, _| used.contains(interface));
    }
}

fn host_end(interface: &Interface) -> Result<Option<String>> {
    let namespace = Namespace::open(&interface.netns)?;
    let inside = Socket::open_in(&namespace)?.link_by_name(&interface.name)?;
    let Some(index) = inside.related.filter(|_| inside.is_pair_end()) else {
        return Ok(None);
    };
    let end = Socket::open()?.link_by_index(index)?;
    // The index may be another link's here, if the other end is in a third namespace.
    Ok(end.is_other_end_of(&inside).then_some(end.name))
}

fn lower(interface: &Interface) -> Result<Option<u32>> {
    let namespace = Namespace::open(&interface.netns)?;
    let inside = Socket::open_in(&namespace)?.link_by_name(&interface.name)?;
    // The link below a VLAN may be in the pod, too.
    Ok(inside.related.filter(|_| inside.is_related_elsewhere))
}
