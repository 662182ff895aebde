//! Where a pod's interface is: its two ends, and the sockets by which they are reached.

use std::path::Path;

use netqos_api::EgressWay;
use netqos_bpf::has_netkit_programs;
use netqos_core::Direction;
use netqos_netlink::link::Link;
use netqos_netlink::{Namespace, Socket};

use crate::error::Doing;
use crate::record::SideName;
use crate::{Error, Result};

/// One side of a pod's network: the host's, or the inside of its namespace.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) socket: Socket,
    /// `None`: the namespace in which this process is.
    pub(crate) namespace: Option<Namespace>,
}

/// The interfaces that the plugins before say they made on the host.
#[derive(Clone, Copy, Debug)]
pub enum HostLinks<'a> {
    /// The names of those without a sandbox. The host's end of a veth must be among them.
    Listed(&'a [String]),
    /// Nobody said; the kernel is believed.
    Unknown,
}

/// A pod's interface.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) pod: Link,
    /// The host's end, where there is one.
    pub(crate) host: Option<Link>,
}

impl Side {
    /// The side on which this process is.
    pub(crate) fn host() -> Result<Self> {
        Ok(Self {
            socket: Socket::open().doing("open netlink socket")?,
            namespace: None,
        })
    }

    /// The inside of this namespace.
    pub(crate) fn pod(path: &Path) -> Result<Self> {
        let open = || {
            let namespace = Namespace::open(path)?;
            Ok((Socket::open_in(&namespace)?, namespace))
        };
        let (socket, namespace) = open().map_err(|source| Error::OpenNamespace {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self {
            socket,
            namespace: Some(namespace),
        })
    }

    /// The inside of this namespace, if there still is one.
    pub(crate) fn pod_if_there(path: &Path) -> Result<Option<Self>> {
        match Self::pod(path) {
            Ok(side) => Ok(Some(side)),
            // A file without a namespace behind it is what is left of one, too.
            Err(Error::OpenNamespace { source, .. })
                if source.is_not_found() || source.errno() == Some(libc::EINVAL) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Does something with this thread inside of the side's namespace.
    pub(crate) fn inside<T>(&self, act: impl FnOnce() -> T) -> Result<T> {
        let _inside = match &self.namespace {
            Some(namespace) => Some(namespace.enter().doing("enter namespace")?),
            None => None,
        };
        Ok(act())
    }
}

impl Endpoint {
    /// Returns the end on the host if all that the pod sends passes the tc hooks there.
    pub(crate) fn host_hooks(&self) -> Option<&Link> {
        self.host.as_ref().filter(|host| sees_all(host))
    }

    /// Where the queue of a direction belongs: on which side, at which link, and whether that
    /// link's traffic is sent through an ifb or carries the queue itself.
    pub(crate) fn place(&self, direction: Direction, egress: EgressWay) -> (SideName, &Link, bool) {
        match (direction, &self.host, egress) {
            (Direction::Ingress, Some(host), _) => (SideName::Host, host, false),
            (Direction::Ingress, None, _) => (SideName::Pod, &self.pod, true),
            (Direction::Egress, Some(host), EgressWay::Ifb) => (SideName::Host, host, true),
            (Direction::Egress, ..) => (SideName::Pod, &self.pod, false),
        }
    }

    /// Finds both ends of the pod's interface of this name.
    pub(crate) fn locate(
        host: &mut Side,
        pod: &mut Side,
        name: &str,
        host_links: HostLinks<'_>,
    ) -> Result<Self> {
        let inside = pod
            .socket
            .link_by_name(name)
            .map_err(|source| Error::NoPodInterface {
                name: name.to_owned(),
                source,
            })?;
        if inside.is_loopback {
            return Err(Error::Loopback(name.to_owned()));
        }
        let listed = |names: &[String], end: &Link| names.contains(&end.name);
        let end = host_end(&inside, |index| host.socket.link_by_index(index).ok())?;
        match (&end, host_links) {
            (Some(end), HostLinks::Listed(names)) if !listed(names, end) => {
                Err(Error::PeerNotListed)
            }
            _ => Ok(Self {
                pod: inside,
                host: end,
            }),
        }
    }
}

/// Returns true if all that a pod sends passes the tc hooks of this end on the host. Programs of a netkit pair's own run
/// before those, and may redirect packets past them.
pub(crate) fn sees_all(host: &Link) -> bool {
    host.kind != "netkit" || !has_netkit_programs(host.index)
}

/// Returns the host's end of a pod's interface, a veth or netkit device; `None` if its kind has none. `find` returns
/// the host's link of an index.
///
/// # Errors
/// Returns an error if the other end is not on the host.
fn host_end(inside: &Link, find: impl FnOnce(u32) -> Option<Link>) -> Result<Option<Link>> {
    if !inside.is_pair_end() {
        return Ok(None);
    }
    let index = inside.related;
    let index = index.ok_or_else(|| Error::NoPeer(inside.name.clone()))?;
    let end = find(index).filter(|end| end.is_other_end_of(inside));
    end.map(Some).ok_or(Error::PeerElsewhere(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: &str, related: Option<u32>) -> Link {
        Link {
            index,
            kind: kind.to_owned(),
            related,
            ..Link::default()
        }
    }

    #[test]
    fn host_end_is_found_of_veth_and_netkit() {
        for kind in ["veth", "netkit"] {
            let inside = link(2, kind, Some(7));
            let end = link(7, kind, Some(2));
            let found = host_end(&inside, |index| (index == 7).then(|| end.clone()));
            assert_eq!(found.unwrap(), Some(end), "{kind}");
        }
    }

    #[test]
    fn interface_of_another_kind_has_no_host_end() {
        for kind in ["macvlan", "ipvlan", ""] {
            let found = host_end(&link(2, kind, Some(7)), |_| panic!("{kind} has none"));
            assert_eq!(found.unwrap(), None, "{kind}");
        }
    }

    /// The host may have another link of the same index.
    #[test]
    fn other_end_in_a_third_namespace_is_an_error() {
        let inside = link(2, "netkit", Some(7));
        for other in [
            link(7, "netkit", Some(9)),
            link(7, "veth", Some(2)),
            link(7, "", None),
        ] {
            let found = host_end(&inside, |_| Some(other.clone()));
            assert!(matches!(found, Err(Error::PeerElsewhere(7))), "{other:?}");
        }
        assert!(host_end(&inside, |_| None).is_err());
        assert!(host_end(&link(2, "netkit", None), |_| None).is_err());
    }
}
