//! The links that a node's default routes leave by.

use std::collections::BTreeSet;

use netqos_netlink::link::{Link, LinkData};
use netqos_netlink::route::{DefaultRoutes, RuleTables};

/// Kinds of links whose packets another link of the node carries, or that carry none.
const INNER: [&str; 18] = [
    "amt",
    "bareudp",
    "dummy",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "gtp",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "sit",
    "tun",
    "vxlan",
    "wireguard",
    "xfrm",
];

/// Returns the links that default routes leave by, of every table that a rule chooses.
///
/// A table of a VRF counts where the VRF has a port besides these links: a VRF with the management card alone has
/// no pods. Tunnels and pairs with both ends on the node count only where no other link is found: what they
/// carry leaves by another uplink.
pub(super) fn default_uplinks(
    rules: &RuleTables,
    routes: &DefaultRoutes,
    links: &[Link],
) -> BTreeSet<u32> {
    let chosen = |table: &u32| {
        rules.tables.contains(table) || (rules.has_vrfs && is_vrf_with_pods(*table, routes, links))
    };
    let chosen = routes.iter().filter(|(table, _)| chosen(table));
    let all: BTreeSet<u32> = chosen.flat_map(|(_, links)| links).copied().collect();
    let all = links.iter().filter(|link| all.contains(&link.index));
    let (outer, inner): (Vec<&Link>, Vec<&Link>) = all.partition(|link| !is_inner(link));
    let found = if outer.is_empty() { inner } else { outer };
    found.into_iter().map(|link| link.index).collect()
}

fn is_inner(link: &Link) -> bool {
    let has_both_ends_here =
        link.is_pair_end() && link.related.is_some() && link.related_namespace.is_none();
    link.is_loopback || has_both_ends_here || INNER.contains(&link.kind.as_str())
}

/// Returns true for the table of a VRF with a port that no default route of it leaves by.
fn is_vrf_with_pods(table: u32, routes: &DefaultRoutes, links: &[Link]) -> bool {
    let vrf = links
        .iter()
        .find(|link| link.data == LinkData::VrfTable(table));
    let Some(vrf) = vrf else { return false };
    let mut ports = links.iter().filter(|link| link.master == Some(vrf.index));
    ports.any(|port| {
        routes
            .get(&table)
            .is_none_or(|leave| !leave.contains(&port.index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, kind: &str) -> Link {
        Link {
            index,
            kind: kind.to_owned(),
            ..Link::default()
        }
    }

    fn uplinks(tables: &[u32], routes: &[(u32, u32)], links: &[Link]) -> Vec<u32> {
        let rules = RuleTables {
            tables: tables.iter().copied().collect(),
            has_vrfs: true,
        };
        let mut by_table = DefaultRoutes::new();
        for (table, link) in routes {
            by_table.entry(*table).or_default().insert(*link);
        }
        let found = default_uplinks(&rules, &by_table, links);
        found.into_iter().collect()
    }

    #[test]
    fn default_routes_of_tables_without_a_rule_are_ignored() {
        let links = [link(2, ""), link(3, ""), link(4, "bond")];
        let routes = [(254, 2), (2, 3), (9, 4)];
        assert_eq!(uplinks(&[254, 2], &routes, &links), [2, 3]);
        assert_eq!(uplinks(&[254], &routes, &links), [2]);
    }

    #[test]
    fn tunnel_counts_only_without_another_uplink() {
        let links = [link(2, ""), link(3, "wireguard")];
        assert_eq!(uplinks(&[254, 51820], &[(254, 2), (51820, 3)], &links), [2]);
        assert_eq!(uplinks(&[254, 51820], &[(51820, 3)], &links), [3]);
    }

    /// As `cilium_host` and `cilium_net` are.
    #[test]
    fn pair_on_the_node_is_no_uplink_and_pair_of_a_nested_node_is() {
        let pair = |index, elsewhere: bool| Link {
            related: Some(9),
            related_namespace: elsewhere.then_some(0),
            ..link(index, "veth")
        };
        let links = [link(2, ""), pair(3, false), pair(4, true)];
        let routes = [(254, 2), (2005, 3), (7, 4)];
        assert_eq!(uplinks(&[254, 2005, 7], &routes, &links), [2, 4]);
    }

    #[test]
    fn vrf_counts_if_pods_may_be_in_it() {
        let vrf = |index, table| Link {
            data: LinkData::VrfTable(table),
            ..link(index, "vrf")
        };
        let port = |index, kind, master| Link {
            master: Some(master),
            ..link(index, kind)
        };
        let links = [
            link(2, ""),
            vrf(10, 1001),
            port(3, "", 10),
            port(4, "veth", 10),
            // The management card alone.
            vrf(11, 1002),
            port(5, "", 11),
        ];
        let routes = [(254, 2), (1001, 3), (1002, 5)];
        assert_eq!(uplinks(&[254], &routes, &links), [2, 3]);
    }
}
