//! A pod with `CAP_NET_ADMIN` makes, renames and moves links in its namespace.

use netqos_datapath::{Error, Record};
use netqos_netlink::Socket;
use netqos_testkit::{Node, Pod};

use super::{Wanted, both, datapath, hooks};

fn qdiscs(node: &Node, link: &str) -> String {
    node.run("tc", &["qdisc", "show", "dev", link]).unwrap()
}

fn qdiscs_inside(node: &Node, pod: &Pod, link: &str) -> String {
    pod.run(node, "tc", &["qdisc", "show", "dev", link])
        .unwrap()
}

fn ip(node: &Node, pod: &Pod, command: &str) {
    let arguments: Vec<&str> = command.split(' ').collect();
    pod.run(node, "ip", &arguments).unwrap();
}

/// Gives the pod's interface another name, and its name to another link, as KubeVirt does.
fn replace_name(node: &Node, pod: &Pod) {
    ip(node, pod, "link set eth0 down");
    ip(node, pod, "link set eth0 name eth0-nic");
    ip(node, pod, "link set eth0-nic up");
    ip(node, pod, "link add eth0 type ifb");
    ip(node, pod, "link set eth0 up");
}

fn record(wanted: &Wanted) -> Record {
    let record = datapath().records().read(&wanted.attachment).unwrap();
    record.unwrap()
}

fn lift(wanted: &Wanted) {
    let request = wanted.request();
    let (attachment, netns) = (request.attachment, Some(request.netns));
    datapath()
        .teardown(attachment, netns, request.host_links, &request.limits)
        .unwrap();
}

/// A pair whose other end has the index that the other pod's end has on the node.
#[test]
fn pair_with_chosen_indexes_leads_to_no_other_pod() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    let victim = Socket::open().unwrap().link_by_name(b.host_link()).unwrap();
    let other = victim.related.unwrap();
    ip(&node, &a, "link delete eth0");
    let pair = format!("link add eth0 index {other} type veth peer name p0");
    ip(&node, &a, &format!("{pair} index {}", victim.index));
    let before = qdiscs(&node, b.host_link());
    let wanted = Wanted::new(&a, both(10), Default::default()).running();
    let refused = datapath().apply(&wanted.request()).unwrap_err();
    assert!(matches!(refused, Error::PeerElsewhere(_)), "{refused}");
    assert_eq!(qdiscs(&node, b.host_link()), before);
}

/// A runtime named the pod's namespace by a process, whose number is another one's by now.
#[test]
fn nothing_is_limited_in_the_nodes_namespace() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let mut wanted = Wanted::new(&pod, both(10), Default::default());
    wanted.netns = "/proc/thread-self/ns/net".into();
    wanted.attachment = netqos_core::Attachment::try_new("net", "a", pod.host_link()).unwrap();
    let before = qdiscs(&node, pod.host_link());
    let refused = datapath().apply(&wanted.request()).unwrap_err();
    assert!(matches!(refused, Error::NodesNamespace(_)), "{refused}");
    assert_eq!(qdiscs(&node, pod.host_link()), before);
    lift(&wanted);
}

#[test]
fn renamed_link_keeps_its_limits_and_gets_new_ones() {
    for hook in hooks() {
        for is_by_ifb in [false, true] {
            let run = move || renamed(hook, is_by_ifb);
            std::thread::spawn(run).join().unwrap();
        }
    }
}

fn renamed(hook: netqos_api::HookChoice, is_by_ifb: bool) {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let of = |megabits| {
        let wanted = Wanted::new(&pod, both(megabits), hook);
        if is_by_ifb { wanted.by_ifb() } else { wanted }
    };
    datapath().apply(&of(10).request()).unwrap();
    let ends = record(&of(10)).ends.unwrap();
    replace_name(&node, &pod);
    let other = qdiscs_inside(&node, &pod, "eth0");
    let asserted = |megabits: u64| {
        let rate = format!("rate {megabits}Mbit");
        let host = qdiscs(&node, pod.host_link());
        assert!(host.contains(&rate), "{host}");
        if !is_by_ifb {
            let inside = qdiscs_inside(&node, &pod, "eth0-nic");
            assert!(inside.contains(&rate), "{inside}");
        }
        assert_eq!(qdiscs_inside(&node, &pod, "eth0"), other);
        datapath().check(&of(megabits).running().request()).unwrap();
    };
    asserted(10);
    datapath().apply(&of(20).running().request()).unwrap();
    asserted(20);
    assert_eq!(record(&of(20)).ends, Some(ends));
    let wanted = of(20);
    lift(&wanted);
    for shown in [
        qdiscs(&node, pod.host_link()),
        qdiscs_inside(&node, &pod, "eth0-nic"),
    ] {
        assert!(!shown.contains("tbf"), "{shown}");
    }
}

/// An interface without an end on the node that is made again has another index.
#[test]
fn macvlan_that_is_made_again_is_limited_again() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("up0").unwrap();
    let pod = node.macvlan_pod("m", "up0").unwrap();
    let of = |megabits| Wanted::new(&pod, both(megabits), Default::default()).running();
    datapath().apply(&of(10).request()).unwrap();
    ip(&node, &pod, "link set eth0 down");
    ip(&node, &pod, "link set eth0 name x");
    datapath().apply(&of(20).request()).unwrap();
    assert!(qdiscs_inside(&node, &pod, "x").contains("rate 20Mbit"));
    ip(&node, &pod, "link delete x");
    let again = "link add link up0 name eth0 netns m type macvlan mode bridge";
    let again: Vec<&str> = again.split(' ').collect();
    node.run("ip", &again).unwrap();
    datapath().apply(&of(30).request()).unwrap();
    assert!(qdiscs_inside(&node, &pod, "eth0").contains("rate 30Mbit"));
}

/// The kernel takes the queue off a link that changes its namespace. What is at the other end stays.
#[test]
fn moved_link_keeps_what_is_at_its_end_on_the_node_until_it_comes_back() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let nested = node.empty_pod("nested").unwrap();
    let of = |megabits| Wanted::new(&pod, both(megabits), Default::default()).running();
    datapath().apply(&of(10).request()).unwrap();
    ip(&node, &pod, "link set eth0 netns nested");
    ip(&node, &pod, "link add eth0 type ifb");
    let assert_refused = |refused: Error| {
        let text = refused.to_string();
        assert!(text.contains(pod.host_link()), "{text}");
        assert!(!refused.is_unreachable(), "{text}");
    };
    assert_refused(datapath().check(&of(10).request()).unwrap_err());
    let host = qdiscs(&node, pod.host_link());
    assert!(host.contains("rate 10Mbit"), "{host}");
    // The part that has its place there.
    assert_refused(datapath().apply(&of(5).request()).unwrap_err());
    assert_refused(datapath().check(&of(5).request()).unwrap_err());
    let host = qdiscs(&node, pod.host_link());
    assert!(host.contains("rate 5Mbit"), "{host}");
    let by_ifb = of(6).by_ifb();
    datapath().apply(&by_ifb.request()).unwrap();
    datapath().check(&by_ifb.request()).unwrap();
    assert!(!qdiscs_inside(&node, &pod, "eth0").contains("tbf"));

    // It comes back, and its index is another link's.
    let index = record(&of(6)).ends.unwrap().pod;
    ip(&node, &pod, "link delete eth0");
    ip(&node, &pod, &format!("link add x index {index} type ifb"));
    ip(&node, &nested, "link set eth0 netns a");
    ip(&node, &pod, "link set eth0 up");
    datapath().apply(&of(20).request()).unwrap();
    datapath().check(&of(20).request()).unwrap();
    for shown in [
        qdiscs(&node, pod.host_link()),
        qdiscs_inside(&node, &pod, "eth0"),
    ] {
        assert!(shown.contains("rate 20Mbit"), "{shown}");
    }
    assert!(!qdiscs_inside(&node, &pod, "x").contains("tbf"));
}
