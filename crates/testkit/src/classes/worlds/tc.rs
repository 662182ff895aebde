//! tc's world, with what it does in sets and tables.

use std::path::Path;

use netqos_classes::ClassBackend;
use netqos_core::Direction;

use super::lines::{Divider, OnLines};
use crate::Node;

/// A node that tc divides the lines of.
pub type Tc = OnLines<ByTc>;

/// What is tc's own.
pub struct ByTc;

impl Divider for ByTc {
    const DIRECTIONS: &[Direction] = &[Direction::Egress];
    const TAMPER: &str =
        "class change dev line-a parent 1:1 classid 1:14 htb rate 8mbit ceil 80mbit";
    const FAULTS: &[&str] = &[
        "set -- $(ipset save | grep '^add ' | head -n 1); ipset del $2 $3",
        "ipset flush",
        "iptables -t mangle -D $(iptables -t mangle -S | grep -e --match-set | head -n 1 | cut -c 4-)",
        "iptables -t mangle -F; ip6tables -t mangle -F; ipset destroy",
        "tc qdisc del dev line-a root",
    ];

    fn backend(net_cls: &Path) -> Box<dyn ClassBackend> {
        Box::new(netqos_classes::Tc::new(net_cls))
    }

    fn state(node: &Node) -> String {
        let run = |(program, arguments): (&str, &[&str])| node.run(program, arguments).unwrap();
        [
            ("ipset", &["save"][..]),
            ("iptables", &["-t", "mangle", "-S"]),
            ("ip6tables", &["-t", "mangle", "-S"]),
        ]
        .map(run)
        .concat()
    }
}
