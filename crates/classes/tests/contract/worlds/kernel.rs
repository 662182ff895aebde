//! The kernel backend's world, with its programs and records.

use std::path::Path;

use netqos_classes::{ClassBackend, KernelOptions};
use netqos_core::Direction;
use netqos_datapath::Paths;
use netqos_testkit::Node;

use super::lines::{Divider, OnLines};

/// A node that the kernel backend divides the lines of.
pub type Kernel = OnLines<ByKernel>;

/// What is the kernel backend's own.
pub struct ByKernel;

impl Divider for ByKernel {
    const DIRECTIONS: &[Direction] = &[Direction::Ingress, Direction::Egress];
    const TAMPER: &str =
        "class change dev line-a parent 6e71:1 classid 6e71:4 htb rate 8mbit ceil 80mbit";

    fn backend(net_cls: &Path) -> Box<dyn ClassBackend> {
        let options = KernelOptions {
            cgroups: None,
            net_cls: Some(net_cls.to_owned()),
            // What is looked at is what the classes do, with less than would make them wait.
            divides_idle_lines: true,
            ..KernelOptions::new(Paths::from_variables(|_| None), Path::new("/sys/fs/cgroup"))
        };
        Box::new(netqos_classes::Kernel::open(options).unwrap())
    }

    fn state(node: &Node) -> String {
        format!("{:#?}", node.state(&[]).unwrap())
    }
}
