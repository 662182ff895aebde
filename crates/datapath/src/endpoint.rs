//! Where a pod's interface is: its two ends, and the sockets by which they are reached.

use std::path::Path;

use netqos_api::EgressWay;
use netqos_bpf::has_netkit_programs;
use netqos_core::plan::Ends;
use netqos_core::{Limit, Limits};
use netqos_netlink::link::{Link, optional};
use netqos_netlink::{Namespace, Socket};

use crate::error::Doing;
use crate::record::{QueueName, SideName};
use crate::{Error, Result};

/// One side of a pod's network: the host's, or the inside of its namespace.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) socket: Socket,
    /// `None`: the namespace in which this process is.
    pub(crate) namespace: Option<Namespace>,
}

/// The queues of an ingress limit, where an interface has an end on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IngressWay {
    /// One at the host's end.
    Host,
    /// One at each end.
    Both,
    /// One at the pod's end.
    Pod,
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
    /// Its name when it was made.
    name: String,
    ends: Ends,
    /// The pod's end, unless the pod has moved it into another namespace.
    pod: Option<Link>,
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
    ///
    /// # Errors
    /// Returns [`Error::NodesNamespace`] for the one in which this process is: a runtime may have named a pod's by a
    /// process, whose number is another one's by now.
    pub(crate) fn pod(path: &Path) -> Result<Self> {
        let open = || {
            let namespace = Namespace::open(path)?;
            let is_nodes = namespace.is_same(&Namespace::current()?)?;
            Ok((Socket::open_in(&namespace)?, namespace, is_nodes))
        };
        let (socket, namespace, is_nodes) = open().map_err(|source| Error::OpenNamespace {
            path: path.display().to_string(),
            source,
        })?;
        if is_nodes {
            return Err(Error::NodesNamespace(path.display().to_string()));
        }
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

    /// The same to remove things from it: in the node's own namespace is nothing of a pod.
    pub(crate) fn pod_to_clean(path: &Path) -> Result<Option<Self>> {
        match Self::pod_if_there(path) {
            Err(Error::NodesNamespace(_)) => Ok(None),
            side => side,
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

    /// The queues by which limits are held, and the limits.
    pub(crate) fn queues(
        &self,
        limits: &Limits,
        ingress: IngressWay,
    ) -> impl Iterator<Item = (QueueName, Limit)> + use<> {
        let limits = *limits;
        let ingress = self.host.as_ref().map_or(IngressWay::Host, |_| ingress);
        let queues = QueueName::ALL.into_iter();
        let queues = queues.filter(move |queue| match queue {
            QueueName::Ingress => ingress != IngressWay::Pod,
            QueueName::IngressInPod => ingress != IngressWay::Host,
            QueueName::Egress => true,
        });
        queues.filter_map(move |queue| Some((queue, limits.of(queue.direction())?)))
    }

    /// Where a queue belongs: on which side, at which link, and whether that
    /// link's traffic is sent through an ifb or carries the queue itself.
    ///
    /// # Errors
    /// Returns [`Error::Moved`] if it belongs at the pod's end, and that is not in the pod's namespace.
    pub(crate) fn place(
        &self,
        queue: QueueName,
        egress: EgressWay,
    ) -> Result<(SideName, &Link, bool)> {
        Ok(match (queue, &self.host, egress) {
            (QueueName::Ingress, Some(host), _) => (SideName::Host, host, false),
            (QueueName::Ingress | QueueName::IngressInPod, ..) => {
                (SideName::Pod, self.pod()?, true)
            }
            (QueueName::Egress, Some(host), EgressWay::Ifb) => (SideName::Host, host, true),
            (QueueName::Egress, ..) => (SideName::Pod, self.pod()?, false),
        })
    }

    /// The pod's end.
    ///
    /// # Errors
    /// Returns [`Error::Moved`] if it is not in the pod's namespace.
    pub(crate) fn pod(&self) -> Result<&Link> {
        self.pod.as_ref().ok_or_else(|| Error::Moved {
            name: self.name.clone(),
            host: self.host.as_ref().map_or("", |host| &host.name).to_owned(),
        })
    }

    /// The links, by index.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// Finds the pod's interface: by its links, as long as one of them exists, else by its name.
    pub(crate) fn locate(
        host: &mut Side,
        pod: &mut Side,
        name: &str,
        ends: Option<Ends>,
        host_links: HostLinks<'_>,
    ) -> Result<Self> {
        let is_listed = |end: &Link| match host_links {
            HostLinks::Listed(names) => names.contains(&end.name),
            HostLinks::Unknown => true,
        };
        if let Some(ends) = ends
            && let Some(end) = host_link(host, ends)?
        {
            return match is_listed(&end) {
                true => Self::behind(host, pod, name, ends, end),
                false => Err(Error::PeerNotListed),
            };
        }
        // Whose other end is gone is another link.
        let known = match ends {
            Some(ends) => optional(pod.socket.link_by_index(ends.pod)).doing("find link")?,
            None => None,
        };
        let inside = match known.filter(|link| !link.is_pair_end()) {
            Some(link) => link,
            None => pod.socket.link_by_name(name).map_err(|source| {
                let name = name.to_owned();
                Error::NoPodInterface { name, source }
            })?,
        };
        if inside.is_loopback {
            return Err(Error::Loopback(inside.name));
        }
        let end = host_end(host, pod, &inside)?;
        match &end {
            Some(end) if !is_listed(end) => Err(Error::PeerNotListed),
            _ => Ok(Self {
                name: name.to_owned(),
                ends: Ends {
                    pod: inside.index,
                    host: end.as_ref().map(|end| end.index),
                },
                pod: Some(inside),
                host: end,
            }),
        }
    }

    /// The interface with this end on the host, which says which link is its other one: a link that comes back from another
    /// namespace may have another index.
    fn behind(
        host: &mut Side,
        pod: &mut Side,
        name: &str,
        mut ends: Ends,
        end: Link,
    ) -> Result<Self> {
        let mut inside = None;
        if let (Some(namespace), Some(index)) = (&pod.namespace, end.related) {
            let is_here = host.socket.is_related_in(&end, namespace);
            if is_here.doing("compare network namespaces")? {
                ends.pod = index;
                inside = optional(pod.socket.link_by_index(index)).doing("find link")?;
            }
        }
        Ok(Self {
            name: name.to_owned(),
            ends,
            pod: inside,
            host: Some(end),
        })
    }
}

/// Returns the host's end of a pod's interface, as long as it exists: the pod's end may be elsewhere by now.
pub(crate) fn host_link(host: &mut Side, ends: Ends) -> Result<Option<Link>> {
    let Some(index) = ends.host else {
        return Ok(None);
    };
    let link = optional(host.socket.link_by_index(index)).doing("find link")?;
    Ok(link.filter(Link::is_pair_end))
}

/// Returns true if all that a pod sends passes the tc hooks of this end on the host. Programs of a netkit pair's own run
/// before those, and may redirect packets past them.
pub(crate) fn sees_all(host: &Link) -> bool {
    host.kind != "netkit" || !has_netkit_programs(host.index)
}

/// Returns the host's end of a pod's interface, a veth or netkit device; `None` if its kind has none.
///
/// # Errors
/// Returns an error if the other end is not on the host.
fn host_end(host: &mut Side, pod: &Side, inside: &Link) -> Result<Option<Link>> {
    let Some(namespace) = pod.namespace.as_ref().filter(|_| inside.is_pair_end()) else {
        return Ok(None);
    };
    let index = inside.related;
    let index = index.ok_or_else(|| Error::NoPeer(inside.name.clone()))?;
    let end = host.socket.other_end(inside, namespace);
    let end = end.doing("find the host's end")?;
    end.map(Some).ok_or(Error::PeerElsewhere(index))
}
