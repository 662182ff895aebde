//! How a pod's interface can be reached, found out without changing anything.

use std::path::Path;

use crate::Result;
use crate::endpoint::{Endpoint, HostLinks, Side};

/// How an interface can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By its other end, a veth in the namespace of the caller.
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
    let Some(mut pod) = Side::pod_if_there(netns)? else {
        return Ok(None);
    };
    let mut host = Side::host()?;
    let found = Endpoint::locate(&mut host, &mut pod, interface, HostLinks::Unknown)?;
    Ok(Some(match found.host {
        Some(_) => Reach::HostVeth,
        None => Reach::PodNetns,
    }))
}
