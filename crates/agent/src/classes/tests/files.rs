//! What another agent's files say, beside what objects do.

use std::path::PathBuf;

use netqos_api::koordinator::net_files::{parse_node, parse_pods};
use netqos_core::Dscp;
use netqos_core::classes::{FlowMatch, Place};

use super::*;

/// A file: what it says, what is wrong with it, or that it is not there.
type File = Option<std::result::Result<Value, &'static str>>;

/// A line of 100 Mbit/s of which l1 has 30 and l2 so many guaranteed.
fn line(l2: u64) -> File {
    let side = |way: &str| {
        [
            (format!("hw_{way}_bps_max"), 100),
            (format!("l1_{way}_bps_min"), 30),
            (format!("l1_{way}_bps_max"), 100),
            (format!("l2_{way}_bps_min"), l2),
            (format!("l2_{way}_bps_max"), 80),
        ]
    };
    let numbers = side("tx").into_iter().chain(side("rx"));
    let bytes = numbers.map(|(name, megabits)| (name, json!(megabits * 125_000)));
    Some(Ok(Value::Object(bytes.collect())))
}

fn entry(name: &str, uid: &str, priority: u8, rules: Value) -> Value {
    json!({
        "cgroup": format!("/sys/fs/cgroup/kubepods/pod{uid}"), "priority": priority,
        "pod": format!("games/{name}"), "podUID": uid, "qos-config": rules
    })
}

fn word<T>(
    file: &File,
    parse: impl Fn(&str) -> std::result::Result<T, Vec<netqos_api::koordinator::Mistake>>,
) -> Word<T> {
    match file {
        None => Word::Nothing,
        Some(Err(why)) => Word::Wrong(vec![(*why).to_owned()]),
        Some(Ok(value)) => Word::Said(parse(&value.to_string()).unwrap()),
    }
}

impl Scene {
    /// What is wrong when the files are so.
    fn follow(&mut self, node: &File, pods: &File) -> Vec<String> {
        self.knowledge.hear_files(Arc::new(NetFiles {
            folder: PathBuf::from("/net"),
            node: word(node, parse_node),
            pods: word(pods, parse_pods),
        }));
        self.read()
    }
}

#[test]
fn they_share_the_lines_where_no_object_does() {
    let mut scene = Scene::new();
    assert_eq!(scene.follow(&None, &None), [""; 0]);
    assert!(scene.knowledge.division().is_none());
    assert_eq!(scene.follow(&line(20), &None), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    let shares = scene.plan.lines["eth0"].ingress;
    assert_eq!(shares.of(TrafficClass::BestEffort).max, mbit(80));
    assert_eq!(scene.knowledge.backend(), BackendKind::Kernel);

    // Objects go before them as soon as they say something, and not before.
    let problems = scene.say("config", &config("{", &total("1000M")));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    assert_eq!(scene.say("config", &good()), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(scene.follow(&line(10), &None), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    // And once none is there any more, they are what is right.
    assert_eq!(scene.say("config", &Value::Null), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([60, 30, 10]));
}

/// As terway-qos has it, which counts what goes by all of them, and as netqos writes it there.
#[test]
fn they_say_what_all_lines_carry_together() {
    let mut scene = Scene::new();
    scene.speeds.insert("eth1".into(), None);
    assert_eq!(scene.follow(&line(20), &None), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([25, 15, 10]));
    assert_eq!(scene.plan.lines["eth0"], scene.plan.lines["eth1"]);
    assert_eq!(scene.plan.lines["eth0"].egress.total, mbit(50));
    let speeds = [("eth0", 300), ("eth1", 100)];
    scene.speeds = speeds
        .map(|(line, speed)| (line.into(), Some(mbit(speed))))
        .into();
    assert_eq!(scene.follow(&line(20), &None), [""; 0]);
    assert_eq!(scene.plan.lines["eth0"].egress.total, mbit(75));
    assert_eq!(scene.plan.lines["eth1"].egress.total, mbit(25));
}

#[test]
fn what_was_right_stays() {
    let mut scene = Scene::new();
    scene.follow(&line(20), &None);
    let wrong = Some(Err("hw_tx_bps_max: \"9\" is no number"));
    assert_eq!(
        scene.follow(&wrong, &None),
        [
            "Node node1: InvalidClasses: /net/node: hw_tx_bps_max: \"9\" is no number; what it said \
             before stays in force"
        ]
    );
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    let problems = scene.follow(&None, &None);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("/net/node is not there any more; what it said stays"),
        "{problems:?}"
    );
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    assert_eq!(scene.follow(&line(25), &None), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([45, 30, 25]));

    // Where an object counts, it is told of all the same.
    scene.say("config", &good());
    let problems = scene.follow(&wrong, &None);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].ends_with("the lines are shared as objects say"),
        "{problems:?}"
    );
    assert_eq!(scene.follow(&None, &None), [""; 0]);
    // What it said last is not what is right when the objects go.
    let problems = scene.say("config", &Value::Null);
    assert!(
        problems[0].contains("slo-controller-config is there any more"),
        "{problems:?}"
    );
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
}

#[test]
fn they_say_of_a_pod_what_it_does_not_say_itself() {
    let mut scene = Scene::new();
    scene.say("config", &good());
    let be = json!({"koordinator.sh/qosClass": "BE"});
    let asked = json!({"egressLimit": "9M", "PortsNetworkQOS": [{"port": 443, "QoSClass": "LS"}]});
    scene.say("a", &pod("a", be, &asked.to_string()));
    scene.say("b", &pod("b", json!({}), "{}"));
    assert_eq!(scene.plan.pods["b"].class, TrafficClass::BestEffort);
    let rules = json!({
        "ingress": [{"matchs": [{"type": "ip", "expr": "=10.0.0.0/8"}],
                     "actions": [{"action": "dscp", "value": "46"}]}],
        "egress": [
            {"matchs": [{"type": "port", "expr": "=8000-8080"}, {"type": "dscp", "expr": "=10"}],
             "actions": [{"action": "qos-class", "value": "l1"},
                         {"action": "bandwidth_min", "value": "1000000"}]},
            {"matchs": [], "actions": [{"action": "bandwidth_min", "value": "125000"},
                                       {"action": "bandwidth_max", "value": "2500000"}]}
        ]
    });
    let pods = Some(Ok(json!([
        entry("a", "a", 0, rules.clone()),
        entry("b", "b", 1, rules),
        entry("c", "c", 1, json!({})),
    ])));
    assert_eq!(scene.follow(&None, &pods), [""; 0]);
    let (a, b) = (&scene.plan.pods["a"], &scene.plan.pods["b"]);
    let egress = |max| Ask {
        min: mbit(1),
        max: Some(mbit(max)),
    };
    // Its label and its annotation go first; its guarantee it has from the file.
    assert_eq!(a.class, TrafficClass::BestEffort);
    assert_eq!(a.asked.egress, egress(9));
    // Only Kubernetes said its class.
    assert_eq!(b.class, TrafficClass::LatencySensitive);
    assert_eq!(b.asked.egress, egress(20));
    let own: Vec<_> = a.flows.iter().map(|it| it.flow.port.clone()).collect();
    assert_eq!(
        own,
        [Some(443..=443), Some(443..=443), None, Some(8000..=8080)]
    );
    let dscp = |dscp| Some(Dscp::try_new(dscp).unwrap());
    assert_eq!(b.flows[..], a.flows[2..]);
    assert_eq!(
        b.flows[0].flow,
        FlowMatch {
            peer: Some("10.0.0.0/8".parse().unwrap()),
            ..FlowMatch::default()
        }
    );
    assert_eq!(
        (b.flows[0].direction, b.flows[0].dscp),
        (Direction::Ingress, dscp(46))
    );
    assert_eq!(b.flows[1].flow.dscp, dscp(10));
    assert_eq!(b.flows[1].class, Some(TrafficClass::LatencySensitive));
    assert_eq!(b.flows[1].ask.min, mbit(8));
    assert!(!scene.plan.pods.contains_key("c"));

    // Wrong, or gone: as before.
    let before = scene.plan.clone();
    let problems = scene.follow(&None, &Some(Err("pods[0].priority: 3 is none")));
    assert_eq!(
        problems,
        [
            "Node node1: InvalidClasses: /net/pods: pods[0].priority: 3 is none; what it said before \
             stays in force"
        ]
    );
    assert_eq!(scene.plan, before);
    let problems = scene.follow(&None, &None);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("/net/pods is not there any more"));
    assert_eq!(scene.plan, before);
    assert_eq!(scene.follow(&None, &Some(Ok(json!([])))), [""; 0]);
    assert_eq!(scene.plan.pods["b"].class, TrafficClass::BestEffort);
    assert!(scene.plan.pods["b"].flows.is_empty());
}

/// By its uid; by its name where nobody gave it one; by the cgroup that it was found in.
#[test]
fn whose_an_entry_is() {
    let mut scene = Scene::new();
    scene.say("config", &good());
    let mut nameless = pod("b", json!({}), "{}");
    nameless["metadata"]["uid"] = Value::Null;
    scene.say("a", &pod("a", json!({}), "{}"));
    scene.say("b", &nameless);
    let pods = |uids: [&str; 2]| {
        let [a, b] = uids;
        let entries = [entry("a", a, 1, json!({})), entry("b", b, 1, json!({}))];
        Some(Ok(json!(entries)))
    };
    // One of the same name that was there before is another.
    scene.follow(&None, &pods(["older", "1-2-3"]));
    assert_eq!(scene.plan.pods["a"].class, TrafficClass::BestEffort);
    assert_eq!(
        scene.plan.pods["games/b"].class,
        TrafficClass::LatencySensitive
    );
    let batch = scene.folder.read().classes.unwrap();
    let found_in = |cgroup: &str| {
        let place = Place {
            cgroup: Some(cgroup.into()),
            ..Place::default()
        };
        let known = scene.knowledge.pod(&batch.pods["a"], place).unwrap();
        known.filed.map(|filed| filed.id.uid.to_string())
    };
    assert_eq!(found_in("/kubepods/podother"), None);
    assert_eq!(found_in("/kubepods/podolder").as_deref(), Some("older"));
    scene.follow(&None, &pods(["a", "1-2-3"]));
    assert_eq!(scene.plan.pods["a"].class, TrafficClass::LatencySensitive);
}

/// What its own backend has written, or would write over, is nobody's word.
#[test]
fn where_terway_qos_divides_they_say_nothing() {
    let mut scene = Scene::new();
    scene.say("b", &pod("b", json!({}), "{}"));
    let pods = Some(Ok(json!([entry("b", "b", 1, json!({}))])));
    assert_eq!(scene.follow(&line(20), &pods), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    let label = |name: &str| node(json!({"netqos.io/class-backend": name}), json!({}));
    let problems = scene.say("node", &label("terway-qos"));
    assert!(scene.knowledge.division().is_none());
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("/net/node: it is not followed where the class backend is"),
        "{problems:?}"
    );
    assert_eq!(scene.say("config", &good()), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(scene.plan.pods["b"].class, TrafficClass::BestEffort);
    // They do not take over from objects that are gone either, nor count later what they said.
    let problems = scene.say("config", &Value::Null);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(scene.follow(&None, &None).len(), 1);
    scene.say("node", &label("kernel"));
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(scene.plan.pods["b"].class, TrafficClass::BestEffort);
    scene.follow(&line(20), &pods);
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
}

#[test]
fn who_of_them_gets_less_than_it_asks_for_is_told() {
    let mut scene = Scene::new();
    scene.say("b", &pod("b", json!({}), "{}"));
    let rules = json!({"egress": [
        {"matchs": [{"type": "port", "expr": "=80-90"}, {"type": "ip", "expr": "=10.0.0.1"}],
         "actions": [{"action": "bandwidth_min", "value": "5000000"}]},
        {"matchs": [{"type": "port"}], "actions": [{"action": "bandwidth_min", "value": "1"},
                                                   {"action": "qos-class", "value": "l0"}]},
    ]});
    let problems = scene.follow(&line(20), &Some(Ok(json!([entry("b", "b", 2, rules)]))));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains(
            "20 Mbit/s of the 40 Mbit/s of egress that it asks for for ports 80-90, peer 10.0.0.1/32"
        ),
        "{problems:?}"
    );
}
