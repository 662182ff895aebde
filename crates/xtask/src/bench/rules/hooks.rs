//! What stands at the interfaces of a pod.

use anyhow::Result;
use netqos_bpf::TcxHook;
use netqos_index::Change;
use netqos_netlink::Socket;
use netqos_testkit::{Node, Pod};
use serde::{Deserialize, Serialize};

use super::stage::{Stage, on_a_node, policies};

/// Programs and filters at both hooks of both ends of a pod's veth.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hooks {
    /// Of a pod without rules, beside the other.
    pub without_rules: usize,
    /// Of a pod with rules: that they are seen.
    pub with_rules: usize,
    /// Of the first, after it had rules and lost them.
    pub afterwards: usize,
}

/// Lists them.
pub fn measure() -> Result<Hooks> {
    on_a_node(|node| {
        let mut stage = Stage::on(node)?;
        let without = stage.pod("without", "without")?;
        let with = stage.pod("with", "with")?;
        stage.apply(policies("with", 20).into_iter().map(Change::Policy))?;
        let found = Hooks {
            without_rules: at(&stage.node, &without)?,
            with_rules: at(&stage.node, &with)?,
            afterwards: 0,
        };
        let rules = policies("without", 20);
        let names: Vec<_> = rules.iter().map(|policy| policy.name.clone()).collect();
        stage.apply(rules.into_iter().map(Change::Policy))?;
        stage.apply(names.into_iter().map(Change::PolicyGone))?;
        Ok(Hooks {
            afterwards: at(&stage.node, &without)?,
            ..found
        })
    })
}

fn at(node: &Node, pod: &Pod) -> Result<usize> {
    let mut count = tcx_programs(pod.host_link())?;
    count += pod.inside(|| tcx_programs("eth0"))??;
    for hook in ["ingress", "egress"] {
        let outside = ["filter", "show", "dev", pod.host_link(), hook];
        count += filters(&node.run("tc", &outside)?);
        let inside = ["filter", "show", "dev", "eth0", hook];
        count += filters(&pod.run(node, "tc", &inside)?);
    }
    Ok(count)
}

/// Of a link of the calling thread's network namespace.
fn tcx_programs(link: &str) -> Result<usize> {
    let index = Socket::open()?.link_by_name(link)?.index;
    let mut count = 0;
    for hook in [TcxHook::Ingress, TcxHook::Egress] {
        count += hook.programs(index)?.len();
    }
    Ok(count)
}

/// How many `tc` shows, which says first that there are some of a kind, and then each by its handle.
fn filters(shown: &str) -> usize {
    shown
        .lines()
        .filter(|line| line.contains(" handle "))
        .count()
}
