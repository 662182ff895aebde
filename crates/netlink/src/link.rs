//! Links: finding them, making ifbs, and the few properties that netqos changes.

mod data;

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use crate::wire::{self, Request};
use crate::{Namespace, Result, Socket};

pub use data::LinkData;

/// Attributes of links (`include/uapi/linux/if_link.h`).
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_STATS64: u16 = 23;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_TARGET_NETNSID: u16 = 46;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
/// Inside of the data of a veth: its other end (`include/uapi/linux/veth.h`).
const VETH_INFO_PEER: u16 = 1;
/// Kinds of links with two ends that behave alike: what one end sends, the other receives.
const PAIRS: [&str; 2] = ["veth", "netkit"];
/// Kinds of tunnels that may carry pods' packets between nodes.
const TUNNELS: [&str; 6] = ["geneve", "ip6tnl", "ipip", "sit", "vxlan", "wireguard"];
/// Leaves the statistics out of answers.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
/// `rx_bytes`, `tx_bytes` and `tx_dropped` in `struct rtnl_link_stats64`.
const RX_BYTES: usize = 16;
const TX_BYTES: usize = 24;
const TX_DROPPED: usize = 56;
/// `sizeof(struct ifinfomsg)`.
const IFINFOMSG: usize = 16;
/// There where ifb is a module, and loaded.
const IFB_MODULE: &str = "/sys/module/ifb";
/// What kernels before 5.17, which do not say, let a GSO packet hold.
const GSO_LEGACY_MAX_SIZE: u32 = 65_536;

/// A network interface as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number, unique inside of its network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it is: `veth`, `macvlan`, `ifb`; empty for hardware.
    pub kind: String,
    /// Bytes of payload in a frame.
    pub mtu: u32,
    /// Packets that its queue may hold, for qdiscs that go by it.
    pub tx_queue_len: u32,
    /// The largest packet that is handed to it in one piece, in bytes.
    pub gso_max_size: u32,
    /// The hardware address.
    pub address: Vec<u8>,
    /// The link that belongs to it: of a veth its other end, of a macvlan its parent.
    pub related: Option<u32>,
    /// The network namespace of the related link, where that is another one: the number that this link's namespace has
    /// for it ([`Socket::namespace_id`]).
    pub related_namespace: Option<i32>,
    /// The attribute of its kind, of those kinds of which netqos needs one.
    pub data: LinkData,
    /// The link that it is a port of: a bond, or a bridge.
    pub master: Option<u32>,
    /// Free text, which others may write too.
    pub alias: Option<String>,
    /// True when it is administratively up.
    pub is_up: bool,
    /// True for the loopback interface.
    pub is_loopback: bool,
}

/// A change to a link. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// The alias; an empty one removes it.
    pub alias: Option<String>,
    /// The transmit queue length in packets.
    pub tx_queue_len: Option<u32>,
}

/// What went through a link since it was made, in bytes of layer 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What it received.
    pub received: u64,
    /// What it sent.
    pub sent: u64,
}

impl Link {
    /// Reads what stands behind the header of an `RTM_NEWLINK` message; `None` when that is too
    /// short to be one. What is cut off or malformed is left out.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut link = Self {
            index: wire::u32_at(payload, 4)?,
            gso_max_size: GSO_LEGACY_MAX_SIZE,
            is_up: wire::u32_at(payload, 8)? & libc::IFF_UP as u32 != 0,
            is_loopback: wire::u32_at(payload, 8)? & libc::IFF_LOOPBACK as u32 != 0,
            ..Self::default()
        };
        for (kind, value) in wire::attributes(payload.get(IFINFOMSG..)?) {
            match kind {
                IFLA_IFNAME => link.name = wire::text(value),
                IFLA_ADDRESS => link.address = value.to_vec(),
                IFLA_MTU => link.mtu = wire::u32_at(value, 0)?,
                IFLA_TXQLEN => link.tx_queue_len = wire::u32_at(value, 0)?,
                IFLA_GSO_MAX_SIZE => link.gso_max_size = wire::u32_at(value, 0)?,
                IFLA_LINK => link.related = wire::u32_at(value, 0).filter(|index| *index != 0),
                IFLA_MASTER => link.master = wire::u32_at(value, 0).filter(|index| *index != 0),
                IFLA_IFALIAS => link.alias = Some(wire::text(value)),
                IFLA_LINK_NETNSID => link.related_namespace = Some(wire::u32_at(value, 0)? as i32),
                IFLA_LINKINFO => link.read_kind(value),
                _ => {}
            }
        }
        Some(link)
    }

    fn read_kind(&mut self, info: &[u8]) {
        let find = |wanted| wire::attribute(info, wanted);
        self.kind = find(IFLA_INFO_KIND).map(wire::text).unwrap_or_default();
        self.data = LinkData::read(&self.kind, find(IFLA_INFO_DATA).unwrap_or_default());
    }

    /// Returns true for an end of a pair: a veth, or a netkit device (Linux 6.7).
    pub fn is_pair_end(&self) -> bool {
        PAIRS.contains(&self.kind.as_str())
    }

    /// Returns true for a tunnel of a kind that may carry pods' packets between nodes.
    pub fn is_tunnel(&self) -> bool {
        TUNNELS.contains(&self.kind.as_str())
    }

    /// The hardware address as people write it: `02:00:5e:…`.
    pub fn mac(&self) -> String {
        let bytes = self.address.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    }
}

fn ifinfomsg(index: u32, flags: u32, change: u32) -> Vec<u8> {
    wire::words([0, index, flags, change])
}

/// A request about the link of this index; 0: not by its index.
fn request(kind: u16, flags: i32, index: u32) -> Request {
    Request::new(kind, flags, &ifinfomsg(index, 0, 0))
}

/// A request for what [`Link::read`] reads.
fn get_request(flags: i32, index: u32) -> Request {
    request(libc::RTM_GETLINK, flags, index).number(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
}

/// A request for a new link with these flags.
fn add_request(flags: u32, name: &str, mtu: u32) -> Request {
    let kind_flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let header = ifinfomsg(0, flags, flags);
    let request = Request::new(libc::RTM_NEWLINK, kind_flags, &header);
    request.string(IFLA_IFNAME, name).number(IFLA_MTU, mtu)
}

impl Socket {
    /// The link of this name.
    ///
    /// # Errors
    /// One that [`is_not_found`](crate::Error::is_not_found) when there is none.
    pub fn link_by_name(&mut self, name: &str) -> Result<Link> {
        let request = get_request(libc::NLM_F_ACK, 0).string(IFLA_IFNAME, name);
        self.fetched(&|| format!("find link {name}"), request, Link::read)
    }

    /// The link of this index.
    ///
    /// # Errors
    /// One that [`is_not_found`](crate::Error::is_not_found) when there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Link> {
        let request = get_request(libc::NLM_F_ACK, index);
        let doing = || format!("find link with index {index}");
        self.fetched(&doing, request, Link::read)
    }

    /// Returns the other end of a pair, if it is in this socket's namespace. `end` is a link of the namespace `inside`.
    ///
    /// Indexes alone do not tell: who has `CAP_NET_ADMIN` in a namespace makes pairs there with indexes of its choice.
    pub fn other_end(&mut self, end: &Link, inside: &Namespace) -> Result<Option<Link>> {
        let Some(index) = end.related.filter(|_| end.is_pair_end()) else {
            return Ok(None);
        };
        // This answer gives a namespace its number that has none yet.
        let found = optional(self.link_by_index(index))?;
        let names_it = |found: &Link| found.kind == end.kind && found.related == Some(end.index);
        match found.filter(names_it) {
            Some(found) if self.is_related_in(&found, inside)? => Ok(Some(found)),
            _ => Ok(None),
        }
    }

    /// Returns true if the related link of `link`, a link of this socket's namespace, is in the namespace `other`.
    pub fn is_related_in(&mut self, link: &Link, other: &Namespace) -> Result<bool> {
        Ok(match link.related_namespace {
            None => false,
            id => id == self.namespace_id(other)?,
        })
    }

    /// Returns the link of this index, and what went through it. With the number that this socket's namespace has for
    /// another one, it is a link there: the caller does not enter that namespace, and needs `CAP_NET_ADMIN` over it.
    ///
    /// # Errors
    /// Returns an error that [`is_not_found`](crate::Error::is_not_found) if there is none.
    pub fn link_and_traffic(
        &mut self,
        index: u32,
        namespace: Option<i32>,
    ) -> Result<(Link, Traffic)> {
        let mut request = request(libc::RTM_GETLINK, libc::NLM_F_ACK, index);
        if let Some(id) = namespace {
            request = request.number(IFLA_TARGET_NETNSID, id as u32);
        }
        let context = || format!("count what goes through the link with index {index}");
        self.fetched(&context, request, |payload| {
            let statistics = wire::attribute(payload.get(IFINFOMSG..)?, IFLA_STATS64)?;
            let traffic = Traffic {
                received: wire::u64_at(statistics, RX_BYTES)?,
                sent: wire::u64_at(statistics, TX_BYTES)?,
            };
            Some((Link::read(payload)?, traffic))
        })
    }

    /// The number of packets that the link could not send (`tx_dropped`): its driver's, and on kernels that count
    /// them those that came while it had no qdisc.
    pub fn tx_dropped(&mut self, link: &Link) -> Result<u64> {
        let request = request(libc::RTM_GETLINK, libc::NLM_F_ACK, link.index);
        let context = || format!("count dropped packets of link {}", link.name);
        self.fetched(&context, request, |payload| {
            let statistics = wire::attribute(payload.get(IFINFOMSG..)?, IFLA_STATS64)?;
            wire::u64_at(statistics, TX_DROPPED)
        })
    }

    /// All links of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>> {
        let request = get_request(libc::NLM_F_DUMP, 0);
        self.dumped(&|| "list links".to_owned(), &request, Link::read)
    }

    /// Changes a link.
    pub fn change_link(&mut self, link: &Link, change: &LinkChange) -> Result<()> {
        let mut request = request(libc::RTM_SETLINK, libc::NLM_F_ACK, link.index);
        if let Some(alias) = &change.alias {
            // Without the terminating zero, which the kernel would count as part of it.
            request = request.attribute(IFLA_IFALIAS, alias.as_bytes());
        }
        if let Some(length) = change.tx_queue_len {
            request = request.number(IFLA_TXQLEN, length);
        }
        self.acknowledged(&|| format!("change link {}", link.name), request)
    }

    /// Brings a link up or takes it down.
    pub fn set_link_up(&mut self, link: &Link, up: bool) -> Result<()> {
        let flag = libc::IFF_UP as u32;
        let header = ifinfomsg(link.index, if up { flag } else { 0 }, flag);
        let request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &header);
        self.acknowledged(&|| format!("set link {} up", link.name), request)
    }

    /// Makes an intermediate functional block device, which is up: what is redirected to it passes
    /// its qdisc and goes on where it came from.
    ///
    /// # Errors
    /// One that [`is_exists`](crate::Error::is_exists) when there is a link of this name, one that
    /// [`is_unsupported`](crate::Error::is_unsupported) when the kernel has no ifb.
    pub fn add_ifb(&mut self, name: &str, mtu: u32, tx_queue_len: u32) -> Result<Link> {
        let request = add_request(libc::IFF_UP as u32, name, mtu)
            .number(IFLA_TXQLEN, tx_queue_len)
            .nest(IFLA_LINKINFO, |it| it.attribute(IFLA_INFO_KIND, b"ifb"));
        let is_loaded = || Path::new(IFB_MODULE).exists();
        let was_loaded = is_loaded();
        self.acknowledged(&|| format!("add link {name} of kind ifb"), request)?;
        // False before and after where ifb is not a module: there those links are not ours to remove.
        if !was_loaded && is_loaded() {
            remove_initial_ifbs();
        }
        self.link_by_name(name)
    }

    /// Makes a pair of veths with this MTU, the other end in the namespace of this socket too.
    /// Both are down.
    pub fn add_veth_pair(&mut self, name: &str, peer: &str, mtu: u32) -> Result<(Link, Link)> {
        let request = add_request(0, name, mtu).nest(IFLA_LINKINFO, |request| {
            request
                .attribute(IFLA_INFO_KIND, b"veth")
                .nest(IFLA_INFO_DATA, |request| {
                    let mut other = ifinfomsg(0, 0, 0);
                    other.extend(Request::attributes_only(|r| {
                        r.string(IFLA_IFNAME, peer).number(IFLA_MTU, mtu)
                    }));
                    request.attribute(VETH_INFO_PEER, &other)
                })
        });
        self.acknowledged(&|| format!("add link {name} of kind veth"), request)?;
        Ok((self.link_by_name(name)?, self.link_by_name(peer)?))
    }

    /// Moves a link into another network namespace, where it is down and may have another index.
    pub fn move_link(&mut self, link: &Link, to: &Namespace) -> Result<()> {
        let descriptor = to.as_fd().as_raw_fd() as u32;
        let request = request(libc::RTM_NEWLINK, libc::NLM_F_ACK, link.index);
        let request = request.number(IFLA_NET_NS_FD, descriptor);
        self.acknowledged(&|| format!("move link {}", link.name), request)
    }

    /// Deletes a link.
    pub fn delete_link(&mut self, link: &Link) -> Result<()> {
        let request = request(libc::RTM_DELLINK, libc::NLM_F_ACK, link.index);
        self.acknowledged(&|| format!("delete link {}", link.name), request)
    }
}

/// Turns "there is none" into `None`.
pub fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Turns "it is gone already" into success.
pub fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// Removes the two ifbs that the module makes when a request for one loads it (`numifbs` of
/// `drivers/net/ifb.c`). They are in the first network namespace, and never up. Where they cannot be removed
/// they stay: nothing uses them.
fn remove_initial_ifbs() {
    let Ok(mut socket) = Socket::open() else {
        return;
    };
    for name in ["ifb0", "ifb1"] {
        if let Ok(link) = socket.link_by_name(name)
            && link.kind == "ifb"
            && !link.is_up
        {
            let _ = socket.delete_link(&link);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    /// A link as the kernel reports it, with these attributes.
    fn reported(flags: u32, attributes: impl FnOnce(Request) -> Request) -> Link {
        let mut payload = ifinfomsg(7, flags, 0);
        payload.extend(Request::attributes_only(attributes));
        Link::read(&payload).unwrap()
    }

    #[test]
    fn what_the_kernel_leaves_out_is_not_invented() {
        let bare = reported(0, |request| request);
        assert_eq!((bare.index, bare.is_up), (7, false));
        assert_eq!(bare.related, None);
        assert_eq!((bare.alias.as_deref(), bare.mac().as_str()), (None, ""));
        // Kernels before 5.17 do not say it, and have this one.
        assert_eq!(bare.gso_max_size, 65_536);
    }

    #[test]
    fn end_of_a_pair_is_known_by_its_kind() {
        for (kind, is_end) in [("veth", true), ("netkit", true), ("macvlan", false)] {
            let of = |kind: &str| {
                reported(0, |request| {
                    request
                        .number(IFLA_LINK, 3)
                        .number(IFLA_LINK_NETNSID, 0)
                        .nest(IFLA_LINKINFO, |it| {
                            it.string(IFLA_INFO_KIND, kind)
                                .nest(IFLA_INFO_DATA, |it| it)
                        })
                })
            };
            let link = of(kind);
            assert_eq!(link.is_pair_end(), is_end, "{kind}");
            assert_eq!(link.related_namespace, Some(0));
        }
    }

    #[test]
    fn the_related_link_is_told_where_there_is_one() {
        for (link, related) in [(0, None), (3, Some(3))] {
            let found = reported(libc::IFF_UP as u32, |request| {
                request.number(IFLA_LINK, link)
            });
            assert!(found.is_up);
            assert_eq!(found.related, related);
        }
    }

    proptest! {
        #[test]
        fn attributes_are_read(name in "[a-z0-9]{1,15}", kind in "[a-z]{0,9}", alias in "[ -~]{0,60}",
                               address: [u8; 6], numbers: [u32; 3]) {
            let [mtu, queue, gso] = numbers;
            let found = reported(0, |request| {
                request
                    .string(IFLA_IFNAME, &name)
                    .attribute(IFLA_ADDRESS, &address)
                    .number(IFLA_MTU, mtu)
                    .number(IFLA_TXQLEN, queue)
                    .number(IFLA_GSO_MAX_SIZE, gso)
                    .string(IFLA_IFALIAS, &alias)
                    .nest(IFLA_LINKINFO, |request| request.string(IFLA_INFO_KIND, &kind))
            });
            prop_assert_eq!((found.mtu, found.tx_queue_len, found.gso_max_size), (mtu, queue, gso));
            prop_assert_eq!((&found.name, &found.kind), (&name, &kind));
            prop_assert_eq!(found.alias.as_deref(), Some(alias.as_str()));
            let read: Vec<_> = found.mac().split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
            prop_assert_eq!(read, address.map(Ok));
        }

        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            if let Some(link) = Link::read(&payload) {
                let _ = link.mac();
            }
        }
    }
}
