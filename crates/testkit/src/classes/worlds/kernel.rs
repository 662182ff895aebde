//! The kernel backend's world, with its programs and records.

use std::path::Path;

use netqos_api::HookChoice;
use netqos_classes::{ClassBackend, KernelOptions};
use netqos_core::Direction;
use netqos_datapath::Paths;

use super::lines::{Divider, OnLines};
use crate::Node;

/// A node that the kernel backend divides the lines of, as it does when it is not told otherwise.
pub type Kernel = OnLines<ByKernel<false>>;
/// The same as where the kernel has no tcx, and also while a line carries next to nothing.
pub type KernelOnClsact = OnLines<ByKernel<true>>;

/// What is the kernel backend's own.
pub struct ByKernel<const ON_CLSACT: bool>;

impl<const ON_CLSACT: bool> Divider for ByKernel<ON_CLSACT> {
    const DIRECTIONS: &[Direction] = &[Direction::Ingress, Direction::Egress];
    const TAMPER: &str =
        "class change dev line-a parent 6e71:1 classid 6e71:4 htb rate 8mbit ceil 80mbit";
    const FAULTS: &[&str] = &[
        "tc qdisc del dev line-a root",
        "tc filter del dev line-a ingress",
        "ip link set $(ip -o link show type ifb | head -n 1 | cut -d ' ' -f 2 | tr -d :) down",
    ];

    fn backend(net_cls: &Path) -> Box<dyn ClassBackend> {
        let options = KernelOptions {
            cgroups: None,
            net_cls: Some(net_cls.to_owned()),
            hook: match ON_CLSACT {
                true => HookChoice::Clsact,
                false => HookChoice::Auto,
            },
            divides_idle_lines: ON_CLSACT,
            ..KernelOptions::new(Paths::from_variables(|_| None), Path::new("/sys/fs/cgroup"))
        };
        Box::new(netqos_classes::Kernel::open(options).unwrap())
    }

    fn state(node: &Node) -> String {
        format!("{:#?}", node.state(&[]).unwrap())
    }
}
