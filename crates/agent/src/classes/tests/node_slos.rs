//! What a NodeSLO says of the network, and what it does not.

use super::*;

/// As Koordinator's manager writes them for processors and memory.
#[test]
fn a_node_slo_that_says_nothing_of_the_network_divides_no_line() {
    let mut scene = Scene::new();
    scene.speeds = BTreeMap::from([("eth0".into(), Some(mbit(100)))]);
    let slo = |network: Value| {
        json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "node1"},
            "spec": {
                "resourceQOSStrategy": {"beClass": {"cpuQOS": {"groupIdentity": -1}, "networkQOS": network}},
                "systemStrategy": {"totalNetworkBandwidth": "0"},
            }
        })
    };
    assert_eq!(scene.say("slo", &slo(Value::Null)), [""; 0]);
    assert!(scene.knowledge.division().is_none());
    // The ConfigMap speaks, if that is there.
    scene.say("config", &good());
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(
        scene.say("slo", &slo(json!({"egressRequest": 10}))),
        [""; 0]
    );
    assert_eq!(scene.guaranteed(), Some([60, 30, 10]));
    // What it said stays once it says no more.
    fs::remove_file(scene.place.path().join("config.json")).unwrap();
    let told = scene.say("slo", &slo(Value::Null));
    assert_eq!(told.len(), 1, "{told:?}");
    let says = "the NodeSLO of this node says nothing of the network any more; what it said stays in force";
    assert!(told[0].contains(says), "{told:?}");
    assert_eq!(scene.guaranteed(), Some([60, 30, 10]));
}

#[test]
fn a_limit_of_the_system_is_not_kept_which_is_warned_of() {
    let mut scene = Scene::new();
    let strategy = json!({"systemClass": network_qos(&json!(10), &json!(50))});
    let cluster = json!({"clusterStrategy": strategy}).to_string();
    let slo = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "node1"},
        "spec": {
            "resourceQOSStrategy": strategy,
            "systemStrategy": {"totalNetworkBandwidth": "1000M"},
        }
    });
    let config = config(&cluster, &total("1000M"));
    for (file, object) in [("config", config), ("slo", slo)] {
        // Nothing is in force for it that would not be.
        assert_eq!(scene.say(file, &object), [""; 0]);
        let told = scene.knowledge.warnings();
        for (told, way) in told.iter().zip(["ingress", "egress"]) {
            let says =
                format!("systemClass.networkQOS.{way}Limit: is not kept: the system may always");
            assert!(told.contains(&says), "{told}");
        }
        assert_eq!(told.len(), 2, "{told:?}");
        let shares = scene.plan.lines["eth0"].egress.of(TrafficClass::System);
        assert_eq!(shares.max, mbit(1000));
    }
}

/// Where koordlet is at work, it follows what is Koordinator's; all else is said to netqos alone.
#[test]
fn what_koordlet_is_told_is_left_to_it() {
    let (kernel, tc) = (BackendKind::Kernel, BackendKind::Tc);
    let (terway, none) = (BackendKind::TerwayQos, BackendKind::None);
    for (default, policy, label, alone, beside, is_left) in [
        (kernel, Some("terway-qos"), None, terway, none, Some(true)),
        (kernel, Some("tc"), None, tc, none, Some(true)),
        (
            kernel,
            Some("tc"),
            Some("kernel"),
            kernel,
            kernel,
            Some(false),
        ),
        (kernel, Some("tc"), Some("tc"), tc, tc, Some(false)),
        (kernel, Some("tc"), Some("none"), none, none, Some(true)),
        (tc, Some("kernel"), None, kernel, kernel, None),
        (kernel, None, None, kernel, kernel, None),
        (tc, None, None, tc, tc, None),
    ] {
        let mut scene = Scene::new();
        scene.knowledge = Knowledge::new("node1", default);
        let policies = policy.map_or(json!({}), |policy| json!({"netQOSPolicy": policy}));
        let slo = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
            "metadata": {"name": "node1"},
            "spec": {
                "resourceQOSStrategy": {
                    "policies": policies, "beClass": network_qos(&json!(10), &json!(100)),
                },
                "systemStrategy": {"totalNetworkBandwidth": "1G"},
            }
        });
        scene.say("slo", &slo);
        let labels = label.map_or(json!({}), |it| json!({"netqos.io/class-backend": it}));
        assert_eq!(scene.say("node", &node(labels, json!({}))), [""; 0]);
        let knowledge = &mut scene.knowledge;
        assert_eq!(
            (knowledge.backend(), knowledge.koordlet_divides()),
            (alone, None)
        );
        assert!(knowledge.hear_koordlet(true));
        let now = (knowledge.backend(), knowledge.koordlet_divides());
        assert_eq!(now, (beside, is_left), "{policy:?}, {label:?}");
        assert!(!knowledge.hear_koordlet(true));
        assert!(knowledge.hear_koordlet(false));
        assert_eq!(knowledge.backend(), alone);
    }
}
