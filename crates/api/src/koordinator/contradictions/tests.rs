use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn strategies(cluster: Value, nodes: Value, total: &str) -> SloConfig {
    let resources = json!({"clusterStrategy": cluster, "nodeStrategies": nodes});
    let system = json!({"clusterStrategy": {"totalNetworkBandwidth": total}});
    let data = [(RESOURCE_QOS, resources), (SYSTEM, system)];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_string()));
    let mut config = SloConfig::default();
    config.update(&BTreeMap::from(data)).unwrap();
    config
}

fn class(request: Value) -> Value {
    json!({"networkQOS": {"egressRequest": request}})
}

#[test]
fn what_koordinator_refuses_begins_in_its_words() {
    let node = |strategy: Value| {
        let mut node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}});
        node["lsClass"] = strategy;
        json!([{"name": "other"}, node])
    };
    for (cluster, nodes, total, says) in [
        (
            json!({"lsClass": class(json!(80)), "beClass": class(json!(30))}),
            json!([]),
            "0",
            "ClusterStrategy total net bandwidth percentage already over 100: requests of 110 % together",
        ),
        (
            json!({"lsClass": class(json!(80)), "beClass": class(json!(30))}),
            json!([]),
            "1000M",
            "ClusterStrategy total net bandwidth percentage already over 100: requests of 1.1 Gbit/s",
        ),
        (
            json!({"beClass": class(json!(30))}),
            node(class(json!(80))),
            "0",
            "cfg.NodeStrategies[1] total net bandwidth percentage already over 100: requests of 110 %",
        ),
        (
            json!({"lsClass": class(json!("800M")), "beClass": class(json!("300M"))}),
            json!([]),
            "1000M",
            "total net bandwidth over total network bandwidth in clusterStrategy: requests of 1.1 Gbit/s",
        ),
        (
            json!({"beClass": class(json!("2G"))}),
            json!([]),
            "1000M",
            "total net bandwidth over total network bandwidth in clusterStrategy: best-effort: 2 Gbit/s",
        ),
        (
            json!({"beClass": class(json!("300M"))}),
            node(class(json!("800M"))),
            "1000M",
            "total net bandwidth quantity already over total network bandwidth in cfg.NodeStrategies[1]: requests of 1.1",
        ),
        (
            json!({"lsrClass": class(json!("500M")), "lsClass": class(json!("600M"))}),
            json!([]),
            "1000M",
            "total net bandwidth over total network bandwidth in clusterStrategy: lsrClass and lsClass",
        ),
    ] {
        let found = strategies(cluster, nodes, total).contradictions();
        assert_eq!(found.len(), 1, "{says}: {found:#?}");
        assert!(found[0].what.starts_with(says), "{says}: {found:#?}");
    }
}

#[test]
fn percentages_and_quantities_in_one_strategy_are_warned_of_in_its_words() {
    let node = |strategy: Value| {
        let mut node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}});
        node["lsClass"] = strategy;
        json!([{"name": "other"}, node])
    };
    let (percent, rate) = (class(json!(20)), class(json!("20M")));
    let both = json!({"networkQOS": {"ingressRequest": 20, "egressRequest": "20M"}});
    let rates = json!({"networkQOS": {
        "ingressRequest": "20M", "ingressLimit": "30M", "egressRequest": "20M", "egressLimit": "30M",
    }});
    let limit = json!({"networkQOS": {"egressRequest": 20, "egressLimit": "200M"}});
    let says = "only one type can be used for percentages or quantity in";
    for (cluster, nodes, of) in [
        (
            json!({"lsrClass": percent, "beClass": rate}),
            json!([]),
            Some("clusterStrategy"),
        ),
        (json!({"lsClass": both}), json!([]), Some("clusterStrategy")),
        (json!({}), node(both), Some("nodeStrategy[1]")),
        // LS decides, also where nobody says of how much its rate is a part.
        (
            json!({"lsrClass": class(json!(80)), "lsClass": rates}),
            json!([]),
            Some("clusterStrategy"),
        ),
        // Neither limits nor the system count, nor what two strategies say.
        (json!({"lsClass": limit}), json!([]), None),
        (
            json!({"lsClass": percent, "systemClass": rate}),
            json!([]),
            None,
        ),
        (json!({"beClass": percent}), node(rate), None),
    ] {
        let unknown = strategies(cluster.clone(), nodes.clone(), "0");
        assert_eq!(unknown.contradictions(), [], "{cluster}");
        let config = strategies(cluster.clone(), nodes, "1000M");
        assert_eq!(config.contradictions(), [], "{cluster}");
        let found = config.mixed_formats();
        assert_eq!(
            found.len(),
            usize::from(of.is_some()),
            "{cluster}: {found:?}"
        );
        if let Some(of) = of {
            assert!(
                found[0].what.starts_with(&format!("{says} {of} ")),
                "{found:?}"
            );
        }
    }
}

/// Of what Koordinator does not look at it has no words.
#[test]
fn a_request_above_its_own_limit_is_said_in_ours() {
    let both = |request: &str, limit: &str| json!({"networkQOS": {"egressRequest": request, "egressLimit": limit}});
    for total in ["1000M", "0"] {
        for (class, name) in [("lsClass", "latency-sensitive"), ("beClass", "best-effort")] {
            let found = |request: &str, limit: &str| {
                let cluster = json!({class: both(request, limit)});
                strategies(cluster, json!([]), total).contradictions()
            };
            let above = found("80M", "70M");
            let says = "a request of 80 Mbit/s is above the limit of 70 Mbit/s";
            let says = format!("{name}: {says}");
            assert!(above.iter().all(|it| it.what == says), "{above:#?}");
            assert_eq!(above.len(), 1, "{total}");
            assert_eq!(found("80M", "80M"), []);
            assert_eq!(found("80M", "0"), []);
        }
    }
    // Of a line that nobody knows only what is above on every line.
    let mixed = json!({"networkQOS": {"egressRequest": "80M", "egressLimit": 1}});
    let found = strategies(json!({"lsClass": mixed}), json!([]), "0").contradictions();
    assert_eq!(found, []);
}

#[test]
fn a_limit_of_the_system_is_warned_of() {
    let system = |limit: Value| json!({"networkQOS": {"egressLimit": limit}});
    let path = "resource-qos-config.clusterStrategy.systemClass.networkQOS.egressLimit";
    for (limit, is_warned_of) in [
        (json!(90), true),
        (json!("50M"), true),
        (json!(100), false),
        (json!(0), false),
        (json!("0"), false),
        (json!(null), false),
    ] {
        let cluster = json!({"systemClass": system(limit.clone())});
        let config = strategies(cluster.clone(), json!([]), "100M");
        assert_eq!(config.contradictions(), []);
        let warnings = config.warnings();
        let paths: Vec<&str> = warnings.iter().map(|it| &*it.path).collect();
        assert_eq!(paths == [path], is_warned_of, "{limit}: {warnings:?}");
        let spec = Map::from_iter([("resourceQOSStrategy".to_owned(), cluster)]);
        let warnings = NodeSlo::from_spec(&spec).unwrap().warnings();
        let paths: Vec<&str> = warnings.iter().map(|it| &*it.path).collect();
        let right = ["systemClass.networkQOS.egressLimit"];
        assert_eq!(paths == right, is_warned_of, "{limit}: {warnings:?}");
    }
    // Each strategy by itself; who is taken out has no limit.
    let node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}, "beClass": class(json!(1))});
    let out = json!({"networkQOS": {"enable": false, "egressLimit": 9}});
    for (system, many) in [(system(json!(90)), 1), (out, 0)] {
        let config = strategies(json!({"systemClass": system}), json!([node]), "100M");
        assert_eq!(config.warnings().len(), many);
    }
}

#[test]
fn where_lsr_differs_from_ls_that_is_warned_of_and_ls_decides() {
    let other = json!({"lsrClass": class(json!(30)), "lsClass": class(json!(40))});
    let config = strategies(other, json!([]), "0");
    assert_eq!(config.contradictions(), []);
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].path, "resource-qos-config.clusterStrategy");
    assert!(warnings[0].what.contains("lsClass decides"));
    let same = json!({"lsrClass": class(json!(40)), "lsClass": class(json!(40))});
    let config = strategies(same, json!([]), "0");
    assert_eq!(
        (config.contradictions(), config.warnings()),
        (vec![], vec![])
    );
}

/// A default contradicts nothing that is stated.
#[test]
fn default_request_beside_stated_amounts_is_no_contradiction() {
    let limit = |limit: Value| json!({"networkQOS": {"egressLimit": limit}});
    for cluster in [
        json!({"beClass": limit(json!(20))}),
        json!({"lsClass": limit(json!("50M")), "beClass": limit(json!("200M"))}),
        json!({"lsClass": class(json!(80))}),
        json!({"systemClass": class(json!(70))}),
        json!({"lsClass": class(json!("1G"))}),
    ] {
        for total in ["0", "1000M"] {
            let config = strategies(cluster.clone(), json!([]), total);
            assert_eq!(config.contradictions(), [], "{cluster}");
        }
    }
    // The same request, stated.
    let stated = json!({"networkQOS": {"egressRequest": 30, "egressLimit": 20}});
    let found = strategies(json!({"beClass": stated}), json!([]), "0").contradictions();
    let says = "best-effort: a request of 30 % is above the limit of 20 %";
    assert!(found.len() == 1 && found[0].what == says, "{found:#?}");
}
