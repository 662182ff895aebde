//! Other people's programs, filters and qdiscs on the same links: they stay where they are, and do
//! what they did.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use netqos_netlink::{Namespace, Socket};
use netqos_testkit::{ForeignHook, ForeignProgram, Node, Pod, TcAttachType, Verdict};
use serde_json::Value;

use super::calls::{
    add, call, check, del, inside, is_there, limited_by, node, on_node, state, warm_up, ways,
};
use super::kernel::{Held, in_pod, on_host};

/// A packet that passes is there long before; so long does a busy machine get.
const LONG: Duration = Duration::from_secs(5);
/// After so long it is sent again.
const AGAIN: Duration = Duration::from_millis(100);
/// So long is waited for one that must not come.
const SHORT: Duration = Duration::from_millis(25);

/// Where other people attach: before and behind our preference, before and behind our link.
const PLACES: [ForeignHook; 4] = [
    ForeignHook::Clsact(1),
    ForeignHook::Clsact(1000),
    ForeignHook::TcxFirst,
    ForeignHook::TcxLast,
];

/// Those of [`PLACES`] that this kernel has.
fn places() -> impl Iterator<Item = ForeignHook> {
    let is_tcx =
        |place: &ForeignHook| matches!(place, ForeignHook::TcxFirst | ForeignHook::TcxLast);
    PLACES
        .into_iter()
        .filter(move |place| !is_tcx(place) || is_there("tcx"))
}

/// Filters of other people, close to ours. The kernel lists u32 filters of one hook at the other,
/// where both have some at the same preference; so these have none.
const FOREIGN_FILTERS: [(&str, u16); 7] = [
    ("ingress", 1),
    ("ingress", 49152),
    ("ingress", 65534),
    ("egress", 2),
    ("egress", 80),
    ("egress", 82),
    ("egress", 49153),
];

/// Two ends that say a word to each other.
struct Talk {
    host: UdpSocket,
    pod: UdpSocket,
}

impl Talk {
    fn new(pod: &Pod) -> Self {
        let at_pod = format!("{}:0", pod.address());
        Self {
            host: UdpSocket::bind(format!("{}:0", pod.gateway())).unwrap(),
            pod: pod.inside(|| UdpSocket::bind(at_pod).unwrap()).unwrap(),
        }
    }

    /// Says it again and again, since a link that has just come up may lose the first.
    fn passes(from: &UdpSocket, to: &UdpSocket, wait: Duration) -> bool {
        to.set_nonblocking(true).unwrap();
        while to.recv(&mut [0; 16]).is_ok() {}
        to.set_nonblocking(false).unwrap();
        to.set_read_timeout(Some(wait.min(AGAIN))).unwrap();
        let end = Instant::now() + wait;
        loop {
            from.send_to(b"word", to.local_addr().unwrap()).unwrap();
            if to.recv(&mut [0; 16]).is_ok() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
        }
    }

    fn reaches_pod(&self, wait: Duration) -> bool {
        Self::passes(&self.host, &self.pod, wait)
    }

    fn reaches_host(&self, wait: Duration) -> bool {
        Self::passes(&self.pod, &self.host, wait)
    }

    #[track_caller]
    fn assert_both_reach(&self, what: &str) {
        assert!(self.reaches_pod(LONG), "to the pod: {what}");
        assert!(self.reaches_host(LONG), "from the pod: {what}");
    }
}

/// A foreign program on the pod's link, on its side. It is attached, and taken away again, in the
/// namespace in which it is.
struct Foreign<'p> {
    program: Option<ForeignProgram>,
    inside: Option<&'p Pod>,
}

impl<'p> Foreign<'p> {
    fn on_host(pod: &Pod, direction: TcAttachType, place: ForeignHook, verdict: Verdict) -> Self {
        let program = ForeignProgram::attach(pod.host_link(), direction, place, verdict).unwrap();
        Self {
            program: Some(program),
            inside: None,
        }
    }

    fn in_pod(pod: &'p Pod, place: ForeignHook, verdict: Verdict) -> Self {
        let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
        let program = ForeignProgram::attach("eth0", TcAttachType::Egress, place, verdict);
        Self {
            program: Some(program.unwrap()),
            inside: Some(pod),
        }
    }

    fn seen(&self) -> u64 {
        self.program.as_ref().unwrap().seen().unwrap()
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        let inside = self.inside.map(|pod| Namespace::open(pod.netns()).unwrap());
        let _inside = inside.as_ref().map(|inside| inside.enter().unwrap());
        self.program = None;
    }
}

/// A pod that knows the node's hardware address for good, as the node knows the pod's: what is
/// dropped must not be their question for it.
fn talking(node: &Node) -> (Pod, Talk) {
    let pod = node.pod("a").unwrap();
    let mac = |link: &str| {
        let mut socket = Socket::open().unwrap();
        socket.link_by_name(link).unwrap().mac()
    };
    let neighbour = |address: &str, link: &str, mac: &str| {
        format!("ip neigh replace {address} dev {link} lladdr {mac} nud permanent")
    };
    let inner = pod.inside(|| mac("eth0")).unwrap();
    let outer = mac(pod.host_link());
    inside(node, &pod, &neighbour(&pod.gateway(), "eth0", &outer));
    on_node(node, &neighbour(&pod.address(), pod.host_link(), &inner));
    let talk = Talk::new(&pod);
    talk.assert_both_reach("");
    (pod, talk)
}

/// Runs the life of a limit with foreign programs made before or amid; after ADD and after DEL it
/// calls `assert`. In the end the pod is bare, so that whoever comes first makes the clsact.
fn through_a_life<'p>(
    (node, pod): (&Node, &'p Pod),
    config: &Value,
    is_before: bool,
    attach: impl Fn() -> Vec<Foreign<'p>>,
    assert: impl Fn(&[Foreign<'p>]),
) {
    let early = is_before.then(&attach);
    add(pod, config);
    let foreign = early.unwrap_or_else(&attach);
    assert(&foreign);
    check(pod, config);
    del(pod, config);
    assert(&foreign);
    drop(foreign);
    let has_clsact = |link: Held| link.qdiscs.iter().any(|qdisc| qdisc.starts_with("clsact"));
    if has_clsact(on_host(pod.host_link())) {
        on_node(
            node,
            &format!("tc qdisc del dev {} clsact", pod.host_link()),
        );
    }
    if has_clsact(in_pod(pod, "eth0")) {
        inside(node, pod, "tc qdisc del dev eth0 clsact");
    }
}

#[test]
fn who_drops_drops() {
    let Some(node) = node() else { return };
    let (pod, talk) = talking(&node);
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        for place in places() {
            for is_before in [true, false] {
                let what = format!("{hook}, {egress}, {place:?}, before: {is_before}");
                let on_host = || {
                    [TcAttachType::Egress, TcAttachType::Ingress]
                        .map(|direction| Foreign::on_host(&pod, direction, place, Verdict::Drop))
                        .into()
                };
                through_a_life((&node, &pod), &config, is_before, on_host, |foreign| {
                    let before = [foreign[0].seen(), foreign[1].seen()];
                    assert!(!talk.reaches_pod(SHORT), "to the pod: {what}");
                    assert!(!talk.reaches_host(SHORT), "from the pod: {what}");
                    assert!(foreign[0].seen() > before[0], "to the pod: {what}");
                    assert!(foreign[1].seen() > before[1], "from the pod: {what}");
                });
                let in_pod = || vec![Foreign::in_pod(&pod, place, Verdict::Drop)];
                through_a_life((&node, &pod), &config, is_before, in_pod, |foreign| {
                    let before = foreign[0].seen();
                    assert!(!talk.reaches_host(SHORT), "inside: {what}");
                    assert!(foreign[0].seen() > before, "inside: {what}");
                });
            }
        }
    }
    talk.assert_both_reach("");
}

#[test]
fn who_counts_counts_and_everything_passes() {
    let Some(node) = node() else { return };
    let (pod, talk) = talking(&node);
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        for place in places() {
            for verdict in [Verdict::Next, Verdict::Accept] {
                let what = format!("{hook}, {egress}, {place:?}, {verdict:?}");
                let everywhere = || {
                    vec![
                        Foreign::on_host(&pod, TcAttachType::Egress, place, verdict),
                        Foreign::on_host(&pod, TcAttachType::Ingress, place, verdict),
                        Foreign::in_pod(&pod, place, verdict),
                    ]
                };
                through_a_life(
                    (&node, &pod),
                    &config,
                    verdict == Verdict::Next,
                    everywhere,
                    |foreign| {
                        let before: Vec<_> = foreign.iter().map(Foreign::seen).collect();
                        talk.assert_both_reach(&what);
                        for (foreign, before) in foreign.iter().zip(before) {
                            assert!(foreign.seen() > before, "{what}");
                        }
                    },
                );
            }
        }
    }
}

/// Filters right beside ours, on both hooks and both sides, on a clsact that is not ours.
#[test]
fn filters_and_a_clsact_of_others_stay() {
    let Some(node) = node() else { return };
    let (pod, talk) = talking(&node);
    warm_up(&pod);
    let clsact = |link: &str| format!("tc qdisc add dev {link} clsact");
    on_node(&node, &clsact("veth-a"));
    inside(&node, &pod, &clsact("eth0"));
    for (hook, preference) in FOREIGN_FILTERS {
        let filter = |link: &str| {
            format!(
                "tc filter add dev {link} {hook} pref {preference} protocol all u32 match u32 0 0"
            )
        };
        on_node(&node, &filter("veth-a"));
        inside(&node, &pod, &filter("eth0"));
    }
    let before = state(&node, &pod);
    for (hook, egress) in ways() {
        let what = format!("{hook}, {egress}");
        let config = limited_by(&pod, hook, egress);
        add(&pod, &config);
        for link in [on_host("veth-a"), in_pod(&pod, "eth0")] {
            let foreign = |filter: &&String| filter.ends_with("u32");
            assert_eq!(
                link.filters.iter().filter(foreign).count(),
                FOREIGN_FILTERS.len(),
                "{link:?}"
            );
        }
        check(&pod, &config);
        talk.assert_both_reach(&what);
        del(&pod, &config);
        state(&node, &pod).assert_is(&before, what);
    }
    on_node(
        &node,
        "tc filter del dev veth-a ingress; tc filter del dev veth-a egress",
    );
    let before = state(&node, &pod);
    warm_up(&pod);
    state(&node, &pod).assert_is(&before, "an empty clsact");
}

/// Where it stands there is no clsact: tcx serves, and the limit is held.
#[test]
fn an_ingress_qdisc_of_others_stays() {
    let Some(node) = node() else { return };
    let (pod, talk) = talking(&node);
    warm_up(&pod);
    on_node(
        &node,
        "tc qdisc add dev veth-a ingress; tc filter add dev veth-a ingress pref 7 protocol all u32 match u32 0 0",
    );
    let before = state(&node, &pod);
    for (hook, egress) in [
        ("auto", "pod"),
        ("auto", "ifb"),
        ("tcx", "ifb"),
        ("none", "ifb"),
    ] {
        if !is_there(hook) {
            continue;
        }
        let what = format!("{hook}, {egress}");
        let config = limited_by(&pod, hook, egress);
        add(&pod, &config);
        let link = on_host("veth-a");
        assert_eq!(link.tbf.unwrap().rate, 1_250_000);
        assert!(
            link.qdiscs
                .contains(&"ingress ffff: at ffff:fff1".to_owned()),
            "{link:?}"
        );
        check(&pod, &config);
        talk.assert_both_reach(&what);
        del(&pod, &config);
        state(&node, &pod).assert_is(&before, what);
    }
    let config = limited_by(&pod, "clsact", "pod");
    let (code, text) = call("ADD", &pod, &config).fail().unwrap();
    assert_eq!(code, 999);
    assert!(
        text.starts_with("veth-a has an ingress qdisc of somebody else's"),
        "{text}"
    );
    state(&node, &pod).assert_is(&before, "refused");
}
