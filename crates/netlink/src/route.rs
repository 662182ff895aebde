//! Default routes, and the rules that choose routing tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::{self, Request};
use crate::{Result, Socket};

/// Attributes of routes (`include/uapi/linux/rtnetlink.h`).
pub(crate) const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// Attributes of rules (`include/uapi/linux/fib_rules.h`).
const FRA_IIFNAME: u16 = 3;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
/// The flag of a rule for packets that do not match it.
const FIB_RULE_INVERT: u32 = 2;
/// The action of a rule that chooses a table.
const FR_ACT_TO_TBL: u8 = 1;
/// `sizeof(struct rtmsg)`.
pub(crate) const RTMSG: usize = 12;
/// `sizeof(struct rtnexthop)`.
const RTNEXTHOP: usize = 8;
/// `sizeof(struct fib_rule_hdr)`.
const FIB_RULE_HDR: usize = 12;
const FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// The link indexes of the default routes of each routing table.
pub type DefaultRoutes = BTreeMap<u32, BTreeSet<u32>>;

/// The routing tables that rules choose for packets that the node forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTables {
    /// Their numbers, without `local`.
    pub tables: BTreeSet<u32>,
    /// True if a rule chooses the tables of VRFs (`l3mdev`).
    pub has_vrfs: bool,
}

/// A table that a rule chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleTable {
    /// The table of this number.
    Number(u32),
    /// The table of a packet's VRF.
    Vrf,
}

impl Socket {
    /// Lists the default routes of all tables but `local`, of IPv4 and IPv6.
    ///
    /// The kernel lists every route. Only default routes are kept, whatever number of others there is.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a list.
    pub fn default_routes(&mut self) -> Result<DefaultRoutes> {
        let mut routes = DefaultRoutes::new();
        for family in FAMILIES {
            for (table, links) in self.routes(family, default_route)? {
                routes.entry(table).or_default().extend(links);
            }
        }
        Ok(routes)
    }

    /// The routes of a family, as far as `read` reads them.
    pub(crate) fn routes<T>(
        &mut self,
        family: i32,
        read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut rtmsg = [0; RTMSG];
        rtmsg[0] = family as u8;
        let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &rtmsg);
        self.dumped(&|| "list routes".to_owned(), &request, read)
    }

    /// Lists the tables that rules of IPv4 and IPv6 choose for packets that the node forwards. A kernel without rules
    /// has table `main` alone.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a list.
    pub fn rule_tables(&mut self) -> Result<RuleTables> {
        let mut rules = RuleTables::default();
        for family in FAMILIES {
            let mut header = [0; FIB_RULE_HDR];
            header[0] = family as u8;
            let request = Request::new(libc::RTM_GETRULE, libc::NLM_F_DUMP, &header);
            match self.dumped(&|| "list routing rules".to_owned(), &request, rule_table) {
                Ok(found) => found.into_iter().for_each(|table| rules.add(table)),
                Err(error) if has_no_rules(error.errno()) => {
                    rules.add(RuleTable::Number(libc::RT_TABLE_MAIN.into()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }
}

impl RuleTables {
    fn add(&mut self, table: RuleTable) {
        match table {
            RuleTable::Number(table) => drop(self.tables.insert(table)),
            RuleTable::Vrf => self.has_vrfs = true,
        }
    }
}

/// Returns true for the error of a kernel without policy routing, or without this family.
fn has_no_rules(errno: Option<i32>) -> bool {
    matches!(errno, Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT))
}

/// The table and the links of a default route; `None` of any other route, and of table `local`.
pub(crate) fn default_route(payload: &[u8]) -> Option<(u32, Vec<u32>)> {
    let &[_, prefix, _, _, table, _, _, kind] = payload.first_chunk()?;
    if prefix != 0 || kind != libc::RTN_UNICAST {
        return None;
    }
    let mut table = u32::from(table);
    let mut links = Vec::new();
    for (attribute, value) in wire::attributes(payload.get(RTMSG..)?) {
        match attribute {
            RTA_OIF => links.extend(wire::u32_at(value, 0)),
            RTA_MULTIPATH => links.extend(next_hops(value)),
            // A number above 255 does not fit the header.
            RTA_TABLE => table = wire::u32_at(value, 0)?,
            _ => {}
        }
    }
    (table != libc::RT_TABLE_LOCAL.into()).then_some((table, links))
}

/// The table in which a rule may find a default route of a forwarded packet; `None` if it finds none.
pub(crate) fn rule_table(payload: &[u8]) -> Option<RuleTable> {
    let &[_, _, _, _, table, _, _, action] = payload.first_chunk()?;
    if action != FR_ACT_TO_TBL {
        return None;
    }
    let is_inverted = wire::u32_at(payload, 8)? & FIB_RULE_INVERT != 0;
    let mut table = u32::from(table);
    let mut is_vrf = false;
    for (attribute, value) in wire::attributes(payload.get(FIB_RULE_HDR..)?) {
        match attribute {
            FRA_TABLE => table = wire::u32_at(value, 0)?,
            // Packets of the node's own sockets have this input link, and they alone may be bound to an output link.
            FRA_IIFNAME if !is_inverted && value.strip_suffix(b"\0") == Some(b"lo") => return None,
            FRA_OIFNAME if !is_inverted => return None,
            FRA_L3MDEV => is_vrf = value.first().is_some_and(|on| *on != 0),
            // It ignores routes of this prefix length and shorter ones; -1 stands for none.
            FRA_SUPPRESS_PREFIXLEN if wire::u32_at(value, 0)? != u32::MAX => return None,
            _ => {}
        }
    }
    match table {
        _ if is_vrf => Some(RuleTable::Vrf),
        table if table == libc::RT_TABLE_LOCAL.into() => None,
        table => Some(RuleTable::Number(table)),
    }
}

/// The links of the next hops of a multipath route.
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

    const MAIN: u8 = libc::RT_TABLE_MAIN;

    fn route(prefix: u8, table: u8, kind: u8, append: impl FnOnce(Request) -> Request) -> Vec<u8> {
        let mut payload = vec![2, prefix, 0, 0, table, 0, 0, kind, 0, 0, 0, 0];
        payload.extend(Request::attributes_only(append));
        payload
    }

    fn rule(table: u8, action: u8, append: impl FnOnce(Request) -> Request) -> Vec<u8> {
        route(32, table, action, append)
    }

    /// The same rule with `not`.
    fn inverted(mut rule: Vec<u8>) -> Vec<u8> {
        rule[8..12].copy_from_slice(&FIB_RULE_INVERT.to_ne_bytes());
        rule
    }

    #[test]
    fn default_route_is_read_with_its_table() {
        let multipath = |it: Request| {
            let mut hops = Vec::new();
            for link in [3_u32, 9] {
                // With a gateway, as an attribute.
                hops.extend([16, 0, 0, 0]);
                hops.extend(link.to_ne_bytes());
                hops.extend([8, 0, 5, 0, 10, 0, 0, 1]);
            }
            it.attribute(RTA_MULTIPATH, &hops)
        };
        let by_7 = |it: Request| it.number(RTA_OIF, 7);
        let of_510 = |it: Request| it.number(RTA_OIF, 7).number(RTA_TABLE, 510);
        for (payload, expected) in [
            (route(0, MAIN, 1, by_7), Some((254, vec![7]))),
            (route(24, MAIN, 1, by_7), None),
            (route(0, 100, 1, by_7), Some((100, vec![7]))),
            (route(0, 252, 1, of_510), Some((510, vec![7]))),
            (route(0, libc::RT_TABLE_LOCAL, 1, by_7), None),
            (route(0, MAIN, libc::RTN_UNREACHABLE, |it| it), None),
            (route(0, MAIN, 1, multipath), Some((254, vec![3, 9]))),
        ] {
            assert_eq!(default_route(&payload), expected, "{payload:?}");
        }
    }

    #[test]
    fn rule_is_read_with_the_table_that_it_chooses() {
        let unreachable = 7;
        let number = |table| Some(RuleTable::Number(table));
        for (payload, expected) in [
            (rule(MAIN, 1, |it| it), number(254)),
            (rule(252, 1, |it| it.number(FRA_TABLE, 510)), number(510)),
            (rule(libc::RT_TABLE_LOCAL, 1, |it| it), None),
            (rule(0, unreachable, |it| it), None),
            (
                rule(0, 1, |it| it.attribute(FRA_L3MDEV, &[1])),
                Some(RuleTable::Vrf),
            ),
            // As wg-quick has one for the main table: it finds no default route there.
            (
                rule(MAIN, 1, |it| it.number(FRA_SUPPRESS_PREFIXLEN, 0)),
                None,
            ),
            (
                rule(MAIN, 1, |it| it.number(FRA_SUPPRESS_PREFIXLEN, u32::MAX)),
                number(254),
            ),
            // Of pods, and of the node's own sockets.
            (
                rule(MAIN, 1, |it| it.string(FRA_IIFNAME, "cni0")),
                number(254),
            ),
            (rule(MAIN, 1, |it| it.string(FRA_IIFNAME, "lo")), None),
            (rule(MAIN, 1, |it| it.string(FRA_OIFNAME, "eth1")), None),
            (
                inverted(rule(MAIN, 1, |it| it.string(FRA_IIFNAME, "lo"))),
                number(254),
            ),
            (
                inverted(rule(MAIN, 1, |it| it.string(FRA_OIFNAME, "eth1"))),
                number(254),
            ),
        ] {
            assert_eq!(rule_table(&payload), expected, "{payload:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let _ = default_route(&payload);
            let _ = rule_table(&payload);
        }
    }
}
