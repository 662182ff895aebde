//! Where a pod's interface is: its two ends, and the sockets by which they are reached.

use std::path::Path;

use netqos_api::EgressWay;
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
        if inside.kind != "veth" {
            return Ok(Self {
                pod: inside,
                host: None,
            });
        }
        let Some(index) = inside.related else {
            return Err(Error::NoPeer(name.to_owned()));
        };
        let peer = host
            .socket
            .link_by_index(index)
            .ok()
            // The number may be somebody else's here, when the other end is in a third namespace.
            .filter(|peer| peer.kind == "veth" && peer.related == Some(inside.index))
            .ok_or(Error::PeerElsewhere(index))?;
        match host_links {
            HostLinks::Listed(names) if !names.contains(&peer.name) => Err(Error::PeerNotListed),
            _ => Ok(Self {
                pod: inside,
                host: Some(peer),
            }),
        }
    }
}
