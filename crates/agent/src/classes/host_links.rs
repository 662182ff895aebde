//! The host's ends of pods' interfaces, and the host's links below those that have none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::objects::LocalInterface;
use netqos_core::plan::{Attach, Interface};
use netqos_netlink::link::optional;
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
    let Some(index) = interface.ends.and_then(|ends| ends.host) else {
        return Ok(None);
    };
    let end = optional(Socket::open()?.link_by_index(index))?;
    Ok(end.map(|end| end.name))
}

fn lower(interface: &Interface) -> Result<Option<u32>> {
    let Some(ends) = interface.ends else {
        return Ok(None);
    };
    let namespace = Namespace::open(&interface.netns)?;
    let mut socket = Socket::open_in(&namespace)?;
    let inside = socket.link_by_index(ends.pod)?;
    // The link below a VLAN may be in the pod, too.
    let is_on_host = socket.is_related_in(&inside, &Namespace::current()?)?;
    Ok(inside.related.filter(|_| is_on_host))
}
