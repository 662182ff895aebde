use netqos_testkit::Pod;
use serde_json::json;

use super::fixture::{MultinetNode, node};
use super::multus_pods;

/// More system calls than one call of the plugin makes.
const MANY: usize = 3_000;
/// Every so many system calls are tried, or as many as `NETQOS_STRIDE` says.
const STRIDE: usize = 7;

/// Kills a call before one system call after the other, and asserts that a DEL then leaves nothing, until the call is not
/// killed any more.
fn assert_del_leaves_nothing_after(command: &str, prepare: impl Fn(&MultinetNode, &Pod)) {
    let Some(node) = node() else { return };
    let before = node.inventory();
    let stride = std::env::var("NETQOS_STRIDE").ok();
    let stride = stride.map_or(STRIDE, |it| it.parse().unwrap());
    for nth in (0..MANY).step_by(stride) {
        let pod = node.pod("web");
        prepare(&node, &pod);
        let call = node.call(command, &pod, Some("lan"), json!({}));
        let was_killed = call.killed_at(nth).unwrap();
        // A plugin that the call has executed may still run. DEL waits for it.
        node.del(&pod);
        assert_eq!(node.inventory(), before, "killed before system call {nth}");
        node.remove(&pod);
        if !was_killed {
            assert!(nth > 70, "{nth}");
            return;
        }
    }
    panic!("{command} makes more than {MANY} system calls");
}

#[test]
fn del_after_add_was_killed_leaves_nothing() {
    assert_del_leaves_nothing_after("ADD", |_, _| ());
}

#[test]
fn del_that_was_killed_can_be_repeated() {
    assert_del_leaves_nothing_after("DEL", |node, pod| {
        let add = node.call("ADD", pod, Some("lan"), json!({}));
        add.succeed().unwrap();
    });
}

#[test]
fn del_of_a_pod_of_multus_that_was_killed_can_be_repeated() {
    assert_del_leaves_nothing_after("DEL", |_, pod| {
        multus_pods::attach(pod);
        multus_pods::keep_of_runtime(pod, multus_pods::DIRECTORY);
    });
}
