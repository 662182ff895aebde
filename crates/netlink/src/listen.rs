//! What the kernel tells of links, of their qdiscs, classes and filters, and of default routes and routing
//! rules as they come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket as Wire, SocketAddr};

use crate::link::Link;
use crate::route::{self, RuleTable};
use crate::socket::is_own;
use crate::wire::{self, Message};
use crate::{Error, Result};

/// `enum rtnetlink_groups`.
const GROUPS: [u32; 6] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_TC,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
];
/// Room for the largest message.
const RECEIVE_BUFFER: usize = 32 * 1024;

/// A socket that hears of links, traffic control and routes, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Listener {
    wire: Wire,
    received: Vec<u8>,
}

/// What was heard of in a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Links that are there, by their numbers, and what they are called; also those of which anything
    /// else is new.
    pub there: BTreeMap<u32, String>,
    /// The indexes of those among them that are tunnels.
    pub tunnels: BTreeSet<u32>,
    /// The numbers of links that went away, to nowhere or to another namespace. One that came back under
    /// its number is also among those that are there.
    pub gone: BTreeSet<u32>,
    /// The indexes of links whose qdiscs, classes or filters another process added, changed, deleted or read
    /// one by one: the kernel announces the answer to `RTM_GETQDISC`, too.
    pub traffic_control: BTreeSet<u32>,
    /// A default route came or went.
    pub default_routes: bool,
    /// The tables of routing rules that came. (A plugin may add a rule for each pod, to few tables.)
    pub rule_tables: BTreeSet<u32>,
    /// There was more than could be kept: anything may be another.
    pub lost: bool,
}

impl Listener {
    /// Listens from now on, in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        let wire = Self::connect().map_err(|source| Error::Socket {
            doing: "open".to_owned(),
            source,
        })?;
        Ok(Self {
            wire,
            received: Vec::with_capacity(RECEIVE_BUFFER),
        })
    }

    fn connect() -> io::Result<Wire> {
        let mut wire = Wire::new(NETLINK_ROUTE)?;
        wire.bind(&SocketAddr::new(0, 0))?;
        for group in GROUPS {
            wire.add_membership(group)?;
        }
        Ok(wire)
    }

    /// Waits until there is something, and then for so long for what comes with it: many links that come
    /// at once are one piece of news.
    ///
    /// # Errors
    /// The socket failed.
    pub fn wait(&mut self, gathering: Duration) -> Result<News> {
        let mut news = News::default();
        while news == News::default() {
            self.receive(0, &mut news)?;
        }
        thread::sleep(gathering);
        while self.receive(libc::MSG_DONTWAIT, &mut news)? {}
        Ok(news)
    }

    /// Takes note of one datagram; false when there is none.
    fn receive(&mut self, flags: i32, news: &mut News) -> Result<bool> {
        self.received.clear();
        match self.wire.recv(&mut self.received, flags) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                news.lost = true;
                return Ok(true);
            }
            Err(source) => {
                return Err(Error::Socket {
                    doing: "listen for links".to_owned(),
                    source,
                });
            }
        }
        let mut rest = &self.received[..];
        while let Some((message, next)) = wire::split_message(rest) {
            news.note(&message);
            rest = next;
        }
        Ok(true)
    }
}

impl News {
    fn note(&mut self, message: &Message<'_>) {
        match message.kind {
            // A bridge tells of its ports, too.
            libc::RTM_NEWLINK if is_of_links(message.payload) => {
                if let Some(link) = Link::read(message.payload) {
                    self.tunnels.extend(link.is_tunnel().then_some(link.index));
                    self.there.insert(link.index, link.name);
                }
            }
            libc::RTM_DELLINK if is_of_links(message.payload) => {
                if let Some(link) = Link::read(message.payload) {
                    self.there.remove(&link.index);
                    self.gone.insert(link.index);
                }
            }
            libc::RTM_NEWQDISC
            | libc::RTM_DELQDISC
            | libc::RTM_NEWTCLASS
            | libc::RTM_DELTCLASS
            | libc::RTM_NEWTFILTER
            | libc::RTM_DELTFILTER
                if !is_own(message.port) =>
            {
                // `struct tcmsg`. What is of a block has no link.
                self.traffic_control
                    .extend(wire::u32_at(message.payload, 4).filter(|index| *index as i32 > 0));
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                self.default_routes |= route::default_route(message.payload).is_some();
            }
            libc::RTM_NEWRULE => match route::rule_table(message.payload) {
                Some(RuleTable::Number(table)) => drop(self.rule_tables.insert(table)),
                Some(RuleTable::Vrf) | None => {}
            },
            _ => {}
        }
    }
}

/// Whether it is of links as such (`AF_UNSPEC`).
fn is_of_links(payload: &[u8]) -> bool {
    payload.first() == Some(&(libc::AF_UNSPEC as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    const IFLA_IFNAME: u16 = 3;

    fn link(kind: u16, family: u8, index: u32, name: &str) -> Vec<u8> {
        let mut header = [0; 16];
        header[0] = family;
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let request = Request::new(kind, 0, &header).string(IFLA_IFNAME, name);
        request.finish(0)
    }

    fn heard(messages: &[Vec<u8>]) -> News {
        let mut news = News::default();
        for bytes in messages {
            news.note(&wire::split_message(bytes).unwrap().0);
        }
        news
    }

    #[test]
    fn what_comes_and_what_goes() {
        let (new, gone) = (libc::RTM_NEWLINK, libc::RTM_DELLINK);
        let bridge = libc::AF_BRIDGE as u8;
        let news = heard(&[
            link(new, 0, 4, "eth0"),
            link(gone, 0, 5, "eth1"),
            // Back under its number, and under another name.
            link(gone, 0, 6, "eth2"),
            link(new, 0, 6, "up0"),
            // A port of a bridge that is none any more is still a link.
            link(gone, bridge, 4, "eth0"),
            link(new, 0, 7, "passing"),
            link(gone, 0, 7, "passing"),
        ]);
        let there = [(4, "eth0".to_owned()), (6, "up0".to_owned())];
        assert_eq!(news.there, BTreeMap::from(there));
        assert_eq!(news.gone, BTreeSet::from([5, 6, 7]));
        assert!(!news.default_routes && !news.lost);
    }

    #[test]
    fn of_traffic_control_at_which_links() {
        let changed = |kind, index: i32| {
            let tcmsg = wire::words([0, index as u32, 0, 0, 0]);
            Request::new(kind, 0, &tcmsg).finish(0)
        };
        let news = heard(&[
            changed(libc::RTM_DELQDISC, 4),
            changed(libc::RTM_NEWTFILTER, 5),
            changed(libc::RTM_NEWTCLASS, 5),
            // `TCM_IFINDEX_MAGIC_BLOCK`.
            changed(libc::RTM_NEWTFILTER, -1),
        ]);
        assert_eq!(news.traffic_control, BTreeSet::from([4, 5]));
    }

    #[test]
    fn of_routes_those_that_lines_are_known_by() {
        let route = |prefix: u8| {
            let main = libc::RT_TABLE_MAIN;
            let header = [2, prefix, 0, 0, main, 0, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
            Request::new(libc::RTM_NEWROUTE, 0, &header).finish(0)
        };
        assert!(heard(&[route(24), route(0)]).default_routes);
        assert_eq!(heard(&[route(24), route(32)]), News::default());
    }

    #[test]
    fn new_rules_are_reported_by_their_tables() {
        let rule = |kind, table| {
            let header = [2, 32, 0, 0, table, 0, 0, 1, 0, 0, 0, 0];
            Request::new(kind, 0, &header).finish(0)
        };
        let news = heard(&[
            rule(libc::RTM_NEWRULE, 2),
            rule(libc::RTM_NEWRULE, libc::RT_TABLE_MAIN),
            rule(libc::RTM_DELRULE, 3),
        ]);
        assert_eq!(news.rule_tables, BTreeSet::from([2, 254]));
    }
}
