//! What is written is read, what the proposal shows is read, and each mistake is named.

use std::path::PathBuf;

use ipnet::IpNet;
use netqos_core::classes::{
    Ask, Asked, FlowMatch, FlowPart, LineShares, Share, Shares, TrafficClass,
};
use netqos_core::{BitRate, Direction, Dscp, ObjectName, PodId};
use proptest::prelude::*;

use super::*;

const fn bytes(bytes: u64) -> BitRate {
    BitRate::from_bits_per_second(bytes * 8)
}

fn any_class() -> impl Strategy<Value = TrafficClass> {
    proptest::sample::select(TrafficClass::ALL.to_vec())
}

fn any_ask() -> impl Strategy<Value = Ask> {
    (0_u64..1 << 40, proptest::option::of(1_u64..1 << 40)).prop_map(|(min, max)| Ask {
        min: bytes(max.map_or(min, |max| min.min(max))),
        max: max.map(bytes),
    })
}

fn any_network() -> impl Strategy<Value = IpNet> {
    let v4 = (any::<[u8; 4]>(), 0_u8..=32).prop_map(|(address, length)| (address.into(), length));
    let v6 = (any::<[u8; 16]>(), 0_u8..=128).prop_map(|(address, length)| (address.into(), length));
    prop_oneof![v4, v6].prop_map(|(address, length)| IpNet::new(address, length).unwrap())
}

fn any_dscp() -> impl Strategy<Value = Dscp> {
    (0_i64..64).prop_map(|dscp| Dscp::try_new(dscp).unwrap())
}

fn any_flow(direction: Direction) -> impl Strategy<Value = FlowPart> {
    let port = (1_u16.., 1_u16..).prop_map(|(a, b)| a.min(b)..=a.max(b));
    let flow = (
        proptest::option::of(any_network()),
        proptest::option::of(port),
        proptest::option::of(any_dscp()),
    );
    let flow = flow.prop_map(|(peer, port, dscp)| FlowMatch { peer, port, dscp });
    let class = proptest::option::of(any_class());
    let dscp = proptest::option::of(any_dscp());
    (flow, class, any_ask(), dscp).prop_map(move |(flow, class, ask, dscp)| FlowPart {
        direction,
        flow,
        class,
        ask,
        dscp,
    })
}

prop_compose! {
    fn any_pod()(
        uid in "[a-f0-9]{8}",
        (namespace, name) in ("[a-z]{1,9}", "[a-z0-9.-]{1,20}"),
        class in any_class(),
        cgroup in proptest::option::of("/kubepods(/[a-z0-9-]{1,9}){0,3}"),
        (ingress, egress) in (any_ask(), any_ask()),
        to in proptest::collection::vec(any_flow(Direction::Ingress), 0..3),
        from in proptest::collection::vec(any_flow(Direction::Egress), 0..3),
    ) -> NetPod {
        NetPod {
            id: PodId { name: ObjectName::new(&namespace, &name), uid: uid.into() },
            class,
            cgroup: cgroup.map(PathBuf::from),
            asked: Asked { ingress, egress },
            flows: [to, from].concat(),
        }
    }
}

proptest! {
    #[test]
    fn pods_are_read_as_they_were_written(
        pods in proptest::collection::btree_map("[a-f0-9]{8}", any_pod(), 0..4)
    ) {
        let of_uid = |(uid, mut pod): (String, NetPod)| {
            pod.id.uid = uid.into();
            pod
        };
        let pods: Vec<NetPod> = pods.into_iter().map(of_uid).collect();
        prop_assert_eq!(parse_pods(&pods_json(&pods)), Ok(pods));
    }

    #[test]
    fn a_line_is_read_as_it_was_written(total in 4_u64..1 << 50, l1 in 0_u64..50, l2 in 0_u64..50) {
        let share = |percent| Share { min: bytes(total / 100 * percent), max: bytes(total) };
        let shares = Shares::try_new(bytes(total), share(l1), share(l2)).unwrap();
        let line = LineShares { ingress: shares, egress: shares };
        prop_assert_eq!(parse_node(&node_json(&line)), Ok(line));
    }
}

/// The rules of the proposal's own example, whose commas are not all JSON.
const PROPOSED: &str = r#"{
  "cgroup": "/sys/fs/cgroup/kubepods/pod1", "priority": 2, "pod": "games/a", "podUID": "1-2-3",
  "qos-config": {
    "ingress": [{
      "matchs": [{"type": "ip"}],
      "actions": [{"action": "qos-class", "value": "l1"}]
    }],
    "egress": [{
      "matchs": [{"type": "port", "expr": "=80"}],
      "actions": [
        {"action": "qos-class", "value": "l1"},
        {"action": "dscp", "value": ""},
        {"action": "bandwidth_min", "value": "1000"},
        {"action": "bandwidth_max", "value": "1000"}
      ]
    }]
  }
}"#;

#[test]
fn what_the_proposal_shows() {
    let pod = parse_pods(PROPOSED).unwrap().remove(0);
    assert_eq!(pod.id.name, ObjectName::new("games", "a"));
    assert_eq!(pod.class, TrafficClass::BestEffort);
    assert_eq!(pod.cgroup, Some(PathBuf::from("/kubepods/pod1")));
    assert_eq!(pod.asked, Asked::default());
    let l1 = Some(TrafficClass::LatencySensitive);
    let ingress = FlowPart {
        direction: Direction::Ingress,
        flow: FlowMatch::default(),
        class: l1,
        ask: Ask::default(),
        dscp: None,
    };
    let egress = FlowPart {
        direction: Direction::Egress,
        flow: FlowMatch {
            port: Some(80..=80),
            ..FlowMatch::default()
        },
        class: l1,
        ask: Ask {
            min: bytes(1000),
            max: Some(bytes(1000)),
        },
        dscp: None,
    };
    assert_eq!(pod.flows, [ingress, egress]);
}

#[test]
fn one_pod_several_one_after_the_other_and_by_uid() {
    let pod = |uid: &str| format!(r#"{{"pod": "games/{uid}", "podUID": "{uid}", "priority": 1}}"#);
    let (a, b) = (pod("a"), pod("b"));
    for (text, uids) in [
        (String::new(), &[][..]),
        ("{}".to_owned(), &[]),
        (a.clone(), &["a"]),
        (format!("{a}\n{b}\n"), &["a", "b"]),
        (format!("[{a}, {b}]"), &["a", "b"]),
        (format!(r#"{{"a": {a}, "b": {b}}}"#), &["a", "b"]),
    ] {
        let pods = parse_pods(&text).unwrap();
        let found: Vec<&str> = pods.iter().map(|pod| &*pod.id.uid).collect();
        assert_eq!(found, uids, "{text}");
    }
}

#[test]
fn each_mistake_is_named() {
    let rules = |rules: &str| {
        format!(r#"{{"pod": "games/a", "podUID": "a", "qos-config": {{"egress": [{rules}]}}}}"#)
    };
    for (text, mistakes) in [
        ("{".to_owned(), &["pods: is no JSON"][..]),
        ("[7]".to_owned(), &["pods[0]: invalid type"]),
        ("7".to_owned(), &["pods: 7 is no pod"]),
        (
            r#"[{"pod": "a", "podUID": "", "priority": 3, "cgroup": "/a/../b"}, {"podUID": "b"}]"#
                .to_owned(),
            &[
                "pods[0].priority: 3 is none",
                "pods[0].pod: \"a\" is no namespace/name",
                "pods[0].podUID: is empty",
                "pods[0].cgroup: leads out",
                "pods[1]: missing field `pod`",
            ],
        ),
        (
            r#"[{"pod": "a/a", "podUID": "a"}, {"pod": "a/b", "podUID": "a"}]"#.to_owned(),
            &["pods[1]: pod a stands there twice"],
        ),
        (
            rules(r#"7, {"matches": []}, {"matchs": [{"type": "mac"}]}"#),
            &[
                "egress[0]: is no object",
                "egress[1].matches: is not known",
                "egress[2].matchs[0]: there are the types",
            ],
        ),
        (
            rules(
                r#"{"matchs": [{"type": "port", "expr": "=0"}, {"type": "ip", "expr": "x"},
                    {"type": "dscp", "expr": "=64"}, {"type": "port", "expr": "=9-8"},
                    {"type": "port", "expr": "=9"}, {"type": "port", "expr": "=8"}]}"#,
            ),
            &[
                "matchs[0]: \"0\" is neither a port",
                "matchs[1]: \"x\" is neither an address",
                "matchs[2]: \"64\" is no DSCP",
                "matchs[3]: \"9-8\" is neither",
                "matchs[5]: is said twice",
            ],
        ),
        (
            rules(
                r#"{"actions": [{"action": "bandwidth_min", "value": "9"},
                    {"action": "bandwidth_max", "value": 8}, {"action": "drop"},
                    {"action": "qos-class", "value": "l3"}, {"action": "bandwidth_max", "value": "1M"}]}"#,
            ),
            &[
                "actions[2]: there are the actions",
                "actions[3]: \"l3\" is none",
                "actions[4]: \"1M\" is no number",
                "actions: bandwidth_min is above bandwidth_max",
            ],
        ),
        (
            rules(r#"{"actions": []}, {"matchs": []}"#),
            &["egress[1]: a second rule of the whole pod"],
        ),
    ] {
        let found = parse_pods(&text).unwrap_err();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), mistakes.len(), "{text}: {found:#?}");
        for (found, expected) in found.iter().zip(mistakes) {
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
    for (text, mistakes) in [
        ("[]", &["node: is no JSON object"][..]),
        (
            "{}",
            &["ingress: a line of 0 bit/s", "egress: a line of 0 bit/s"],
        ),
        (
            r#"{"hw_tx_bps_max": "9", "hw_rx_bps_max": -1, "other": "x"}"#,
            &[
                "hw_rx_bps_max: -1 is no number",
                "hw_tx_bps_max: \"9\" is no number",
            ],
        ),
        (
            r#"{"hw_tx_bps_max": 9, "hw_rx_bps_max": 9, "l1_tx_bps_min": 5, "l1_tx_bps_max": 4}"#,
            &["egress: latency-sensitive: a request of 40 bit/s is above the limit of 32 bit/s"],
        ),
    ] {
        let found = parse_node(text).unwrap_err();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), mistakes.len(), "{text}: {found:#?}");
        for (found, expected) in found.iter().zip(mistakes) {
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
}
