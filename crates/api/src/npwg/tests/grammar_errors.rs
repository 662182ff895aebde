//! Annotations that are not valid, and the key that each error names.

use serde_json::{Value, json};

use crate::npwg::parse_selections;

fn refused(text: &str) -> String {
    match parse_selections(text, "shop") {
        Ok(selections) => panic!("{text}: {selections:?}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that an entry with this key and value is refused with this error.
fn assert_refused(key: &str, value: &Value, expected: &str) {
    let text = json!([{"name": "first"}, {"name": "a", key: value}]).to_string();
    let error = refused(&text);
    let expected = format!(r#"entry 2 ("a"): {expected}"#);
    assert!(error.starts_with(&expected), "{text}: {error}");
}

#[test]
fn port_mappings_of_wrong_form_are_refused() {
    let mapping = |key: &str, value: Value| {
        let mut mapping = json!({"hostPort": 8080, "containerPort": 80});
        mapping[key] = value;
        json!([mapping])
    };
    let port = "a port is from 1 to 65535, not";
    let number = "a whole number above zero, not";
    for key in ["hostPort", "containerPort"] {
        let path = format!("portMappings[0].{key}");
        for (value, why) in [
            (json!(null), "required: a port".to_owned()),
            (json!(0), format!("{number} 0")),
            (json!(-1), format!("{number} -1")),
            (json!(1.5), format!("{number} 1.5")),
            (json!(80.0), format!("{number} 80.0")),
            (json!("80"), format!(r#"{number} "80""#)),
            (json!([80]), format!("{number} a list")),
            (json!(65_536), format!("{port} 65536")),
            (json!(u64::MAX), format!("{port} {}", u64::MAX)),
        ] {
            assert_refused(
                "portMappings",
                &mapping(key, value),
                &format!("{path}: {why}"),
            );
        }
    }
    for (value, expected) in [
        (
            json!([{"containerPort": 80}]),
            "portMappings[0].hostPort: required: a port",
        ),
        (
            mapping("hostIP", json!("192.0.2.256")),
            r#"portMappings[0].hostIP: "192.0.2.256" is not an IP address"#,
        ),
        (
            mapping("hostIP", json!("192.0.2.1/24")),
            r#"portMappings[0].hostIP: "192.0.2.1/24" is not an IP address"#,
        ),
        (
            mapping("hostIP", json!(1)),
            "portMappings[0].hostIP: a string, not 1",
        ),
        (
            mapping("protocol", json!(6)),
            "portMappings[0].protocol: a string, not 6",
        ),
        (
            mapping("hostport", json!(1)),
            "portMappings[0].hostport: unknown key; write hostPort",
        ),
        (
            mapping("name", json!("http")),
            "portMappings[0].name: unknown key; the keys are hostPort, ",
        ),
        (
            json!([{"hostPort": 1, "containerPort": 1}, 80]),
            "portMappings[1]: a port mapping is an object, not 80",
        ),
        (
            json!(["8080:80"]),
            r#"portMappings[0]: a port mapping is an object, not "8080:80""#,
        ),
        (
            json!({"hostPort": 1, "containerPort": 1}),
            "portMappings: a list, not an object",
        ),
        (json!("8080:80"), r#"portMappings: a list, not "8080:80""#),
        (json!([]), "portMappings: the list is empty"),
    ] {
        assert_refused("portMappings", &value, expected);
    }
}

#[test]
fn bandwidths_of_wrong_form_are_refused() {
    for (value, expected) in [
        (json!([]), "bandwidth: an object, not a list"),
        (json!("8M"), r#"bandwidth: an object, not "8M""#),
        (json!(8), "bandwidth: an object, not 8"),
        (
            json!({"ingressBurst": 800}),
            "bandwidth.ingressBurst: has no effect without ingressRate",
        ),
        (
            json!({"ingressBurst": 800, "egressRate": 8000}),
            "bandwidth.ingressBurst: has no effect without ingressRate",
        ),
        (
            json!({"ingressRate": 8000, "ingressBurst": 0}),
            "bandwidth.ingressBurst: a whole number above zero, not 0",
        ),
        (
            json!({"egressRate": 8000, "egressBurst": 0}),
            "bandwidth.egressBurst: a whole number above zero, not 0",
        ),
        (
            json!({"egressRate": 0}),
            "bandwidth.egressRate: a whole number above zero, not 0",
        ),
        (
            json!({"egressRate": "8M"}),
            r#"bandwidth.egressRate: a whole number above zero, not "8M""#,
        ),
        (
            json!({"egressrate": 8000}),
            "bandwidth.egressrate: unknown key; write egressRate",
        ),
    ] {
        assert_refused("bandwidth", &value, expected);
    }
}

#[test]
fn values_of_wrong_type_are_refused() {
    for key in [
        "namespace",
        "interface",
        "interfaceRequest",
        "mac",
        "infiniband-guid",
        "ipam-claim-reference",
        "deviceID",
    ] {
        for (value, found) in [
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(["x"]), "a list"),
            (json!({}), "an object"),
        ] {
            assert_refused(key, &value, &format!("{key}: a string, not {found}"));
        }
    }
    for key in ["ips", "default-route"] {
        for (value, found) in [
            (json!("10.1.0.1"), r#""10.1.0.1""#),
            (json!(7), "7"),
            (json!({}), "an object"),
        ] {
            assert_refused(key, &value, &format!("{key}: a list, not {found}"));
        }
        let numbers = json!(["10.1.0.1", 7]);
        let expected = format!("{key}[1]: an IP address is a string, not 7");
        assert_refused(key, &numbers, &expected);
    }
    // Of a gateway, a prefix says nothing.
    let expected = r#"default-route[0]: "10.1.0.1/24" is not an IP address"#;
    assert_refused("default-route", &json!(["10.1.0.1/24"]), expected);
    assert_refused(
        "cni-args",
        &json!("a=b"),
        r#"cni-args: an object, not "a=b""#,
    );
}

#[test]
fn names_that_no_interface_can_have_are_refused_under_their_key() {
    let sixteen = "sixteen-letters-";
    assert_eq!(sixteen.len(), 16);
    for name in [
        "a b",
        "a\tb",
        "a\u{b}b",
        "a\u{c}b",
        "a\nb",
        "a\rb",
        " a",
        "a ",
        "a/b",
        "a:b",
        ".",
        "..",
        "lo",
        "net%d",
        "a\0b",
        "fünfzehn-zeiche",
        sixteen,
    ] {
        for key in ["interface", "interfaceRequest"] {
            let text = json!([{"name": "a", key: name}]).to_string();
            let error = refused(&text);
            let begin = format!(r#"entry 1 ("a"): {key}: ""#);
            assert!(error.starts_with(&begin), "{text}: {error}");
            assert!(
                error.contains("cannot be the name of an interface"),
                "{text}: {error}"
            );
        }
        // In the short form the ends are trimmed.
        if name.trim() == name {
            let error = refused(&format!("first,a@{name}"));
            assert!(error.starts_with("entry 2 "), "{name:?}: {error}");
            assert!(
                error.contains("cannot be the name of an interface"),
                "{name:?}: {error}"
            );
        }
    }
    let fifteen = json!([{"name": "a", "interfaceRequest": &sixteen[..15]}]).to_string();
    let selections = parse_selections(&fifteen, "shop").unwrap();
    assert_eq!(selections[0].interface.as_deref(), Some("sixteen-letters"));
}

#[test]
fn names_that_no_object_can_have_are_refused_under_their_key() {
    let longest = "x".repeat(63);
    assert_eq!(
        parse_selections(&format!("{longest}/{longest}"), "shop")
            .unwrap()
            .len(),
        1
    );
    let long = "x".repeat(64);
    let is_no_label = "is not a DNS label: 1 to 63 of a-z, 0-9 and -";
    for (text, begin) in [
        (json!([{"name": long}]).to_string(), "name: name "),
        (json!([{"name": "ns/"}]).to_string(), r#"name: name "ns/" "#),
        (
            json!([{"name": "ns/a"}]).to_string(),
            r#"name: name "ns/a" "#,
        ),
        (json!([{"name": "/a"}]).to_string(), r#"name: name "/a" "#),
        (
            json!([{"name": "a", "namespace": long}]).to_string(),
            "namespace: namespace ",
        ),
        (
            json!([{"name": "a", "namespace": "ns/"}]).to_string(),
            r#"namespace: namespace "ns/" "#,
        ),
        (json!([{"name": " a"}]).to_string(), r#"name: name " a" "#),
        (
            json!([{"name": "a@net1"}]).to_string(),
            r#"name: name "a@net1" "#,
        ),
        (long.clone(), "name "),
        (format!("{long}/a"), "namespace "),
        ("ns/@net1".to_owned(), r#"name "" "#),
        ("@net1".to_owned(), r#"name "" "#),
    ] {
        let error = refused(&text);
        let (entry, why) = error.split_once("): ").unwrap();
        assert!(
            entry.starts_with("entry 1 (") && why.starts_with(begin),
            "{text}: {error}"
        );
        assert!(why.contains(is_no_label), "{text}: {error}");
    }
    // A namespace with an empty name.
    let error = refused(&json!([{"namespace": "ns", "name": ""}]).to_string());
    assert!(error.starts_with("entry 1: name: required"), "{error}");
}
