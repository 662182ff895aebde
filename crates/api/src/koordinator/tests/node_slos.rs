//! Objects of nodes: as they are written, and what they do not say.

use super::*;

/// What is written of a node says what was read of the ConfigMap.
#[test]
fn a_spec_that_is_written_reads_as_what_it_was_written_from() {
    let config = config(&[
        (
            RESOURCE_QOS,
            json!({
                "clusterStrategy": {
                    "policies": {"netQOSPolicy": "tc"},
                    "lsrClass": class(json!("10M"), json!(100)),
                    "lsClass": {"networkQOS": {"enable": false}},
                    "systemClass": {"networkQOS": {"egressRequest": "1500k"}},
                    "beClass": class(json!(0), json!("1Gi")),
                },
            }),
        ),
        (
            SYSTEM,
            json!({"clusterStrategy": {"totalNetworkBandwidth": "25G"}}),
        ),
    ]);
    let slo = slo(&config, &[]);
    let spec = slo.to_spec();
    assert_eq!(NodeSlo::from_spec(&spec), Ok(slo));
    let at = |path: &str| Value::from(spec.clone()).pointer(path).cloned();
    let class = "/resourceQOSStrategy/systemClass/networkQOS";
    assert_eq!(at(class), Some(json!({"egressRequest": "1500k"})));
    let total = "/systemStrategy/totalNetworkBandwidth";
    assert_eq!(at(total), Some(json!("25G")));
}

fn of_node(spec: Value) -> NodeSlo {
    NodeSlo::from_spec(spec.as_object().unwrap()).unwrap()
}

/// As the ConfigMap has it, which is asked too; a class of which something is said is as that says.
#[test]
fn a_node_slo_that_says_something_has_the_defaults_for_the_levels_that_it_does_not_speak_of() {
    let asked = |request: u8| json!({"networkQOS": {"egressRequest": request}});
    let out = json!({"networkQOS": {"enable": false}});
    for (resources, right) in [
        (json!({"policies": {"netQOSPolicy": "tc"}}), [40, 30, 30]),
        (json!({"beClass": asked(10)}), [60, 30, 10]),
        (json!({"lsClass": asked(10)}), [60, 10, 30]),
        (json!({"lsrClass": asked(10)}), [60, 10, 30]),
        (json!({"systemClass": asked(10)}), [40, 30, 30]),
        (
            json!({"beClass": {"cpuQOS": {}, "networkQOS": {}}, "lsClass": asked(1)}),
            [69, 1, 30],
        ),
        // LSR speaks for LS where it asks for something.
        (json!({"lsrClass": out}), [40, 30, 30]),
        (
            json!({"lsrClass": {"networkQOS": {}}, "beClass": asked(10)}),
            [60, 30, 10],
        ),
        (
            json!({"lsrClass": {"networkQOS": {"enable": true}}}),
            [40, 30, 30],
        ),
        (json!({"lsrClass": out, "lsClass": out}), [70, 0, 30]),
        (json!({"beClass": out}), [70, 30, 0]),
        (json!({"lsClass": out, "beClass": out}), [100, 0, 0]),
    ] {
        let slo = of_node(json!({"resourceQOSStrategy": resources}));
        assert!(!slo.is_silent(), "{resources}");
        assert_eq!(minima(&slo.with_defaults(), 100), right, "{resources}");
        let same = config(&[(RESOURCE_QOS, json!({"clusterStrategy": resources}))]);
        assert_eq!(minima(&super::slo(&same, &[]), 100), right, "{resources}");
    }
    let total = json!({"systemStrategy": {"totalNetworkBandwidth": "1G"}});
    assert_eq!(minima(&of_node(total).with_defaults(), 100), [40, 30, 30]);
}

#[test]
fn one_that_says_nothing_of_the_network_says_nothing() {
    for spec in [
        json!({}),
        json!({
            "resourceQOSStrategy": {
                "policies": {"cpuPolicy": "groupIdentity"},
                "lsClass": {"cpuQOS": {"groupIdentity": 2}},
                "beClass": {"networkQOS": null},
            },
            "systemStrategy": {"minFreeKbytesFactor": 100, "totalNetworkBandwidth": "0"},
        }),
    ] {
        let slo = of_node(spec);
        assert!(slo.is_silent(), "{slo:?}");
        assert!(slo.with_defaults().is_silent(), "{slo:?}");
    }
}

/// What the ConfigMap takes away is not there by default in the object that the controller makes of it.
#[test]
fn what_is_taken_away_stays_so_in_what_is_written() {
    for strategy in [
        json!({}),
        json!({"beClass": null}),
        json!({"lsClass": null}),
        json!({"lsClass": null, "beClass": null}),
        json!({"lsClass": {"networkQOS": null}, "lsrClass": class(json!(10), json!(50))}),
        json!({"lsrClass": class(json!(10), json!(50))}),
        json!({"beClass": {"networkQOS": {"egressRequest": null, "ingressLimit": null}}}),
        json!({"beClass": {"networkQOS": {
            "enable": null, "egressRequest": null, "ingressRequest": null, "egressLimit": null,
            "ingressLimit": null,
        }}}),
    ] {
        let said = config(&[
            (RESOURCE_QOS, json!({"clusterStrategy": strategy})),
            (
                SYSTEM,
                json!({"clusterStrategy": {"totalNetworkBandwidth": "1G"}}),
            ),
        ]);
        let slo = slo(&said, &[]);
        let written = of_node(slo.to_spec().into()).with_defaults();
        assert!(!written.is_silent());
        assert_eq!(
            written.shares(mbit(100)),
            slo.shares(mbit(100)),
            "{strategy}"
        );
        assert_eq!(written.open_shares(), slo.open_shares(), "{strategy}");
    }
}
