//! The documents as they are written, from the proposal, from Koordinator's own tests, and wrong.

use std::collections::BTreeMap;

use netqos_core::classes::{LineShares, Share, TrafficClass};
use netqos_core::{BitRate, Labels};
use serde_json::{Value, json};

use super::*;

mod node_slos;

const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

fn data(keys: &[(&str, Value)]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    keys.iter()
        .map(|(key, value)| ((*key).to_owned(), text(value)))
        .collect()
}

fn config(keys: &[(&str, Value)]) -> SloConfig {
    let mut config = SloConfig::default();
    config.update(&data(keys)).unwrap();
    config
}

fn node(labels: &[(&str, &str)]) -> Labels {
    labels
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

fn slo(config: &SloConfig, labels: &[(&str, &str)]) -> NodeSlo {
    config.for_node(&node(labels), &BTreeMap::new()).unwrap()
}

/// What the classes are guaranteed of egress, in Mbit/s.
fn minima(slo: &NodeSlo, total: u64) -> [u64; 3] {
    let shares = slo.shares(mbit(total)).unwrap();
    TrafficClass::ALL.map(|class| shares.egress.of(class).min.bits_per_second() / 1_000_000)
}

fn class(request: Value, limit: Value) -> Value {
    json!({"networkQOS": {
        "enable": true,
        "ingressRequest": request, "ingressLimit": limit,
        "egressRequest": request, "egressLimit": limit,
    }})
}

#[test]
fn forty_thirty_thirty_unless_somebody_says_otherwise() {
    let policy = json!({"clusterStrategy": {"policies": {"netQOSPolicy": "kernel"}}});
    let slo = slo(&config(&[(RESOURCE_QOS, policy)]), &[]);
    assert_eq!(minima(&slo, 1000), [400, 300, 300]);
    assert_eq!(slo.total, None);
    let shares = slo.shares(mbit(1000)).unwrap();
    for class in TrafficClass::ALL {
        assert_eq!(shares.ingress.of(class), shares.egress.of(class));
        assert_eq!(shares.egress.of(class).max, mbit(1000));
    }
}

/// Nor does the annotation of a node, which says what it carries, and not that it is divided.
#[test]
fn config_without_network_keys_divides_nothing() {
    let cpu = json!({"cpuQOS": {"enable": true, "groupIdentity": 2}});
    let strategy = json!({"clusterStrategy": {"lsClass": cpu, "beClass": cpu, "cgroupRoot": cpu}});
    let pool = json!({"clusterStrategy": strategy["clusterStrategy"], "nodeStrategies": [
        {"nodeSelector": {"matchLabels": {"pool": "a"}}, "beClass": class(json!(10), json!(50))},
    ]});
    let factor = json!({"clusterStrategy": {"minFreeKbytesFactor": 100}});
    let annotations = [(NODE_BANDWIDTH_ANNOTATION.to_owned(), "10G".to_owned())];
    for keys in [
        vec![],
        vec![(RESOURCE_QOS, strategy)],
        vec![(RESOURCE_QOS, pool.clone()), (SYSTEM, factor)],
    ] {
        let slo = config(&keys).for_node(&node(&[]), &annotations.clone().into());
        assert_eq!(slo, Ok(NodeSlo::default()), "{keys:?}");
    }
    let slo = slo(&config(&[(RESOURCE_QOS, pool)]), &[("pool", "a")]);
    assert_eq!(minima(&slo, 100), [60, 30, 10]);
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    let of = |strategy: Value| (RESOURCE_QOS, json!({"clusterStrategy": strategy}));
    let be = |network: Value| of(json!({"beClass": {"networkQOS": network}}));
    let total = |total: Value| {
        (
            SYSTEM,
            json!({"clusterStrategy": {"totalNetworkBandwidth": total}}),
        )
    };
    let least = "100 kbit/s that it is at least; ";
    for (key, says) in [
        (
            be(json!({"egressLimit": "30"})),
            [least, "for 30 %: write 30, not \"30\""],
        ),
        (
            be(json!({"egressLimit": "500"})),
            [least, "for 500 Mbit/s write \"500M\""],
        ),
        (
            be(json!({"ingressRequest": "99k"})),
            [least, "like \"50M\""],
        ),
        (
            be(json!({"egresLimit": 30})),
            ["networkQOS.egresLimit: ", "write egressLimit"],
        ),
        (
            be(json!({"bandwidth": 30})),
            ["networkQOS.bandwidth: ", "write one of ingressRequest, "],
        ),
        (
            of(json!({"beClass": {"netwrokQOS": {}}})),
            ["beClass.netwrokQOS: ", "write networkQOS"],
        ),
        (
            of(json!({"lsClas": {}})),
            ["clusterStrategy.lsClas: ", "write lsClass"],
        ),
        (
            total(json!("1000")),
            [
                "1 Mbit/s that it is at least; ",
                "for 1000 Mbit/s write 1000M",
            ],
        ),
        (total(json!(999_999)), ["1 Mbit/s", "write 999999M"]),
        (
            total(json!("10Gbps")),
            ["\"10Gbps\": ", "write bits per second, like \"10G\""],
        ),
        (
            (
                SYSTEM,
                json!({"clusterStrategy": {"totalNetworkBandwith": "1G"}}),
            ),
            [
                "clusterStrategy.totalNetworkBandwith: ",
                "write totalNetworkBandwidth",
            ],
        ),
        (
            (SYSTEM, json!({"clusterStrateg": {}})),
            [SYSTEM, "write clusterStrategy"],
        ),
        (
            ("system-confg", json!({})),
            ["system-confg: ", "write system-config"],
        ),
    ] {
        let mistakes = SloConfig::default().update(&data(&[key])).unwrap_err();
        let [mistake] = &mistakes[..] else {
            panic!("{mistakes:?}")
        };
        let mistake = mistake.to_string();
        assert!(says.iter().all(|it| mistake.contains(it)), "{mistake}");
    }
    // What is right, Koordinator's, or nothing.
    let strategy = json!({
        "name": "a", "cgroupRoot": {}, "policies": {"cpuPolicy": "groupIdentity"},
        "beClass": {"memoryQOS": {"enable": true}, "networkQOS": {"EGRESSLIMIT": "100k", "ingressLimit": "0"}},
    });
    let system = json!({"clusterStrategy": {"memcgReapBackGround": 1, "bandwidth": "1G"}});
    let right = config(&[
        of(strategy),
        (SYSTEM, system),
        ("colocation-config", json!("{")),
    ]);
    let warnings = right.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].path, "system-config.clusterStrategy.bandwidth");
    // Pods may have less, as by annotations of Kubernetes.
    for (text, is_right) in [("1k", true), ("30", false)] {
        let asked = json!({"egressLimit": text}).to_string();
        assert_eq!(PodNetworkQos::parse(&asked).is_ok(), is_right, "{text}");
    }
    let wrong = PodNetworkQos::parse(r#"{"PortsNetworkQOS": [{"port": 80, "egresLimit": 5}]}"#)
        .unwrap_err();
    let says =
        "PortsNetworkQOS[0].egresLimit: netqos and Koordinator read no such key; write egressLimit";
    assert!(wrong[0].to_string().ends_with(says), "{wrong:?}");
}

/// 40 + 40 + 30 is 110, but LSR and LS are one level.
#[test]
fn the_proposals_own_example() {
    let strategies = json!({
        "lsrClass": class(json!(40), json!(100)),
        "lsClass": class(json!(40), json!(100)),
        "beClass": class(json!(30), json!(100)),
    });
    let system = json!({"clusterStrategy": {"totalNetworkBandwidth": "1000M"}});
    let apart = config(&[
        (RESOURCE_QOS, json!({"clusterStrategy": strategies})),
        (SYSTEM, system.clone()),
    ]);
    let nested = config(&[(
        RESOURCE_QOS,
        json!({"clusterStrategy": strategies, "system-config": system}),
    )]);
    let text = config(&[(
        RESOURCE_QOS,
        json!({"clusterStrategy": strategies, "system-config": system.to_string()}),
    )]);
    for config in [apart, nested, text] {
        let slo = slo(&config, &[]);
        assert_eq!(slo.total, Some(mbit(1000)));
        assert_eq!(minima(&slo, 1000), [300, 400, 300]);
    }
}

#[test]
fn ls_decides_for_its_level_and_lsr_where_there_is_no_ls() {
    let both =
        json!({"lsrClass": class(json!(10), json!(50)), "lsClass": class(json!(20), json!(60))});
    let both = slo(
        &config(&[(RESOURCE_QOS, json!({"clusterStrategy": both}))]),
        &[],
    );
    assert_eq!(minima(&both, 100), [50, 20, 30]);
    let lsr = json!({"lsrClass": class(json!(10), json!(50)), "lsClass": null});
    let lsr = slo(
        &config(&[(RESOURCE_QOS, json!({"clusterStrategy": lsr}))]),
        &[],
    );
    assert_eq!(minima(&lsr, 100), [60, 10, 30]);
}

/// Not even what holds of a line of unknown speed.
#[test]
fn lsr_is_not_lost_where_ls_is_taken_out_or_says_nothing_of_the_line() {
    let lsr = json!({"networkQOS": {
        "ingressRequest": 10, "ingressLimit": 50, "egressRequest": 10, "egressLimit": "50M",
    }});
    let be = class(json!(30), json!(100));
    for ls in [
        json!({"networkQOS": {"enable": false, "egressRequest": 20, "egressLimit": 60}}),
        json!({"cpuQOS": {"groupIdentity": 2}}),
        json!({}),
        json!({"networkQOS": null}),
        json!({"networkQOS": {}}),
        json!({"networkQOS": {"enable": true}}),
    ] {
        let resources = json!({"lsrClass": lsr, "lsClass": ls, "beClass": be});
        let spec = json!({"resourceQOSStrategy": resources});
        let of_node = NodeSlo::from_spec(spec.as_object().unwrap()).unwrap();
        let strategy = json!({"clusterStrategy": resources});
        let of_config = slo(&config(&[(RESOURCE_QOS, strategy)]), &[]);
        for slo in [of_node, of_config] {
            assert_eq!(minima(&slo, 100), [60, 10, 30], "{ls}");
            let max = |shares: LineShares| shares.egress.of(TrafficClass::LatencySensitive).max;
            assert_eq!(max(slo.shares(mbit(100)).unwrap()), mbit(50), "{ls}");
            assert_eq!(max(slo.open_shares()), mbit(50), "{ls}");
        }
    }
    // One that is there, and of which a field is said, decides.
    let ls = json!({"networkQOS": {"egressRequest": 20}});
    let spec = json!({"resourceQOSStrategy": {"lsrClass": lsr, "lsClass": ls, "beClass": be}});
    let slo = NodeSlo::from_spec(spec.as_object().unwrap()).unwrap();
    assert_eq!(minima(&slo, 100), [50, 20, 30]);
    // Its request counts among those of the line.
    let most = json!({"networkQOS": {"egressRequest": 80}});
    let none = json!({"networkQOS": {"enable": false}});
    let resources = json!({"lsrClass": most, "lsClass": none, "beClass": be});
    let wrong = config(&[(RESOURCE_QOS, json!({"clusterStrategy": resources}))]).contradictions();
    let says = "ClusterStrategy total net bandwidth percentage already over 100: requests of 110 %";
    assert!(
        wrong.len() == 1 && wrong[0].what.starts_with(says),
        "{wrong:?}"
    );
}

#[test]
fn a_class_that_is_taken_out_is_guaranteed_and_held_to_nothing() {
    let out = json!({"beClass": {"networkQOS": {"enable": false, "egressLimit": 10}}});
    let slo = slo(
        &config(&[(RESOURCE_QOS, json!({"clusterStrategy": out}))]),
        &[],
    );
    assert_eq!(minima(&slo, 100), [70, 30, 0]);
    let shares = slo.shares(mbit(100)).unwrap();
    assert_eq!(
        shares.egress.of(TrafficClass::BestEffort),
        Share::up_to(mbit(100))
    );
}

/// Field by field, the first selector that chooses the node, in any case.
#[test]
fn strategies_are_laid_over_each_other() {
    let config = config(&[(
        RESOURCE_QOS,
        json!({
            "ClusterStrategy": {"beclass": {"networkQOS": {"egressRequest": 20, "egressLimit": "50M"}}},
            "nodeStrategies": [
                {"name": "none", "beClass": class(json!(1), json!(1))},
                {
                    "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]},
                    "BEClass": {"NetworkQoS": {"EgressRequest": "10M"}},
                    "policies": {"netQOSPolicy": "terway-qos"},
                },
                {"nodeSelector": {"matchLabels": {"pool": "a"}}, "beClass": class(json!(2), json!(2))},
                {"nodeSelector": {"matchLabels": {"pool": "c"}}, "beClass": {"networkQOS": {"egressLimit": null}}},
                {"nodeSelector": {"matchLabels": {"pool": "d"}}, "beClass": {"networkQOS": {"egressRequest": 0}}},
            ],
        }),
    )]);
    let egress = |labels: &[(&str, &str)]| {
        let slo = slo(&config, labels);
        (slo.be.unwrap().qos.egress, slo.policy)
    };
    let percent = |percent| Some(Amount::Percent(percent));
    let rate = |megabits| Some(Amount::Rate(mbit(megabits)));
    let ask = |request, limit| Ask { request, limit };
    assert_eq!(egress(&[]), (ask(percent(20), rate(50)), None));
    assert_eq!(
        egress(&[("pool", "a")]),
        (ask(rate(10), rate(50)), Some(BackendKind::TerwayQos))
    );
    assert_eq!(egress(&[("pool", "c")]), (ask(percent(20), None), None));
    assert_eq!(egress(&[("pool", "d")]), (ask(percent(0), rate(50)), None));
    // What nobody speaks of is as it was by default.
    assert_eq!(
        slo(&config, &[]).be.unwrap().qos.ingress.request,
        percent(30)
    );
}

/// The node's annotation goes before its strategy, which goes before the cluster's.
#[test]
fn the_lines_rate_is_the_nearest_that_is_said() {
    let config = config(&[(
        SYSTEM,
        json!({
            "clusterStrategy": {"minFreeKbytesFactor": 150, "totalNetworkBandwidth": "100M"},
            "nodeStrategies": [
                {"nodeSelector": {"matchLabels": {"xxx": "yyy"}}, "totalNetworkBandwidth": "10M"},
                {"nodeSelector": {"matchLabels": {"zzz": "zzz"}}, "totalNetworkBandwidth": "1000M"},
            ],
        }),
    )]);
    for (labels, annotation, total) in [
        (&[][..], None, 100),
        (&[("xxx", "yyy")], None, 10),
        (&[("zzz", "zzz")], None, 1000),
        (&[], Some("99M"), 99),
        (&[("zzz", "zzz")], Some("99M"), 99),
        // As Koordinator's own default, it says nothing.
        (&[], Some("0"), 100),
    ] {
        let annotations: BTreeMap<String, String> = annotation
            .map(|text: &str| (NODE_BANDWIDTH_ANNOTATION.to_owned(), text.to_owned()))
            .into_iter()
            .collect();
        let slo = config.for_node(&node(labels), &annotations).unwrap();
        assert_eq!(slo.total, Some(mbit(total)), "{labels:?}, {annotation:?}");
    }
    let wrong = BTreeMap::from([(
        NODE_BANDWIDTH_ANNOTATION.to_owned(),
        "wrong-format".to_owned(),
    )]);
    let mistakes = config.for_node(&node(&[]), &wrong).unwrap_err();
    assert!(
        mistakes[0]
            .to_string()
            .starts_with(NODE_BANDWIDTH_ANNOTATION),
        "{mistakes:?}"
    );
}

#[test]
fn a_key_that_cannot_be_read_leaves_what_it_said_before() {
    let good = [
        (
            RESOURCE_QOS,
            json!({"clusterStrategy": {"beClass": class(json!(10), json!(100))}}),
        ),
        (
            SYSTEM,
            json!({"clusterStrategy": {"totalNetworkBandwidth": "1000M"}}),
        ),
    ];
    let before = config(&good);
    for (keys, texts) in [
        (
            vec![
                (RESOURCE_QOS, json!("{\"clusterStrategy\": ")),
                good[1].clone(),
            ],
            &["resource-qos-config: is no JSON object"][..],
        ),
        (
            vec![
                (
                    RESOURCE_QOS,
                    json!({
                        "clusterStrategy": {"beClass": class(json!(110), json!("x"))},
                        "nodeStrategies": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}],
                    }),
                ),
                good[1].clone(),
            ],
            &[
                "clusterStrategy.beClass.networkQOS.ingressRequest: must be percentage value just in 0-100: 110 is no percentage",
                "clusterStrategy.beClass.networkQOS.ingressLimit: \"x\"",
                "clusterStrategy.beClass.networkQOS.egressRequest: must be percentage",
                "clusterStrategy.beClass.networkQOS.egressLimit",
                "nodeStrategies[0].nodeSelector: a: \"Is\" is no operator",
            ],
        ),
        (
            vec![
                good[0].clone(),
                (
                    SYSTEM,
                    json!({"clusterStrategy": {"totalNetworkBandwidth": "lots"}}),
                ),
            ],
            &["system-config.clusterStrategy.totalNetworkBandwidth: \"lots\""],
        ),
        (
            vec![
                (
                    RESOURCE_QOS,
                    json!({"clusterStrategy": {"policies": {"netQOSPolicy": "cake"}}}),
                ),
                good[1].clone(),
            ],
            &["policies.netQOSPolicy: there are the policies tc, terway-qos, kernel and none"],
        ),
    ] {
        let mut config = before.clone();
        let found = config.update(&data(&keys)).unwrap_err();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), texts.len(), "{found:#?}");
        for (found, text) in found.iter().zip(texts) {
            assert!(found.contains(text), "{found}");
        }
        assert_eq!(config, before);
    }
    // A key that is gone says what it says by default.
    let mut config = before;
    config.update(&BTreeMap::new()).unwrap();
    assert_eq!(config, SloConfig::default());
}

#[test]
fn what_a_line_cannot_keep_is_refused() {
    for (strategies, total, text) in [
        (
            json!({"lsClass": class(json!("500M"), json!(100)), "beClass": class(json!("600M"), json!(100))}),
            1000,
            "requests of 1.1 Gbit/s together are above the total of 1 Gbit/s",
        ),
        (
            json!({"lsClass": class(json!(50), json!(40))}),
            100,
            "latency-sensitive: a request of 50 Mbit/s is above the limit of 40 Mbit/s",
        ),
        (
            json!({"beClass": class(json!("2G"), json!(100))}),
            1000,
            "best-effort: 2 Gbit/s is above the total of 1 Gbit/s",
        ),
        (
            json!({"systemClass": class(json!(50), json!(100)), "beClass": class(json!(60), json!(100))}),
            100,
            "requests of 110 Mbit/s together are above the total of 100 Mbit/s",
        ),
        (json!({}), 0, "a line of 0 bit/s has no shares"),
    ] {
        let config = config(&[(RESOURCE_QOS, json!({"clusterStrategy": strategies}))]);
        let mistakes = slo(&config, &[]).shares(mbit(total)).unwrap_err();
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        assert_eq!(mistakes[0].to_string(), format!("ingress: {text}"));
    }
}

/// Stated limits and requests bound the defaults, 30 of LS and of BE.
#[test]
fn default_request_is_bounded_by_what_is_stated() {
    let egress = |ask: Value| json!({"networkQOS": ask});
    let limit = |limit: Value| egress(json!({"egressLimit": limit}));
    let request = |request: Value| egress(json!({"egressRequest": request}));
    // System, LS and BE of a line of 1000 Mbit/s.
    for (strategy, right) in [
        (json!({"beClass": limit(json!(20))}), [500, 300, 200]),
        (json!({"beClass": limit(json!("200M"))}), [500, 300, 200]),
        (
            json!({"lsClass": limit(json!(10)), "beClass": limit(json!(5))}),
            [850, 100, 50],
        ),
        (json!({"lsClass": request(json!(80))}), [0, 800, 200]),
        (json!({"beClass": request(json!("1G"))}), [0, 0, 1000]),
        (json!({"systemClass": request(json!(50))}), [500, 300, 200]),
        (json!({"systemClass": request(json!(100))}), [1000, 0, 0]),
        (
            json!({"systemClass": request(json!(50)), "beClass": request(json!(40))}),
            [500, 100, 400],
        ),
    ] {
        let config = config(&[(RESOURCE_QOS, json!({"clusterStrategy": strategy}))]);
        let slo = slo(&config, &[]);
        let minima = |slo: &NodeSlo| {
            let shares = slo.shares(mbit(1000)).map(|it| it.egress);
            let shares = shares.unwrap_or_else(|why| panic!("{strategy}: {why:?}"));
            TrafficClass::ALL.map(|class| shares.of(class).min.bits_per_second() / 1_000_000)
        };
        assert_eq!(minima(&slo), right, "{strategy}");
        // So is that of the NodeSLO that the controller writes.
        let written = NodeSlo::from_spec(&slo.to_spec()).unwrap();
        assert_eq!(minima(&written.with_defaults()), right, "{strategy}");
    }
}

/// What an admission webhook refuses. Koordinator's own refuses rates at all, and counts LSR and LS
/// twice; it does not look at limits.
#[test]
fn what_no_node_could_keep_is_told_before() {
    let strategies = |cluster: Value, nodes: Value, total: Value| {
        config(&[
            (
                RESOURCE_QOS,
                json!({"clusterStrategy": cluster, "nodeStrategies": nodes}),
            ),
            (
                SYSTEM,
                json!({
                    "clusterStrategy": {"totalNetworkBandwidth": total},
                    "nodeStrategies": [
                        {"nodeSelector": {"matchLabels": {"slow": "yes"}}, "totalNetworkBandwidth": "100M"},
                    ],
                }),
            ),
        ])
    };
    let both = |request: Value| json!({"lsrClass": class(request.clone(), json!(100)), "lsClass": class(request, json!(100))});
    for (cluster, nodes, total, texts) in [
        (json!({}), json!([]), json!("0"), &[][..]),
        (both(json!(40)), json!([]), json!("0"), &[]),
        (both(json!("50M")), json!([]), json!("1000M"), &[]),
        (both(json!("50M")), json!([]), json!("0"), &[]),
        // Of egress alone: what comes in is as by default, for one of the two.
        (
            json!({
                "lsrClass": {"networkQOS": {"egressRequest": 60}},
                "lsClass": {"networkQOS": {"egressRequest": 60}},
            }),
            json!([]),
            json!("0"),
            &[],
        ),
        (
            json!({"lsrClass": class(json!("500M"), json!(100)), "lsClass": class(json!("600M"), json!(100))}),
            json!([]),
            json!("1000M"),
            &[
                "resource-qos-config.clusterStrategy (ingress): total net bandwidth over total network bandwidth in clusterStrategy: lsrClass",
                "clusterStrategy (egress): total net",
            ],
        ),
        (
            json!({"lsrClass": class(json!(80), json!(100)), "lsClass": class(json!(80), json!(100)), "beClass": class(json!(30), json!(100))}),
            json!([]),
            json!("0"),
            &[
                "clusterStrategy (ingress): ClusterStrategy total net bandwidth percentage already over 100: requests of 110 % together are above 100 %",
                "already over 100: requests of 110 %",
            ],
        ),
        (
            json!({"lsClass": class(json!(30), json!(100))}),
            json!([
                {"name": "no selector"},
                {"nodeSelector": {"matchLabels": {"slow": "yes"}}, "beClass": class(json!("90M"), json!(100))},
                {"nodeSelector": {"matchLabels": {"slow": "no"}}, "beClass": class(json!("90M"), json!(100))},
            ]),
            json!("1000M"),
            &[
                "nodeStrategies[1] (ingress): total net bandwidth quantity already over total network bandwidth in cfg.NodeStrategies[1]: requests of 120 Mbit/s together are above the total of 100 Mbit/s",
                "total network bandwidth in cfg.NodeStrategies[1]: requests of 120 Mbit/s",
            ],
        ),
    ] {
        let found = strategies(cluster, nodes, total).contradictions();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), texts.len(), "{found:#?}");
        for (found, text) in found.iter().zip(texts) {
            assert!(found.contains(text), "{found}");
        }
    }
}
