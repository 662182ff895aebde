use std::collections::BTreeSet;

use serde_json::{Value, json};

use netqos_core::LabelSelector;

use crate::npwg::{AttachmentGrant, AttachmentNeeds, AttachmentPolicy, DEFAULT_ROUTE, Refusal};

fn needs(config: &Value) -> AttachmentNeeds {
    AttachmentNeeds::of(&config.to_string()).unwrap()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn grant(kinds: &[&str]) -> AttachmentGrant {
    AttachmentGrant {
        plugin_types: set(kinds),
        ..AttachmentGrant::default()
    }
}

/// The refusals of this, as text.
fn refusals(grant: &AttachmentGrant, config: &Value) -> Vec<String> {
    let refusals = grant.refusals(&needs(config));
    refusals.iter().map(ToString::to_string).collect()
}

fn permits(grant: &AttachmentGrant, config: &Value) -> bool {
    refusals(grant, config).is_empty()
}

#[test]
fn nothing_is_permitted_by_default() {
    let config =
        json!({"cniVersion": "1.0.0", "name": "a", "type": "dummy", "ipam": {"type": "static"}});
    assert_eq!(
        refusals(&AttachmentGrant::default(), &config),
        [
            r#"type: plugin type "dummy" is not permitted"#,
            r#"ipam.type: plugin type "static" is not permitted"#,
        ]
    );
    assert_eq!(refusals(&grant(&["dummy", "static"]), &config), [""; 0]);
}

#[test]
fn list_needs_what_each_plugin_reaches() {
    let config = json!({"cniVersion": "1.0.0", "name": "a", "plugins": [
        {"type": "macvlan", "master": "eth1", "mode": "bridge", "capabilities": {"ips": true},
         "ipam": {"type": "host-local", "dataDir": "/var/lib/x", "ranges": [[{"subnet": "10.1.0.0/24"}]]}},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}, "args": {"cni": {"mtu": 9000}}},
        {"type": "host-device", "pciBusID": "0000:03:00.1"},
        {"type": "bridge", "bridge": "br1", "isGateway": true, "ipMasq": false},
    ]});
    let found = needs(&config);
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    };
    assert_eq!(
        found.plugin_types,
        pairs(&[
            ("plugins[0].type", "macvlan"),
            ("plugins[0].ipam.type", "host-local"),
            ("plugins[1].type", "tuning"),
            ("plugins[2].type", "host-device"),
            ("plugins[3].type", "bridge"),
        ])
    );
    assert_eq!(
        found.masters,
        pairs(&[("plugins[0].master", "eth1"), ("plugins[3].bridge", "br1")])
    );
    assert_eq!(
        found.devices,
        pairs(&[("plugins[2].pciBusID", "0000:03:00.1")])
    );
    assert_eq!(
        found.host_paths,
        pairs(&[("plugins[0].ipam.dataDir", "/var/lib/x")])
    );
    assert_eq!(
        found.host_keys,
        pairs(&[("plugins[3].isGateway", "bridge.isGateway")])
    );
    assert_eq!((found.unknown, found.refused), (vec![], vec![]));
}

#[test]
fn absent_master_is_the_one_that_the_plugin_takes() {
    for (config, expected) in [
        (json!({"type": "macvlan"}), vec![DEFAULT_ROUTE]),
        (json!({"type": "ipvlan", "master": ""}), vec![DEFAULT_ROUTE]),
        (json!({"type": "bridge", "bridge": null}), vec!["cni0"]),
        (json!({"type": "vlan"}), vec![]),
        (
            json!({"type": "macvlan", "master": "eth0", "linkInContainer": true}),
            vec![],
        ),
        (json!({"type": "macvlan", "linkInContainer": true}), vec![]),
        (
            json!({"type": "macvlan", "linkInContainer": "true"}),
            vec![DEFAULT_ROUTE],
        ),
        (
            json!({"type": "ovn-k8s-cni-overlay", "name": "tenant-a"}),
            vec!["tenant-a"],
        ),
    ] {
        let masters = needs(&config).masters;
        let masters: Vec<&str> = masters.iter().map(|(_, master)| master.as_str()).collect();
        assert_eq!(masters, expected, "{config}");
    }
}

#[test]
fn key_that_is_not_known_is_refused_unless_the_digest_is_permitted() {
    let all = grant(&[
        "macvlan",
        "static",
        "portmap",
        "sriov",
        "flannel",
        "whereabouts",
    ]);
    let all = AttachmentGrant {
        masters: set(&["*"]),
        devices: set(&["*"]),
        ..all
    };
    for (config, path) in [
        // Go reads keys without regard to case.
        (json!({"type": "macvlan", "Master": "eth0"}), "Master"),
        (
            json!({"type": "macvlan", "master": "eth1", "ma\u{17f}ter": "eth0"}),
            "ma\u{17f}ter",
        ),
        (json!({"type": "macvlan", "new": 1}), "new"),
        (
            json!({"type": "static", "addresses": [{"Address": {"IP": "x"}}]}),
            "addresses[0].Address",
        ),
        (
            json!({"type": "sriov", "deviceID": "x", "OrigVfState": {}}),
            "OrigVfState",
        ),
        (
            json!({"type": "whereabouts", "kubernetes": {"other": 1}}),
            "kubernetes.other",
        ),
        (
            json!({"type": "flannel", "delegate": {"type": "bridge"}}),
            "type",
        ),
        (
            json!({"type": "macvlan", "plugin": [], "Plugins": []}),
            "Plugins",
        ),
        (json!({"plugins": [], "Plugins": []}), "Plugins"),
    ] {
        let refused = refusals(&all, &config);
        let digest = needs(&config).digest;
        let expected = |it: &String| it.starts_with(&format!("{path}: ")) && it.ends_with(&digest);
        assert!(refused.iter().any(expected), "{config}: {refused:?}");
        let by_digest = AttachmentGrant {
            digests: set(&[&digest]),
            ..AttachmentGrant::default()
        };
        assert_eq!(refusals(&by_digest, &config), [""; 0], "{config}");
    }
}

#[test]
fn some_configurations_are_never_permitted() {
    for (config, path) in [
        (json!({"type": "netqos-multinet"}), "type"),
        (json!({"plugins": [{"type": "multus"}]}), "plugins[0].type"),
        (
            json!({"type": "macvlan", "ipam": {"type": "multus-shim"}}),
            "ipam.type",
        ),
        (json!({"type": "../../bin/sh"}), "type"),
        (json!({"type": ".."}), "type"),
        (json!({"type": ""}), "type"),
        (json!({"type": 1}), "type"),
        (json!({}), "type"),
        (json!({"plugins": {}}), "plugins"),
        (json!({"plugins": ["bridge"]}), "plugins[0]"),
        (
            json!({"type": "dummy", "runtimeConfig": {"deviceID": "x"}}),
            "runtimeConfig",
        ),
        (json!({"type": "dummy", "prevResult": {}}), "prevResult"),
        (json!({"type": "macvlan", "master": ["eth0"]}), "master"),
        (json!({"type": "dummy", "ipam": "static"}), "ipam"),
        (json!({"type": "tuning", "args": 1}), "args"),
    ] {
        let by_digest = AttachmentGrant {
            digests: set(&[&needs(&config).digest]),
            ..AttachmentGrant::default()
        };
        let refused = refusals(&by_digest, &config);
        assert!(
            refused
                .iter()
                .any(|it| it.starts_with(&format!("{path}: "))),
            "{config}: {refused:?}"
        );
    }
    for text in ["", "[]", "{", "null"] {
        assert!(AttachmentNeeds::of(text).is_err(), "{text}");
    }
}

#[test]
fn path_is_permitted_with_what_is_below_it() {
    let permitted = AttachmentGrant {
        host_paths: set(&["/var/lib/cni"]),
        ..grant(&["host-local"])
    };
    for (path, is_permitted) in [
        ("/var/lib/cni", true),
        ("/var/lib/cni/", true),
        ("/var/lib/cni/a/b", true),
        ("/var/lib/cnix", false),
        ("/var/lib", false),
        ("/var/lib/cni/../../../etc", false),
        ("var/lib/cni", false),
    ] {
        let config = json!({"type": "host-local", "dataDir": path});
        assert_eq!(permits(&permitted, &config), is_permitted, "{path}");
    }
    let relative = AttachmentGrant {
        host_paths: set(&[""]),
        ..grant(&["host-local"])
    };
    assert!(!permits(
        &relative,
        &json!({"type": "host-local", "dataDir": "/etc"})
    ));
}

#[test]
fn name_is_permitted_by_its_beginning() {
    let permitted = AttachmentGrant {
        masters: set(&["eth1", "vlan*"]),
        ..grant(&["macvlan"])
    };
    for (master, is_permitted) in [
        ("eth1", true),
        ("vlan7", true),
        ("eth10", false),
        ("eth0", false),
        ("", false),
    ] {
        let config = json!({"type": "macvlan", "master": master});
        assert_eq!(permits(&permitted, &config), is_permitted, "{master}");
    }
}

#[test]
fn device_that_leads_out_of_its_beginning_is_refused() {
    let permitted = AttachmentGrant {
        devices: set(&["0000:03:*"]),
        ..grant(&["host-device"])
    };
    for (device, is_permitted) in [
        ("0000:03:00.1", true),
        ("0000:04:00.1", false),
        ("0000:03:00.1/../../0000:04:00.1", false),
    ] {
        let config = json!({"type": "host-device", "pciBusID": device});
        assert_eq!(permits(&permitted, &config), is_permitted, "{device}");
    }
}

#[test]
fn harmless_value_of_a_host_key_needs_nothing() {
    for (config, key) in [
        (
            json!({"type": "macvlan", "linkInContainer": true, "mode": "bridge"}),
            None,
        ),
        (
            json!({"type": "macvlan", "linkInContainer": true, "mode": "passthru"}),
            Some("macvlan.mode"),
        ),
        (json!({"type": "firewall", "ingressPolicy": "open"}), None),
        (
            json!({"type": "firewall", "ingressPolicy": "same-bridge"}),
            Some("firewall.ingressPolicy"),
        ),
        (json!({"type": "ptp", "ipMasq": false}), None),
        (json!({"type": "ptp", "ipMasq": true}), Some("ptp.ipMasq")),
        (
            json!({"type": "portmap", "conditionsV4": ["-d", "192.0.2.0/24"]}),
            Some("portmap.conditionsV4"),
        ),
        (json!({"type": "ptp", "ipam": {}}), None),
        (json!({"type": "ptp", "ipam": null}), None),
        (
            json!({"type": "ptp", "ipam": {"type": "static"}}),
            Some("ptp.ipam"),
        ),
        (json!({"type": "bridge", "ipam": {"type": "static"}}), None),
        (json!({"type": "portmap", "capabilities": {}}), None),
        (
            json!({"type": "portmap", "capabilities": {"portMappings": false}}),
            None,
        ),
        (
            json!({"type": "portmap", "capabilities": {"portMappings": true}}),
            Some("portmap.portMappings"),
        ),
    ] {
        let found = needs(&config).host_keys;
        let found: Vec<&str> = found.iter().map(|(_, key)| key.as_str()).collect();
        assert_eq!(found, key.into_iter().collect::<Vec<_>>(), "{config}");
    }
}

#[test]
fn policies_are_united() {
    let policy = |name: &str, grant| AttachmentPolicy {
        name: name.into(),
        resource_version: "1".into(),
        namespaces: LabelSelector::everything(),
        open_to: None,
        grant,
    };
    let more = AttachmentGrant {
        masters: set(&["eth1"]),
        host_keys: set(&["macvlan.mode"]),
        ..grant(&["host-local"])
    };
    let policies = [policy("a", grant(&["macvlan"])), policy("b", more)];
    let config = json!({"type": "macvlan", "master": "eth1", "mode": "passthru", "ipam": {"type": "host-local"}});
    assert_eq!(
        refusals(&AttachmentGrant::united(&policies), &config),
        [""; 0]
    );
    for policy in &policies {
        assert_ne!(
            refusals(&AttachmentGrant::united([policy]), &config),
            [""; 0]
        );
    }
    assert_eq!(AttachmentGrant::united([]), AttachmentGrant::default());
}

#[test]
fn message_names_five_refusals_and_counts_the_others() {
    let mut config = json!({"type": "dummy"});
    let keys = (0..10_000).map(|index| (format!("key{index:05}"), json!(1)));
    config.as_object_mut().unwrap().extend(keys);
    let message = |grant: &AttachmentGrant, config: &Value| {
        Refusal::message_of(&grant.refusals(&needs(config)))
    };
    let text = message(&grant(&["dummy"]), &config);
    for named in ["key00000: ", "key00004: "] {
        assert!(text.contains(named), "{text}");
    }
    assert!(!text.contains("key00005"), "{text}");
    assert!(text.ends_with(", and 9995 more"), "{text}");
    assert!(text.len() < 1_000, "{text}");

    let two = json!({"type": "dummy", "a": 1, "b": 1});
    let text = message(&grant(&["dummy"]), &two);
    assert!(
        text.contains("b: ") && !text.contains(" more"),
        "all of few: {text}"
    );
}

#[test]
fn message_repeats_little_of_long_texts_and_no_control_characters() {
    let long = "x".repeat(100_000);
    for config in [
        json!({"type": long}),
        json!({"type": "dummy", long.clone(): 1}),
        json!({"type": "macvlan", "master": long}),
        json!({"type": "host-local", "dataDir": format!("/{long}")}),
        json!({"type": "dummy\n\u{1b}[31m", "a\nb": 1}),
        json!({"type": "dummy", "a\nb\u{1b}": 1}),
    ] {
        let refused = AttachmentGrant::default().refusals(&needs(&config));
        let text = Refusal::message_of(&refused);
        assert!(text.len() < 1_000, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
