//! That a limit takes effect, beside one of `tc`; `long::limits` measures how exactly.

use std::time::Duration;

use aya::programs::TcAttachType;
use netqos_core::Direction;
use netqos_netlink::Namespace;
use netqos_testkit::{Baseline, ForeignHook, ForeignProgram, Node, Pod, Verdict, has_tcx};
use netqos_traffic::{Flow, Server, TcpTest};

use super::{Wanted, both, datapath, hooks, server};

/// Of 20 Mbit/s, what TCP carries: 1,448 of 1,514 bytes.
const LIMIT: f64 = 20e6 * 1448.0 / 1514.0;
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// The hooks of the kernel for programs of others.
fn foreign_hooks() -> impl Iterator<Item = ForeignHook> {
    let clsact = [ForeignHook::Clsact(1), ForeignHook::Clsact(1000)];
    let tcx = [ForeignHook::TcxFirst, ForeignHook::TcxLast].into_iter();
    clsact.into_iter().chain(tcx.filter(|_| has_tcx()))
}

/// Asserts that TCP keeps to the limit in both directions.
fn assert_limited(pod: &Pod, server: &Server, baseline: &Baseline, what: &str) {
    for direction in DIRECTIONS {
        assert_limited_in(direction, pod, server, baseline, what);
    }
}

pub(super) fn assert_limited_in(
    direction: Direction,
    pod: &Pod,
    server: &Server,
    baseline: &Baseline,
    what: &str,
) {
    let test = TcpTest {
        flow: match direction {
            Direction::Ingress => Flow::Download,
            Direction::Egress => Flow::Upload,
        },
        omit: Duration::from_millis(300),
        duration: Duration::from_millis(500),
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(server.local_addr())
    };
    baseline.assert_limited(format!("{what}, {direction}"), LIMIT, || {
        let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
        report.goodput.rate.bits_per_second() as f64
    });
}

#[test]
fn veth_pod_is_limited_in_both_directions_and_families() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let baseline = Baseline::new(&node).unwrap();
    let servers = [other.address(), other.address6()].map(|address| server(&other, &address));
    for hook in hooks() {
        let by_pod = Wanted::new(&pod, both(20), hook);
        datapath().apply(&by_pod.request()).unwrap();
        for server in &servers {
            assert_limited(&pod, server, &baseline, &format!("{hook:?}"));
        }
        let by_ifb = Wanted::new(&pod, both(20), hook).by_ifb();
        datapath().apply(&by_ifb.request()).unwrap();
        assert_limited(&pod, &servers[0], &baseline, &format!("{hook:?}, ifb"));
    }
}

#[test]
fn macvlan_pod_is_limited_in_both_directions() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("parent").unwrap();
    let pod = node.macvlan_pod("limited", "parent").unwrap();
    let other = node.macvlan_pod("free", "parent").unwrap();
    let baseline = Baseline::new(&node).unwrap();
    let server = server(&other, &other.address());
    for hook in hooks() {
        let wanted = Wanted::new(&pod, both(20), hook);
        datapath().apply(&wanted.request()).unwrap();
        assert_limited(&pod, &server, &baseline, &format!("{hook:?}"));
        for at in foreign_hooks() {
            // A program is attached, and detached, in its namespace.
            let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
            let foreign = accept("eth0", TcAttachType::Ingress, at);
            let what = format!("{hook:?}, {at:?}");
            assert_limited_in(Direction::Ingress, &pod, &server, &baseline, &what);
            assert!(foreign.seen().unwrap() > 0, "{what}");
        }
    }
}

/// A foreign program that accepts every packet ends the chain before ours.
#[test]
fn foreign_program_that_accepts_lifts_no_limit() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let baseline = Baseline::new(&node).unwrap();
    let server = server(&other, &other.address());
    for hook in hooks() {
        for at in foreign_hooks() {
            let by_pod = Wanted::new(&pod, both(20), hook);
            datapath().apply(&by_pod.request()).unwrap();
            let at_host = accept(pod.host_link(), TcAttachType::Egress, at);
            let what = format!("{hook:?}, {at:?}");
            assert_limited_in(Direction::Ingress, &pod, &server, &baseline, &what);
            assert!(at_host.seen().unwrap() > 0, "{what}");
            drop(at_host);
            {
                let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
                let in_pod = accept("eth0", TcAttachType::Egress, at);
                assert_limited_in(Direction::Egress, &pod, &server, &baseline, &what);
                assert!(in_pod.seen().unwrap() > 0, "{what}");
            }
            // Where a redirect leads to the queue, behind all programs.
            let by_ifb = Wanted::new(&pod, both(20), hook).by_ifb();
            datapath().apply(&by_ifb.request()).unwrap();
            let before_redirect = accept(pod.host_link(), TcAttachType::Ingress, at);
            let what = format!("{what}, ifb");
            assert_limited_in(Direction::Egress, &pod, &server, &baseline, &what);
            assert!(before_redirect.seen().unwrap() > 0, "{what}");
        }
    }
}

fn accept(link: &str, direction: TcAttachType, at: ForeignHook) -> ForeignProgram {
    ForeignProgram::attach(link, direction, at, Verdict::Accept).unwrap()
}
