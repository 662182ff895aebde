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
    // Nothing is divided once it says no more, as the controller leaves it, also by an agent that starts.
    fs::remove_file(scene.place.path().join("config.json")).unwrap();
    let before = kept(&scene);
    let silent = slo(Value::Null);
    for record in [Some(&before), None] {
        restarted(&mut scene, record, Some(BackendKind::Kernel));
        assert_eq!(scene.say("slo", &silent), [""; 0]);
        assert!(scene.knowledge.division().is_none());
        assert_eq!(scene.knowledge.backend(), BackendKind::None);
        let says =
            "the NodeSLO of node1 says nothing of the network: the uplinks are no longer divided";
        assert!(scene.knowledge.warnings()[0].contains(says));
    }
    // It does not speak for a ConfigMap that is gone.
    scene.say("config", &good());
    let told = scene.say("config", &Value::Null);
    let says = "slo-controller-config is not there any more, and the NodeSLO of this node says nothing of the network; \
                what it said stays in force";
    assert!(told.len() == 1 && told[0].contains(says), "{told:?}");
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
}

/// Koordinator's own, which is about processors and memory.
fn silent() -> Value {
    let cpu = json!({"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}});
    config(&cpu.to_string(), "{}")
}

/// An agent that starts; what the one before it has kept, and who divided.
fn restarted(scene: &mut Scene, kept: Option<&Recorded>, kind: Option<BackendKind>) {
    scene.knowledge = Knowledge::new("node1", BackendKind::Kernel);
    scene.knowledge.restore(kept, kind);
    scene.plan = ClassPlan {
        lines: kept.map(|it| it.lines.clone()).unwrap_or_default(),
        ..ClassPlan::default()
    };
}

fn kept(scene: &Scene) -> Recorded {
    let (source, slo) = scene.knowledge.kept().unwrap();
    Recorded::new(source, slo, scene.plan.lines.clone(), Vec::new())
}

#[test]
fn silent_config_map_divides_nothing_and_ends_what_it_divided() {
    let none = (None, BackendKind::None);
    let state = |scene: &Scene| {
        let division = scene.knowledge.division();
        (division.map(|_| ()), scene.knowledge.backend())
    };
    let ended = |scene: &Scene| {
        let said = scene.knowledge.warnings().join("; ");
        said.contains(
            "slo-controller-config says nothing of the network: the uplinks are no longer",
        )
    };
    let mut scene = Scene::new();
    let annotated = json!({"node.koordinator.sh/network-bandwidth": "10G"});
    scene.say("node", &node(json!({}), annotated));
    assert_eq!(scene.say("config", &silent()), [""; 0]);
    assert_eq!((state(&scene), ended(&scene)), (none, false));
    scene.say("config", &good());
    assert_eq!(state(&scene), (Some(()), BackendKind::Kernel));
    assert_eq!(scene.say("config", &silent()), [""; 0]);
    assert_eq!((state(&scene), ended(&scene)), (none, true));
    assert_eq!(scene.knowledge.kept(), None);
    // An agent before this one took silence for 40, 30 and 30.
    restarted(&mut scene, None, Some(BackendKind::Tc));
    scene.read();
    assert_eq!((state(&scene), ended(&scene)), (none, true));
    // As this one does, whatever was kept.
    scene.say("config", &good());
    let before = kept(&scene);
    restarted(&mut scene, Some(&before), Some(BackendKind::Kernel));
    scene.say("config", &silent());
    assert_eq!((state(&scene), ended(&scene)), (none, true));
}

#[test]
fn silent_config_map_does_not_speak_for_a_node_slo_that_is_gone() {
    let mut scene = Scene::new();
    let slo = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "node1"},
        "spec": {
            "resourceQOSStrategy": {"beClass": network_qos(&json!(10), &json!(100))},
            "systemStrategy": {"totalNetworkBandwidth": "1G"},
        }
    });
    scene.say("config", &silent());
    scene.say("slo", &slo);
    assert_eq!(scene.guaranteed(), Some([600, 300, 100]));
    for restarts in [false, true] {
        let before = kept(&scene);
        if restarts {
            restarted(&mut scene, Some(&before), Some(BackendKind::Kernel));
        } else {
            fs::remove_file(scene.place.path().join("slo.json")).unwrap();
        }
        let problems = scene.read();
        let says = "the NodeSLO of this node is not there any more, and slo-controller-config says nothing of the network";
        assert!(
            problems.len() == 1 && problems[0].contains(says),
            "{problems:?}"
        );
        assert_eq!(scene.guaranteed(), Some([600, 300, 100]));
    }
    // One that is there, and says nothing any more, as the controller leaves it.
    let mut silent = slo;
    silent["spec"] = json!({});
    scene.say("slo", &silent);
    assert!(scene.knowledge.division().is_none());
}

#[test]
fn restarted_agent_keeps_what_a_wrong_configuration_left_in_force() {
    let tc = json!({"policies": {"netQOSPolicy": "tc"}, "beClass": network_qos(&json!(20), &json!(100))});
    let right = config(&json!({"clusterStrategy": tc}).to_string(), &total("1000M"));
    let percent = shares(&json!(130), &json!(20)).to_string();
    let above = shares(&json!("900M"), &json!("200M")).to_string();
    for (wrong, cards) in [
        (config("{", &total("1000M")), None),
        (config(&percent, &total("1000M")), None),
        (config(&above, &total("1000M")), None),
        (
            config(&json!({"clusterStrategy": tc}).to_string(), &total("1000")),
            None,
        ),
        (
            config(&json!({"clusterStrategy": tc}).to_string(), &total("99M")),
            Some(mbit(10_000)),
        ),
    ] {
        let mut scene = Scene::new();
        assert_eq!(scene.say("config", &right), [""; 0]);
        let (plan, before) = (scene.plan.clone(), kept(&scene));
        assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
        scene.cards = cards;
        for restarts in [false, true] {
            if restarts {
                restarted(&mut scene, Some(&before), Some(BackendKind::Tc));
            }
            let problems = scene.say("config", &wrong);
            assert!(!problems.is_empty(), "{wrong}");
            assert_eq!(scene.plan, plan, "{restarts} {wrong}");
        }
        // Of an older agent, which has kept nothing but who divides.
        if cards.is_none() && !wrong.to_string().contains("900M") {
            restarted(&mut scene, None, Some(BackendKind::Tc));
            scene.read();
            let knowledge = &scene.knowledge;
            assert_eq!(
                (knowledge.division().is_none(), knowledge.backend()),
                (true, BackendKind::Tc)
            );
        }
    }
    let says = "a total of 99 Mbit/s is less than 1 % of the 10 Gbit/s that the network cards carry; write 10000M";
    let mut scene = Scene::new();
    (scene.cards, scene.plan) = (Some(mbit(10_000)), ClassPlan::default());
    let problems = scene.say(
        "config",
        &config(&json!({"clusterStrategy": tc}).to_string(), &total("99M")),
    );
    assert!(problems[0].contains(says), "{problems:?}");
    assert_eq!(scene.guaranteed(), None);
    assert_eq!(
        scene.say(
            "config",
            &config(&json!({"clusterStrategy": tc}).to_string(), &total("100M"))
        ),
        [""; 0]
    );
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
