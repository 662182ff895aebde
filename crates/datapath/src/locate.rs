//! How a pod's interface can be reached, found out without changing anything.

use std::path::Path;

use netqos_netlink::Namespace;

use crate::endpoint::{Endpoint, HostLinks, Side};
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

/// How the interface of this name in this namespace can be reached. `None`: the namespace is gone.
///
/// # Errors
/// There is no such interface, or it is of a kind that cannot be reached, such as a veth whose other
/// end is elsewhere.
pub fn locate(netns: &Path, interface: &str) -> Result<Option<Reach>> {
    let Some(mut pod) = pod_of(netns)? else {
        return Ok(None);
    };
    let mut host = Side::host()?;
    let found = Endpoint::locate(&mut host, &mut pod, interface, HostLinks::Unknown)?;
    Ok(Some(match found.host_hooks() {
        Some(_) => Reach::HostVeth,
        None => Reach::PodNetns,
    }))
}

/// The same for the pod's first interface, with its name: the one that runtimes call `eth0`, or else
/// the only one that is up.
///
/// # Errors
/// [`Error::NoFirstInterface`], or it cannot be reached.
pub fn locate_first(netns: &Path) -> Result<Option<(String, Reach)>> {
    let Some(mut pod) = pod_of(netns)? else {
        return Ok(None);
    };
    // Tunnels that the kernel puts into every namespace are down.
    let mut links = pod.socket.links().doing("list links")?;
    links.retain(|link| !link.is_loopback && (link.is_up || link.name == FIRST));
    let names = links.into_iter().map(|link| link.name);
    let mut names: Vec<String> = names.collect();
    let name = match names.iter().position(|name| name == FIRST) {
        Some(first) => names.swap_remove(first),
        None if names.len() == 1 => names.swap_remove(0),
        None => return Err(Error::NoFirstInterface(names)),
    };
    Ok(locate(netns, &name)?.map(|reach| (name, reach)))
}

/// The inside of a pod's namespace, if there still is one. A runtime may have named it by a process,
/// whose number is another one's by now: in the namespace of the node `eth0` is the way to the node.
fn pod_of(netns: &Path) -> Result<Option<Side>> {
    let Some(side) = Side::pod_if_there(netns)? else {
        return Ok(None);
    };
    if let Some(namespace) = &side.namespace {
        let here = Namespace::current().doing("find out which network namespace this is")?;
        let same = namespace.is_same(&here);
        if same.doing("compare network namespaces")? {
            return Err(Error::NodesNamespace(netns.display().to_string()));
        }
    }
    Ok(Some(side))
}
