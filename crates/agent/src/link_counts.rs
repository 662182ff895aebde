//! The links that netqos has made on the node, as the kernel lists them.

use netqos_classes::is_lines_ifb;
use netqos_core::Tag;
use netqos_datapath::rules::{MOST_RULE_LINKS, is_rule_link};
use netqos_netlink::link::Link;
use netqos_netlink::{Result, Socket};

use crate::status::LinkStatus;

impl LinkStatus {
    /// Counts them in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list its links.
    pub(crate) fn read() -> Result<Self> {
        Ok(Self::of(&Socket::open()?.links()?))
    }

    fn of(links: &[Link]) -> Self {
        let count =
            |is_it: fn(&Link) -> bool| links.iter().filter(|link| is_it(link)).count() as u64;
        Self {
            rules: count(is_rule_link),
            limits: count(is_limit_ifb),
            uplinks: count(is_lines_ifb),
            most_of_rules: MOST_RULE_LINKS as u64,
        }
    }
}

/// Returns true for an ifb that queues what a pod sends. (The alias of an uplink's ifb may read as a tag.)
fn is_limit_ifb(link: &Link) -> bool {
    let tag = link.alias.as_deref().map(str::parse::<Tag>);
    link.kind == "ifb" && matches!(tag, Some(Ok(_))) && !is_lines_ifb(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str, alias: &str) -> Link {
        Link {
            name: name.to_owned(),
            kind: kind.to_owned(),
            alias: Some(alias.to_owned()),
            ..Link::default()
        }
    }

    #[test]
    fn links_are_counted_by_purpose_and_foreign_ones_are_not() {
        let rule = "netqos:rule:9d11b6c3822a3962 egress[0] of NetworkQoS games/free";
        let links = [
            link("nq9d11b6c382a", "veth", rule),
            link("nq9d11b6c382b", "veth", rule),
            link("bwpa8eda89404b7", "ifb", "netqos:net:a:eth0"),
            link("netqos-l2", "ifb", "netqos:line:up0 clsact"),
            // A pod's veth that carries a limit, which a CNI plugin made.
            link("veth1", "veth", "netqos:net:a:eth0"),
            link("ifb0", "ifb", ""),
            link("eth0", "", "uplink"),
        ];
        let counts = LinkStatus::of(&links);
        assert_eq!((counts.rules, counts.limits, counts.uplinks), (2, 1, 1));
    }

    /// True if a name matches a pattern of `*`, `?` and sets of characters in brackets, as `fnmatch` has it.
    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|from| matches(rest, &name[from..])),
            ([b'[', rest @ ..], [first, others @ ..]) => {
                let end = rest.iter().position(|it| *it == b']').unwrap();
                rest[..end].contains(first) && matches(&rest[end + 1..], others)
            }
            ([one, rest @ ..], [first, others @ ..]) => {
                (*one == b'?' || one == first) && matches(rest, others)
            }
            _ => false,
        }
    }

    /// Each manager of networks has a file that names our links and no other's.
    #[test]
    fn files_for_network_managers_match_our_links_alone() {
        let deploy = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/host");
        for (file, key) in [
            ("05-netqos.network", "Name="),
            ("05-netqos.link", "OriginalName="),
            ("90-netqos.conf", "unmanaged-devices+="),
        ] {
            let text = std::fs::read_to_string(deploy.join(file)).unwrap();
            let patterns = text
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap();
            let patterns: Vec<&str> = patterns
                .split([' ', ';'])
                .map(|it| it.strip_prefix("interface-name:").unwrap_or(it))
                .collect();
            let is_ours = |name: &str| {
                patterns
                    .iter()
                    .any(|it| matches(it.as_bytes(), name.as_bytes()))
            };
            for name in [
                "netqos-l2",
                "netqos-l4711",
                "nq9d11b6c382a",
                "nq0000000000b",
                "bwpa8eda89404b7",
            ] {
                assert!(is_ours(name), "{file}: {name}");
            }
            for name in [
                "eth0",
                "nq0",
                "nqeth0",
                "ifb0",
                "veth9d11b6c382",
                "bond0",
                "lo",
            ] {
                assert!(!is_ours(name), "{file}: {name}");
            }
        }
    }
}
