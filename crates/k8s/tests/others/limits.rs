//! Every limit of `NetworkQoS`, in both spellings: what an API server says by schema and CEL, and
//! what the conversion says by itself, are the same.

use netqos_core::Policy;
use netqos_k8s::{NetworkQoS, convert, object_from_value, validate, validate_update};
use serde_json::{Value, json};

/// An object with this spec.
fn object(spec: Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"namespace": "games", "name": "qos"},
        "spec": spec,
    })
}

/// An object with this rule.
fn rule(rule: Value) -> Value {
    object(json!({"priority": 1, "egress": [rule]}))
}

/// An object whose rule has this classifier.
fn classifier(classifier: Value) -> Value {
    rule(json!({"dscp": 1, "classifier": classifier}))
}

fn to(destination: Value) -> Value {
    classifier(json!({"to": [destination]}))
}

fn refs(refs: Value) -> Value {
    object(json!({"priority": 1, "netAttachRefs": refs, "egress": [{"dscp": 1}]}))
}

fn selectors(selectors: Value) -> Value {
    object(json!({"priority": 1, "networkSelectors": selectors, "egress": [{"dscp": 1}]}))
}

fn converted(value: &Value) -> Result<Policy, String> {
    let typed: NetworkQoS = serde_json::from_value(value.clone()).map_err(|why| why.to_string())?;
    convert::policy(&typed).map_err(|why| why.to_string())
}

fn many(one: Value, count: usize) -> Value {
    Value::Array(vec![one; count])
}

#[test]
fn what_is_within_the_limits_is_accepted() {
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["x"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists", "values": []},
    ]});
    for accepted in [
        object(json!({"priority": 0, "egress": [{"dscp": 0}]})),
        object(json!({"priority": 100, "egress": many(json!({"dscp": 63}), 20)})),
        // What Go clients write for what is not set, and what is null.
        rule(json!({"dscp": 1, "classifier": {}, "bandwidth": {}})),
        rule(json!({"dscp": 1, "classifier": {"to": null, "ports": null}, "bandwidth": null})),
        rule(json!({"dscp": null, "bandwidth": {"rate": 1, "burst": null}})),
        object(json!({"priority": 1, "podSelector": {}, "egress": [{"dscp": 1}]})),
        object(json!({"priority": 1, "podSelector": selector, "egress": [{"dscp": 1}]})),
        rule(json!({"bandwidth": {"rate": 1, "burst": 1}})),
        rule(json!({"dscp": 1, "bandwidth": {"rate": 4294967295_u32, "burst": 4294967295_u32}})),
        classifier(json!({"port": {"protocol": "TCP", "port": 1}})),
        classifier(json!({"port": {"port": 65535}})),
        classifier(json!({"port": {}})),
        classifier(json!({"ports": [{"protocol": "SCTP"}, {"protocol": "UDP", "port": 53}, {}]})),
        classifier(json!({"ports": many(json!({"protocol": "TCP", "port": 1}), 100)})),
        classifier(json!({"to": many(json!({}), 100)})),
        to(json!({})),
        to(json!({"podSelector": {}})),
        to(json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"a": ""}}})),
        to(json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "0.0.0.0/0"]}})),
        to(json!({"ipBlock": {"cidr": "2001:0db8:85a3:0000:0000:8a2e:0370:7330/124"}})),
        to(json!({"ipBlock": {"cidr": "10.0.0.7/8", "except": many(json!("10.1.2.3/32"), 100)}})),
        to(json!({"ipBlock": {"cidr": "2001:db8::/32", "except": []}})),
        refs(json!([{"kind": "NetworkAttachmentDefinition", "namespace": "default", "name": "s"}])),
        refs(json!([
            {"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "s", "uid": "u"},
            {"kind": "ClusterUserDefinedNetwork", "name": "s"},
        ])),
        selectors(json!([
            {"networkSelectionType": "DefaultNetwork"},
            {"networkSelectionType": "ClusterUserDefinedNetworks",
             "clusterUserDefinedNetworkSelector": {"networkSelector": selector}},
            {"networkSelectionType": "NetworkAttachmentDefinitions",
             "networkAttachmentDefinitionSelector":
                {"namespaceSelector": {}, "networkSelector": {"matchLabels": {"a": "b"}}}},
        ])),
    ] {
        assert_eq!(validate(&accepted), [], "{accepted}");
        assert!(object_from_value(&accepted).is_ok(), "{accepted}");
        converted(&without_nulls(accepted)).unwrap();
    }
}

/// For reading into types, which a server does only with what it has pruned.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn what_is_beyond_a_limit_is_refused_with_the_path_of_the_field() {
    let rate = |rate: Value| rule(json!({"dscp": 1, "bandwidth": rate}));
    let block = |block: Value| to(json!({"ipBlock": block}));
    let select = |expression: Value| {
        object(json!({"priority": 1, "egress": [{"dscp": 1}],
            "podSelector": {"matchExpressions": [expression]}}))
    };
    let nad = json!({"namespaceSelector": {}, "networkSelector": {}});
    for (path, refused) in [
        (
            "spec.priority",
            object(json!({"priority": 101, "egress": [{"dscp": 1}]})),
        ),
        (
            "spec.priority",
            object(json!({"priority": -1, "egress": [{"dscp": 1}]})),
        ),
        ("spec.priority", object(json!({"egress": [{"dscp": 1}]}))),
        (
            "spec.priority",
            object(json!({"priority": "1", "egress": [{"dscp": 1}]})),
        ),
        ("spec.egress", object(json!({"priority": 1}))),
        ("spec.egress", object(json!({"priority": 1, "egress": []}))),
        (
            "spec.egress",
            object(json!({"priority": 1, "egress": many(json!({"dscp": 1}), 21)})),
        ),
        ("spec.egress[0].dscp", rule(json!({"dscp": 64}))),
        ("spec.egress[0].dscp", rule(json!({"dscp": -1}))),
        ("spec.egress[0].dscp", rule(json!({"dscp": 1.5}))),
        ("spec.egress[0]", rule(json!({}))),
        ("spec.egress[0]", rule(json!({"bandwidth": {}}))),
        ("spec.egress[0].bandwidth.rate", rate(json!({"rate": 0}))),
        (
            "spec.egress[0].bandwidth.rate",
            rate(json!({"rate": 4294967296_u64})),
        ),
        (
            "spec.egress[0].bandwidth.burst",
            rate(json!({"rate": 1, "burst": 0})),
        ),
        (
            "spec.egress[0].bandwidth.burst",
            rate(json!({"rate": 1, "burst": 4294967296_u64})),
        ),
        ("spec.egress[0].bandwidth.burst", rate(json!({"burst": 1}))),
        (
            "spec.egress[0].classifier.port.port",
            classifier(json!({"port": {"port": 0}})),
        ),
        (
            "spec.egress[0].classifier.port.port",
            classifier(json!({"port": {"port": 65536}})),
        ),
        (
            "spec.egress[0].classifier.ports[1].port",
            classifier(json!({"ports": [{}, {"port": 0}]})),
        ),
        (
            "spec.egress[0].classifier.port.protocol",
            classifier(json!({"port": {"protocol": "TCPx"}})),
        ),
        (
            "spec.egress[0].classifier.port.protocol",
            classifier(json!({"port": {"protocol": "tcp"}})),
        ),
        (
            "spec.egress[0].classifier.ports[0].protocol",
            classifier(json!({"ports": [{"protocol": "aUDPb"}]})),
        ),
        (
            "spec.egress[0].classifier.ports[0].protocol",
            classifier(json!({"ports": [{"protocol": "xSCTP"}]})),
        ),
        (
            "spec.egress[0].classifier.ports[0].protocol",
            classifier(json!({"ports": [{"protocol": ""}]})),
        ),
        (
            "spec.egress[0].classifier.ports",
            classifier(json!({"ports": many(json!({}), 101)})),
        ),
        (
            "spec.egress[0].classifier.to",
            classifier(json!({"to": many(json!({}), 101)})),
        ),
        (
            "spec.egress[0].classifier",
            classifier(json!({"port": {}, "ports": []})),
        ),
        (
            "spec.egress[0].classifier.to[0]",
            to(json!({"ipBlock": {"cidr": "::/0"}, "podSelector": {}})),
        ),
        (
            "spec.egress[0].classifier.to[0]",
            to(json!({"ipBlock": {"cidr": "::/0"}, "namespaceSelector": {}})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.cidr",
            block(json!({})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.cidr",
            block(json!({"cidr": "10.0.0.0"})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.cidr",
            block(json!({"cidr": "10.0.0.0/33"})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.cidr",
            block(json!({"cidr": "10.0.0/8", "except": ["10.0.0.0/9"]})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.cidr",
            block(json!({"cidr": "::ffff:10.0.0.0/104"})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.except[1]",
            block(json!({"cidr": "10.0.0.0/8", "except": ["10.0.0.0/9", "10.1.2.3"]})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.except",
            block(json!({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.except",
            block(json!({"cidr": "10.0.0.0/8", "except": ["10.0.0.0/7"]})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.except",
            block(json!({"cidr": "0.0.0.0/0", "except": ["::/1"]})),
        ),
        (
            "spec.egress[0].classifier.to[0].ipBlock.except",
            block(json!({"cidr": "10.0.0.0/8", "except": many(json!("10.0.0.0/9"), 101)})),
        ),
        (
            "spec.podSelector.matchExpressions[0].values",
            select(json!({"key": "a", "operator": "In"})),
        ),
        (
            "spec.podSelector.matchExpressions[0].values",
            select(json!({"key": "a", "operator": "NotIn", "values": []})),
        ),
        (
            "spec.podSelector.matchExpressions[0].values",
            select(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
        ),
        (
            "spec.podSelector.matchExpressions[0].operator",
            select(json!({"key": "a", "operator": "Is", "values": ["b"]})),
        ),
        (
            "spec.podSelector.matchExpressions[0].key",
            select(json!({"key": "", "operator": "Exists"})),
        ),
        (
            "spec.netAttachRefs[0].kind",
            refs(json!([{"kind": "Network", "name": "s"}])),
        ),
        (
            "spec.netAttachRefs[0].name",
            refs(json!([{"kind": "UserDefinedNetwork", "name": ""}])),
        ),
        (
            "spec.netAttachRefs",
            refs(many(json!({"kind": "UserDefinedNetwork", "name": "s"}), 21)),
        ),
        ("spec.networkSelectors", selectors(json!([]))),
        (
            "spec.networkSelectors[1]",
            selectors(many(json!({"networkSelectionType": "DefaultNetwork"}), 2)),
        ),
        (
            "spec.networkSelectors[0].networkSelectionType",
            selectors(
                json!([{"networkSelectionType": "PrimaryUserDefinedNetworks",
                "primaryUserDefinedNetworkSelector": {"namespaceSelector": {}}}]),
            ),
        ),
        (
            "spec.networkSelectors[0].networkSelectionType",
            selectors(
                json!([{"networkSelectionType": "SecondaryUserDefinedNetworks",
                "secondaryUserDefinedNetworkSelector": nad}]),
            ),
        ),
        (
            "spec.networkSelectors[0]",
            selectors(json!([{"networkSelectionType": "NetworkAttachmentDefinitions"}])),
        ),
        (
            "spec.networkSelectors[0]",
            selectors(json!([{"networkSelectionType": "DefaultNetwork",
                "networkAttachmentDefinitionSelector": nad}])),
        ),
        // Two spellings in one object.
        (
            "spec",
            object(json!({"priority": 1, "egress": [{"dscp": 1}],
            "netAttachRefs": [{"kind": "UserDefinedNetwork", "name": "s"}],
            "networkSelectors": [{"networkSelectionType": "DefaultNetwork"}]})),
        ),
        (
            "spec",
            object(json!({"priority": 1,
            "netAttachRefs": [{"kind": "UserDefinedNetwork", "name": "s"}],
            "egress": [{"dscp": 1}, {"dscp": 1, "classifier": {"ports": [{"port": 1}]}}]})),
        ),
        (
            "spec",
            object(json!({"priority": 1,
            "networkSelectors": [{"networkSelectionType": "DefaultNetwork"}],
            "egress": [{"dscp": 1, "classifier": {"port": {"port": 1}}}]})),
        ),
        (
            "spec",
            object(json!({"priority": 1, "egress": [
            {"dscp": 1, "classifier": {"ports": [{"port": 1}]}},
            {"dscp": 1, "classifier": {"port": {"port": 1}}}]})),
        ),
    ] {
        let errors = validate(&refused);
        assert!(
            errors.iter().any(|error| error.path == path),
            "{path}: {errors:?}: {refused}"
        );
        let message = converted(&refused).expect_err(path);
        // What has another type is refused before it is converted.
        let typed = serde_json::from_value::<NetworkQoS>(refused.clone()).is_ok();
        assert!(!typed || message.starts_with(path), "{path}: {message}");
        assert!(object_from_value(&refused).is_err(), "{refused}");
    }
}

#[test]
fn what_nobody_knows_and_what_is_no_name_is_refused() {
    let mut unknown = rule(json!({"dscp": 1, "classifier": {"from": []}}));
    unknown["spec"]["prioritty"] = json!(1);
    unknown["metadata"] = json!({"name": "Not_a_name", "annotation": {}});
    let paths: Vec<String> = validate(&unknown)
        .into_iter()
        .map(|error| error.path)
        .collect();
    assert_eq!(
        paths,
        [
            "metadata.annotation",
            "metadata.name",
            "spec.egress[0].classifier.from",
            "spec.prioritty"
        ]
    );
    let mut other = rule(json!({"dscp": 1}));
    other["apiVersion"] = json!("k8s.ovn.org/v1");
    assert_eq!(validate(&other)[0].path, "apiVersion");
    let mut shadow = rule(json!({"dscp": 1}));
    shadow["metadata"]["annotations"] = json!({"netqos.io/mode": "shadow:1"});
    assert_eq!(
        validate(&shadow)[0].path,
        "metadata.annotations[netqos.io/mode]"
    );
}

#[test]
fn networks_cannot_be_changed_added_or_removed() {
    let reference = |name: &str| refs(json!([{"kind": "UserDefinedNetwork", "name": name}]));
    let selector = |label: &str| {
        selectors(
            json!([{"networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"a": label}}}}]),
        )
    };
    let plain = rule(json!({"dscp": 1}));
    for (old, new, path) in [
        (reference("a"), reference("b"), "spec.netAttachRefs"),
        (reference("a"), plain.clone(), "spec.netAttachRefs"),
        (plain.clone(), reference("a"), "spec.netAttachRefs"),
        (selector("a"), selector("b"), "spec.networkSelectors"),
        (selector("a"), plain.clone(), "spec.networkSelectors"),
        (plain.clone(), selector("a"), "spec.networkSelectors"),
    ] {
        let errors = validate_update(&new, &old);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].path, path);
        let mut other = old.clone();
        other["spec"]["priority"] = json!(7);
        assert_eq!(validate_update(&other, &old), []);
        assert_eq!(validate(&new), []);
    }
}
