use netqos_datapath::HookKind;
use netqos_testkit::{Node, Pod};

use crate::{HOOKS, Wanted, both, datapath};

/// What the kernel has for a pod: both sides of it, and the node's links.
fn state(node: &Node, pod: &Pod) -> String {
    let mut text = node.run("ip", &["-d", "link", "show"]).unwrap();
    if !pod.host_link().is_empty() {
        text.push_str(&node.traffic_control(pod.host_link()).unwrap());
    }
    let _inside = netqos_netlink::Namespace::open(pod.netns())
        .unwrap()
        .enter()
        .unwrap();
    text.push_str(&node.traffic_control("eth0").unwrap());
    text.push_str(&node.run("ip", &["-d", "link", "show"]).unwrap());
    text
}

#[test]
fn and_taken_away_restores_what_was_there() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("parent").unwrap();
    let veth = node.pod("a").unwrap();
    let macvlan = node.macvlan_pod("m", "parent").unwrap();
    let mut datapath = datapath();
    for hook in HOOKS {
        for wanted in [
            (&veth, Wanted::new(&veth, both(10), hook)),
            (&veth, Wanted::new(&veth, both(10), hook).by_ifb()),
            (&macvlan, Wanted::new(&macvlan, both(10), hook)),
        ] {
            let (pod, wanted) = wanted;
            let before = state(&node, pod);
            let applied = datapath.apply(&wanted.request()).unwrap();
            assert_eq!(applied.queues.len(), 2);
            assert!(
                applied.queues.iter().all(|q| q.hook != HookKind::None),
                "{applied:?}"
            );
            datapath.check(&wanted.request()).unwrap();

            let once = state(&node, pod);
            assert_ne!(once, before);
            assert_eq!(datapath.apply(&wanted.request()).unwrap(), applied);
            assert_eq!(state(&node, pod), once);

            datapath
                .teardown(
                    &wanted.attachment,
                    Some(&wanted.netns),
                    wanted.request().host_links,
                    &wanted.limits,
                )
                .unwrap();
            assert_eq!(state(&node, pod), before, "{hook:?}");
            datapath
                .teardown(
                    &wanted.attachment,
                    None,
                    wanted.request().host_links,
                    &wanted.limits,
                )
                .unwrap();
            assert_eq!(node.files("/run/netqos"), [""; 0]);
            assert_eq!(node.files("/sys/fs/bpf/netqos/v1/links"), [""; 0]);
        }
    }
}
