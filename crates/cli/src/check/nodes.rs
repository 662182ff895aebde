//! Whether the nodes of a cluster are such that netqos works there, as far as they tell.

use std::collections::BTreeMap;

use netqos_core::{LISTED_NAMES, list_names};
use serde_json::Value;

use super::line::Line;

/// From here on flows are ranked (docs/install.md).
const RANKED: (u32, u32) = (5, 1);
/// From here on rules are enforced, and lines divided by eBPF (docs/install.md).
const RULES: (u32, u32) = (5, 10);
/// From here on rules know which backend of a Service a packet goes to (docs/rules.md).
const LOOKS_UP: (u32, u32) = (5, 18);

/// A line for each kernel, each runtime, and each kind of machine.
pub fn look(nodes: &[Value]) -> Vec<Line> {
    let mut lines = Vec::new();
    if nodes.is_empty() {
        let remedy = "look at the cluster: kubectl get nodes";
        lines.push(Line::warning("nodes", "there is no node", remedy));
    }
    let by = |field: &str| {
        let mut by: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            let of_node = |path: &str| node.pointer(path).and_then(Value::as_str);
            let value = of_node(&format!("/status/nodeInfo/{field}")).unwrap_or("unknown");
            let name = of_node("/metadata/name").unwrap_or_default();
            by.entry(value.to_owned()).or_default().push(name);
        }
        by
    };
    for (system, of) in by("operatingSystem") {
        if system != "linux" {
            let text = format!("{} {system}", told(&of));
            let remedy = "no agent runs there: pods on it have no limits and no rules";
            lines.push(Line::warning("operating system", text, remedy));
        }
    }
    for (machine, of) in by("architecture") {
        let text = format!("{} {machine}", told(&of));
        lines.push(match machine.as_str() {
            "amd64" => Line::ok("architecture", text),
            _ => Line::warning(
                "architecture",
                text,
                "no agent runs there: the manifests and the executables are for amd64",
            ),
        });
    }
    for (kernel, of) in by("kernelVersion") {
        lines.push(look_at_kernel(&kernel, &of));
    }
    for (runtime, of) in by("containerRuntimeVersion") {
        let text = format!("{} {runtime}", told(&of));
        let known = ["containerd://", "cri-o://"];
        lines.push(match known.iter().any(|it| runtime.starts_with(it)) {
            true => Line::ok("container runtime", text),
            false => Line::warning(
                "container runtime",
                text,
                "pods are found by netqos' CNI plugin or by their cgroups, where it keeps no CNI results \
                 in /var/lib/cni (docs/agent.md)",
            ),
        });
    }
    lines
}

fn look_at_kernel(kernel: &str, of: &[&str]) -> Line {
    let text = format!("{} kernel {kernel}", told(of));
    let also = "netqos check on the node says what its kernel lacks";
    match version(kernel) {
        Some(version) if version >= LOOKS_UP => Line::ok("kernel", text),
        Some(version) if version >= RULES => Line::warning(
            "kernel",
            text,
            format!(
                "rules cannot tell apart the backends of a Service before {}.{}; {also}",
                LOOKS_UP.0, LOOKS_UP.1
            ),
        ),
        Some(version) => Line::warning(
            "kernel",
            text,
            format!(
                "limits are held{}; no rule is enforced, and only the backend tc divides lines, before \
                 {}.{}; {also}",
                match version >= RANKED {
                    true => "",
                    false => " without ranking flows",
                },
                RULES.0,
                RULES.1
            ),
        ),
        None => Line::warning("kernel", text, also),
    }
}

/// `6.18.1-amd64` is 6.18.
fn version(kernel: &str) -> Option<(u32, u32)> {
    let mut parts = kernel.split(|it: char| !it.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn told(nodes: &[&str]) -> String {
    let has = if nodes.len() == 1 { "has" } else { "have" };
    format!("{} {has}", list_names(nodes, LISTED_NAMES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::line::State;

    #[test]
    fn a_kernel_is_judged_by_what_it_lacks() {
        for (kernel, state) in [
            ("6.18.1", State::Ok),
            ("5.18.0-1-amd64", State::Ok),
            ("5.15.0-113-generic", State::Warning),
            ("4.18.0-553.el8", State::Warning),
            ("unknown", State::Warning),
        ] {
            let line = look_at_kernel(kernel, &["a"]);
            assert_eq!(line.state, state, "{kernel}: {line:?}");
        }
        let says = |kernel: &str| look_at_kernel(kernel, &[]).remedy;
        assert!(says("4.19").contains("without ranking flows; no rule"));
        assert!(says("5.9").contains("limits are held; no rule"));
        assert!(says("5.15").contains("Service"));
    }

    #[test]
    fn nodes_that_are_alike_are_one_line() {
        let node = |name: &str, kernel: &str| {
            json!({"metadata": {"name": name}, "status": {"nodeInfo": {
                "kernelVersion": kernel, "architecture": "amd64", "operatingSystem": "linux",
                "containerRuntimeVersion": "containerd://2.1.0"
            }}})
        };
        let lines = look(&[
            node("a", "6.18.1"),
            node("b", "6.18.1"),
            node("c", "6.17.0"),
        ]);
        let kernels = lines.iter().filter(|it| it.what == "kernel");
        let said: Vec<&str> = kernels.map(|it| it.message.as_str()).collect();
        assert_eq!(said, ["c has kernel 6.17.0", "a, b have kernel 6.18.1"]);
    }
}
