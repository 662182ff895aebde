use std::thread::{self, sleep};
use std::time::Duration;

use netqos_traffic::UdpReport;
use serde_json::json;

use super::stage::{self, Agent, Flow, assert_no_loss};
use super::{proxy, second_network, service};

const RULES: &str = "[{dscp: 46}, {dscp: 10, classifier: {to: [{ipBlock: {cidr: 192.0.2.0/24}}]}}]";

/// Neither its end nor its beginning is to be seen on the wire, nor in the kernel.
#[test]
fn without_touching_what_is_right_and_without_a_lost_packet() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(&a, limit));
    stage::put("p.yaml", &stage::policy("p", "a", RULES));
    let agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    // What is not urgent has been done.
    sleep(Duration::from_millis(1500));
    let before = node.state(&[&a, &b]).unwrap();
    assert_eq!(agent.terminate(), Some(0));
    for _ in 0..2 {
        sleep(Duration::from_millis(100));
        let agent = Agent::start();
        let reconciled = stage::status().reconciled;
        assert_eq!((reconciled.changes, reconciled.limits), (0, 0));
        sleep(Duration::from_millis(1500));
        agent.kill();
    }
    let after = node.state(&[&a, &b]).unwrap();
    after.assert_is(&before, "the agent ended and began");
    let seen = flow.end();
    assert!(seen.iter().all(|seen| seen.dscp == 46), "marks went");
    assert_no_loss(&seen);
}

/// What goes to `b` and `c`, and what the macvlan sends, in kbit/s.
const RATED: &str = "[{dscp: 20, bandwidth: {rate: 20000}, classifier: {to: [
    {podSelector: {matchExpressions: [{key: app, operator: In, values: [b, c]}]}}]}}]";
const FROM_INSIDE: &str = "[{dscp: 30, bandwidth: {rate: 20000}}]";
const RATE: f64 = 20e6;
const FLOOD: Duration = Duration::from_secs(7);

/// What a rule with a rate lets pass goes on at that rate, marked; what is under the rate is not
/// touched: through a Service, and from an interface that has no end on the node.
#[test]
fn while_traffic_of_every_kind_flows() {
    let Some(node) = stage::node() else { return };
    if !proxy::is_there(&node) {
        return;
    }
    let (a, b) = stage::pods(&node);
    let c = node.pod("c").unwrap();
    node.parent_link("parent").unwrap();
    let m = node.macvlan_pod("m", "parent").unwrap();
    let n = node.macvlan_pod("n", "parent").unwrap();
    for pod in [&a, &b, &c, &m] {
        stage::remember(pod, json!({}));
        let file = format!("{}.json", pod.name());
        stage::put(&file, &stage::manifest(pod, json!({})));
    }
    stage::put("p.yaml", &stage::policy("p", "a", RATED));
    stage::put("m.yaml", &stage::policy("m", "m", FROM_INSIDE));
    stage::put("service.yaml", &service::object());
    stage::put("slice.yaml", &service::slice(&b));
    service::forward(&node, &b);
    let agent = Agent::start();
    assert_eq!(stage::status().problems, []);
    let through_service = Flow::begin_by(&a, service::virtual_port(), &b, Duration::from_millis(2));
    let from_inside = Flow::begin(&m, &n, Duration::from_millis(1));
    through_service.wait_for(20);
    from_inside.wait_for(30);
    let sink = second_network::server(&c);
    let to = c.address().parse().unwrap();
    sleep(Duration::from_millis(1500));
    let before = (node.state(&[&a, &m]).unwrap(), dropped());
    let flood = thread::scope(|scope| {
        let (flooding, sinking, millis) = (&a, &sink, FLOOD.as_millis() as u64);
        let flood = scope.spawn(move || second_network::send(flooding, to, sinking, 40, millis));
        sleep(Duration::from_millis(700));
        agent.kill();
        // Some do not get far.
        for millis in [10, 40, 80, 160] {
            sleep(Duration::from_millis(200));
            let agent = Agent::spawn(&[]);
            sleep(Duration::from_millis(millis));
            agent.kill();
        }
        for _ in 0..2 {
            sleep(Duration::from_millis(300));
            let agent = Agent::start();
            let reconciled = stage::status().reconciled;
            assert_eq!((reconciled.changes, reconciled.limits), (0, 0));
            sleep(Duration::from_millis(1500));
            agent.kill();
        }
        flood.join().unwrap()
    });
    let after = node.state(&[&a, &m]).unwrap();
    after.assert_is(&before.0, "the agent was killed and began");
    for (flow, mark) in [(through_service, 20), (from_inside, 30)] {
        let seen = flow.end();
        assert!(seen.iter().all(|seen| seen.dscp == mark), "marks went");
        assert_no_loss(&seen);
    }
    let _agent = Agent::start();
    assert_rate_was_held(&flood, dropped() - before.1);
}

/// What the rule with the flood has dropped.
fn dropped() -> u64 {
    let rules = stage::pod_status("a").unwrap().rules;
    rules[0].counts.dropped_packets
}

fn assert_rate_was_held(flood: &UdpReport, dropped: u64) {
    let seen: Vec<u8> = flood
        .dscp_seen
        .iter()
        .map(|seen| seen.dscp.into())
        .collect();
    assert_eq!(seen, [20]);
    let told = dropped as f64 / flood.lost as f64;
    assert!((0.99..1.01).contains(&told), "{dropped} dropped: {flood}");
    let share = |bytes: u64, time: Duration| {
        let frames = bytes as f64 * 8.0 * 1442.0 / 1400.0;
        frames / time.as_secs_f64() / RATE
    };
    // The other flow takes a hundredth of it.
    let goodput = &flood.goodput;
    let all = share(goodput.received.bytes(), goodput.elapsed);
    let sent = flood.sent as f64 / (flood.sent + flood.held_back) as f64;
    assert!(
        (0.8 * sent..1.02).contains(&all),
        "{all} of the rate: {flood}"
    );
    for second in goodput.samples.chunks_exact(10) {
        let bytes = second.iter().map(|sample| sample.received.bytes()).sum();
        let share = share(bytes, second.iter().map(|sample| sample.elapsed).sum());
        assert!(
            // Seven agents start meanwhile, which may keep the sender waiting.
            (0.6 * sent..1.1).contains(&share),
            "{share} in a second: {flood}"
        );
    }
}
