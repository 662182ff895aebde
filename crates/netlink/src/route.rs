//! Routes, as far as it matters which link is the way out.

use std::collections::BTreeSet;

use crate::wire::{self, Request};
use crate::{Result, Socket};

/// Attributes of routes (`include/uapi/linux/rtnetlink.h`).
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// `sizeof(struct rtmsg)`.
const RTMSG: usize = 12;
/// `sizeof(struct rtnexthop)`.
const RTNEXTHOP: usize = 8;

impl Socket {
    /// The numbers of the links that default routes of the main table leave by, of IPv4 and IPv6.
    pub fn default_route_links(&mut self) -> Result<BTreeSet<u32>> {
        let mut links = BTreeSet::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut rtmsg = [0; RTMSG];
            rtmsg[0] = family as u8;
            let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &rtmsg);
            let found = self.dumped(&|| "list routes".to_owned(), &request, default_links)?;
            links.extend(found.into_iter().flatten());
        }
        Ok(links)
    }
}

/// The links of a route, if it is a default route of the main table.
pub(crate) fn default_links(payload: &[u8]) -> Option<Vec<u32>> {
    let &[_, prefix, _, _, mut table, _, _, kind] = payload.first_chunk()?;
    let mut links = Vec::new();
    for (attribute, value) in wire::attributes(payload.get(RTMSG..)?) {
        match attribute {
            RTA_OIF => links.extend(wire::u32_at(value, 0)),
            RTA_MULTIPATH => links.extend(next_hops(value)),
            // One above 255 does not fit the header.
            RTA_TABLE => table = u8::try_from(wire::u32_at(value, 0)?).unwrap_or(0),
            _ => {}
        }
    }
    let is_default = prefix == 0 && kind == libc::RTN_UNICAST && table == libc::RT_TABLE_MAIN;
    is_default.then_some(links)
}

/// The links of several ways.
fn next_hops(mut bytes: &[u8]) -> Vec<u32> {
    let mut links = Vec::new();
    while let Some(&[low, high, ..]) = bytes.first_chunk::<RTNEXTHOP>() {
        links.extend(wire::u32_at(bytes, 4));
        let length = usize::from(u16::from_ne_bytes([low, high])).next_multiple_of(4);
        if length < RTNEXTHOP {
            break;
        }
        bytes = bytes.get(length..).unwrap_or_default();
    }
    links
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    fn route(prefix: u8, table: u8, kind: u8, append: impl FnOnce(Request) -> Request) -> Vec<u8> {
        let mut payload = vec![
            libc::AF_INET as u8,
            prefix,
            0,
            0,
            table,
            0,
            0,
            kind,
            0,
            0,
            0,
            0,
        ];
        payload.extend(Request::attributes_only(append));
        payload
    }

    #[test]
    fn the_ways_out_are_those_of_default_routes() {
        let main = libc::RT_TABLE_MAIN;
        for (payload, expected) in [
            (route(0, main, 1, |it| it.number(RTA_OIF, 7)), Some(vec![7])),
            (route(24, main, 1, |it| it.number(RTA_OIF, 7)), None),
            (route(0, 100, 1, |it| it.number(RTA_OIF, 7)), None),
            // Of a table whose number does not fit, and one that refuses.
            (
                route(0, main, 1, |it| {
                    it.number(RTA_OIF, 7).number(RTA_TABLE, 510)
                }),
                None,
            ),
            (route(0, main, libc::RTN_UNREACHABLE, |it| it), None),
            (
                route(0, main, 1, |it| {
                    let mut hops = Vec::new();
                    for link in [3_u32, 9] {
                        // With a gateway, as an attribute.
                        hops.extend([16, 0, 0, 0]);
                        hops.extend(link.to_ne_bytes());
                        hops.extend([8, 0, 5, 0, 10, 0, 0, 1]);
                    }
                    it.attribute(RTA_MULTIPATH, &hops)
                }),
                Some(vec![3, 9]),
            ),
        ] {
            assert_eq!(default_links(&payload), expected, "{payload:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let _ = default_links(&payload);
        }
    }
}
