use std::collections::BTreeSet;
use std::time::Duration;

use netqos_netlink::qdisc::Tbf;
use netqos_netlink::{Handle, Listener, Socket};
use netqos_testkit::Node;

/// The kernel announces the answer to a request for a qdisc to all listeners.
#[test]
fn own_changes_and_requests_are_not_reported() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (own, foreign) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    let mut listener = Listener::open().unwrap();
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(own.host_link()).unwrap();
    let tbf = Tbf {
        rate: 125_000,
        burst: 10_000,
        largest: 10_000,
        limit: 10_000,
    };
    socket
        .put_qdisc(&link, Handle::ROOT, Handle::new(1, 0), &tbf)
        .unwrap();
    socket.qdisc_at(&link, Handle::ROOT).unwrap().unwrap();
    let add = ["qdisc", "add", "dev", foreign.host_link(), "clsact"];
    node.run("tc", &add).unwrap();
    let news = listener.wait(Duration::from_millis(50)).unwrap();
    let foreign = socket.link_by_name(foreign.host_link()).unwrap().index;
    assert_eq!(news.traffic_control, BTreeSet::from([foreign]), "{news:?}");
}
