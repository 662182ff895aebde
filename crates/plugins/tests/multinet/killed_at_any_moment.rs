use serde_json::json;

use crate::fixture::MultinetNode;

/// More system calls than one call of the plugin makes.
const MANY: usize = 3_000;
/// Every so many system calls are tried.
const STEP: usize = 7;

#[test]
fn del_after_add_was_killed_leaves_nothing() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    node.define_two();
    let before = node.inventory();
    let mut kills = 0;
    for nth in (0..MANY).step_by(STEP) {
        let pod = node.node.empty_pod("web").unwrap();
        let was_killed = node
            .call("ADD", &pod, Some("lan"), json!({}))
            .killed_at(nth)
            .unwrap();
        // A plugin that ADD has executed may still run. DEL waits for it.
        node.call("DEL", &pod, None, json!({})).succeed().unwrap();
        assert_eq!(node.inventory(), before, "killed before system call {nth}");
        pod.remove(&node.node).unwrap();
        if !was_killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 10, "{kills}");
}

#[test]
fn del_that_was_killed_can_be_repeated() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    node.define_two();
    let before = node.inventory();
    for nth in (0..MANY).step_by(STEP) {
        let pod = node.node.empty_pod("web").unwrap();
        node.call("ADD", &pod, Some("lan"), json!({}))
            .succeed()
            .unwrap();
        let was_killed = node
            .call("DEL", &pod, None, json!({}))
            .killed_at(nth)
            .unwrap();
        node.call("DEL", &pod, None, json!({})).succeed().unwrap();
        assert_eq!(node.inventory(), before, "killed before system call {nth}");
        pod.remove(&node.node).unwrap();
        if !was_killed {
            return;
        }
    }
    panic!("DEL makes more than {MANY} system calls");
}
