//! What each of several lines has.

use super::*;

/// What is said is of all lines together, and what their cards say of each by itself.
#[test]
fn lines_together_carry_what_is_said_of_the_node() {
    let has = |line: &str, scene: &Scene| {
        let egress = scene.plan.lines[line].of(Direction::Egress);
        let be = egress.of(TrafficClass::BestEffort).min;
        (egress.total.bits_per_second(), be.bits_per_second())
    };
    let said = config(
        &shares(&json!("300M"), &json!("200M")).to_string(),
        &total("1100M"),
    );
    let unsaid = config(&shares(&json!(30), &json!(20)).to_string(), "{}");
    for (config, speeds, expected) in [
        // By what they carry by themselves.
        (
            &said,
            [Some(10_000), Some(1_000)],
            [(1_000, 181), (100, 18)],
        ),
        // Of one of them that is not known.
        (&said, [Some(10_000), None], [(550, 100), (550, 100)]),
        (
            &unsaid,
            [Some(10_000), Some(1_000)],
            [(10_000, 2_000), (1_000, 200)],
        ),
    ] {
        let mut scene = Scene::new();
        let [one, other] = speeds.map(|it| it.map(mbit));
        scene.speeds = [("eth0".into(), one), ("eth1".into(), other)].into();
        assert_eq!(scene.say("config", config), [""; 0]);
        let found = ["eth0", "eth1"].map(|line| has(line, &scene));
        let megabits = found.map(|(total, be)| (total / 1_000_000, be / 1_000_000));
        assert_eq!(megabits, expected, "{speeds:?}");
    }
    // What was right stays, of each its part.
    let mut scene = Scene::new();
    scene.speeds.insert("eth1".into(), None);
    assert_eq!(scene.say("config", &said), [""; 0]);
    let little = json!({"node.koordinator.sh/network-bandwidth": "400M"});
    let problems = scene.say("node", &node(json!({}), little));
    assert!(!problems.is_empty());
    assert_eq!(
        has("eth1", &scene),
        (550_000_000, 100_000_000),
        "{problems:?}"
    );
}

#[test]
fn percentages_are_of_the_slowest_line_and_each_line_has_its_own_shares() {
    let mut scene = Scene::new();
    scene.speeds = [("eth0", Some(1000)), ("eth1", Some(100)), ("br0", None)]
        .map(|(name, speed)| (Arc::from(name), speed.map(mbit)))
        .into();
    let resources = shares(&json!(30), &json!(20)).to_string();
    let problems = scene.say("config", &config(&resources, "{}"));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("Node node1: LineSpeedUnknown: br0: "),
        "{problems:?}"
    );
    let totals: Vec<_> = scene
        .plan
        .lines
        .iter()
        .map(|(name, it)| (&**name, it.egress.total))
        .collect();
    assert_eq!(totals[1..], [("eth0", mbit(1000)), ("eth1", mbit(100))]);
    assert!(scene.plan.lines["br0"].is_open());
    scene.say("a", &pod("a", json!({}), r#"{"ingressLimit": 50}"#));
    assert_eq!(scene.plan.pods["a"].asked.ingress.max, Some(mbit(50)));
}
