//! How a pod's interface can be reached, found out without changing anything.

use std::path::Path;

use netqos_core::plan::Ends;
use netqos_netlink::Namespace;
use netqos_netlink::link::{Link, optional};

use crate::endpoint::{Endpoint, HostLinks, Side, host_link};
use crate::error::Doing;
use crate::{Error, Result};

/// What a pod's first interface is called by every runtime.
const FIRST: &str = "eth0";

/// How an interface can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By its other end, a veth or netkit device in the namespace of the caller, whose tc hooks all that the pod sends
    /// passes.
    HostVeth,
    /// Inside of the pod's namespace only.
    PodNetns,
}

/// An interface that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// How it can be reached.
    pub reach: Reach,
    /// Its links.
    pub ends: Ends,
}

/// What is known of an interface besides its name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Its links.
    pub ends: Option<Ends>,
    /// The names of the links that the plugins made on the host for its network: its other end is one of them.
    pub host_links: &'a [String],
}

/// How an interface in this namespace can be reached. `None`: the namespace is gone.
///
/// A pod with `CAP_NET_ADMIN` renames its links, makes others under their names, and moves them. So the interface is, in
/// this order: the one with the known links, as long as one of them exists; the one whose other end is a host link that the
/// plugins made; the one of this name, if it leads out of the pod; the only one that does; the one of this name, if none
/// does.
///
/// # Errors
/// There is no such interface, or it is of a kind that cannot be reached, such as a veth whose other
/// end is elsewhere.
pub fn locate(netns: &Path, name: &str, known: Known<'_>) -> Result<Option<Located>> {
    let Some(mut pod) = Side::pod_if_there(netns)? else {
        return Ok(None);
    };
    let mut host = Side::host()?;
    let known_ends = match known.ends {
        Some(ends) if exists(&mut host, &mut pod, ends)? => Some(ends),
        _ => None,
    };
    let ends = match known_ends {
        Some(ends) => Some(ends),
        None => match listed(&mut host, &pod, known.host_links)? {
            Some(ends) => Some(ends),
            None => way_out(&mut host, &mut pod, name)?,
        },
    };
    let found = Endpoint::locate(&mut host, &mut pod, name, ends, HostLinks::Unknown)?;
    let reach = match found.host_hooks() {
        Some(_) => Reach::HostVeth,
        None => Reach::PodNetns,
    };
    let ends = found.ends();
    Ok(Some(Located { reach, ends }))
}

/// The same for the pod's first interface, with its name: the one that runtimes call `eth0`, or else the only one that
/// leads out of the pod, or is up.
///
/// # Errors
/// [`Error::NoFirstInterface`], or it cannot be reached.
pub fn locate_first(netns: &Path) -> Result<Option<(String, Located)>> {
    let Some(mut pod) = Side::pod_if_there(netns)? else {
        return Ok(None);
    };
    let ends = way_out(&mut Side::host()?, &mut pod, FIRST)?;
    // Tunnels that the kernel puts into every namespace are down.
    let mut links = pod.socket.links().doing("list links")?;
    links.retain(|link| match ends {
        Some(ends) => link.index == ends.pod,
        None => !link.is_loopback && (link.is_up || link.name == FIRST),
    });
    let names = links.into_iter().map(|link| link.name);
    let mut names: Vec<String> = names.collect();
    let name = match names.iter().position(|name| name == FIRST) {
        Some(first) => names.swap_remove(first),
        None if names.len() == 1 => names.swap_remove(0),
        None => return Err(Error::NoFirstInterface(names)),
    };
    let located = locate(
        netns,
        &name,
        Known {
            ends,
            ..Known::default()
        },
    )?;
    Ok(located.map(|located| (name, located)))
}

/// Returns true if one of the links exists.
fn exists(host: &mut Side, pod: &mut Side, ends: Ends) -> Result<bool> {
    Ok(match ends.host {
        Some(_) => host_link(host, ends)?.is_some(),
        None => {
            let link = optional(pod.socket.link_by_index(ends.pod)).doing("find link")?;
            link.is_some_and(|link| !link.is_pair_end())
        }
    })
}

/// The interface whose other end is one of these links of the host. Where the pod has moved it, the only pair among them.
fn listed(host: &mut Side, pod: &Side, names: &[String]) -> Result<Option<Ends>> {
    let mut pairs = Vec::new();
    for name in names {
        let link = optional(host.socket.link_by_name(name)).doing("find link")?;
        // An end of a pair on the host, as a bridge's uplink, is nobody's.
        pairs.extend(link.filter(|link| link.is_pair_end() && link.related_namespace.is_some()));
    }
    let ends = |link: &Link| {
        let host = Some(link.index);
        link.related.map(|pod| Ends { pod, host })
    };
    if let Some(namespace) = &pod.namespace {
        for link in &pairs {
            if is_in(host, link, namespace)? {
                return Ok(ends(link));
            }
        }
    }
    Ok(match pairs.as_slice() {
        [only] => ends(only),
        _ => None,
    })
}

fn is_in(side: &mut Side, link: &Link, namespace: &Namespace) -> Result<bool> {
    let is_in = side.socket.is_related_in(link, namespace);
    is_in.doing("compare network namespaces")
}

/// The link of this name, if it leads out of the pod, else the only one that does. `None` where none does: the name says
/// which is meant.
fn way_out(host: &mut Side, pod: &mut Side, name: &str) -> Result<Option<Ends>> {
    let named = optional(pod.socket.link_by_name(name)).doing("find link")?;
    let named = named.map(|link| ends_of_way_out(host, pod, &link));
    if let Some(ends) = named.transpose()?.flatten() {
        return Ok(Some(ends));
    }
    let mut ways = Vec::new();
    for link in pod.socket.links().doing("list links")? {
        if let Some(ends) = ends_of_way_out(host, pod, &link)? {
            ways.push((link.name, ends));
        }
    }
    match ways.as_slice() {
        [] => Ok(None),
        [(_, ends)] => Ok(Some(*ends)),
        _ => Err(Error::Ambiguous {
            name: name.to_owned(),
            ways: ways.into_iter().map(|(name, _)| name).collect(),
        }),
    }
}

/// The links of an interface, if it leads out of the pod: its other end, or the link below it, is on the host, or it is a
/// piece of hardware. A pod makes no such link by itself.
fn ends_of_way_out(host: &mut Side, pod: &mut Side, link: &Link) -> Result<Option<Ends>> {
    let index = link.index;
    if link.is_pair_end() {
        let Some(namespace) = &pod.namespace else {
            return Ok(None);
        };
        let end = host.socket.other_end(link, namespace);
        return Ok(end.doing("find the host's end")?.map(|end| Ends {
            pod: index,
            host: Some(end.index),
        }));
    }
    let here = Namespace::current().doing("find out which network namespace this is")?;
    let is_out = !link.is_loopback && (link.kind.is_empty() || is_in(pod, link, &here)?);
    Ok(is_out.then_some(Ends {
        pod: index,
        host: None,
    }))
}
