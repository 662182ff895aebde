use crate::npwg::{NetworkStatus, StatusDns, parse_status, write_status};

/// As Multus 4 wrote it for a pod on two networks.
const OF_MULTUS: &str = r#"[{
    "name": "ovn-kubernetes",
    "interface": "eth0",
    "ips": [
        "10.244.0.3"
    ],
    "mac": "0a:58:0a:f4:00:03",
    "default": true,
    "dns": {}
},{
    "name": "default/net-a",
    "interface": "net1",
    "ips": [
        "10.1.0.77"
    ],
    "mac": "02:00:00:00:00:07",
    "mtu": 1400,
    "dns": {},
    "gateway": [
        "10.1.0.1"
    ]
}]"#;

#[test]
fn annotation_of_multus_round_trips() {
    let status = parse_status(OF_MULTUS).unwrap();
    assert_eq!(write_status(&status), OF_MULTUS);
    assert!(status[0].default && !status[1].default);
    assert_eq!(status[1].mtu, Some(1400));
    assert_eq!(write_status(&[]), "[]");
}

#[test]
fn other_forms_are_read() {
    for (text, expected) in [
        // The specification's own example: prefixes, `default` false, and its name of gateways.
        (
            r#"[{"name": "a/b", "interface": "net1", "ips": ["10.1.0.5/24"], "default": false,
                "dns": {"nameservers": ["10.1.0.1"]}, "default-route": ["10.1.0.1"]}]"#,
            NetworkStatus {
                name: "a/b".to_owned(),
                interface: Some("net1".to_owned()),
                ips: vec!["10.1.0.5/24".to_owned()],
                dns: StatusDns {
                    nameservers: vec!["10.1.0.1".to_owned()],
                    ..StatusDns::default()
                },
                gateway: vec!["10.1.0.1".to_owned()],
                ..NetworkStatus::default()
            },
        ),
        // Calico: no name.
        (
            r#"[{"ips": null, "dns": null, "default": null, "other": 1}]"#,
            NetworkStatus::default(),
        ),
    ] {
        assert_eq!(parse_status(text).unwrap(), [expected], "{text}");
    }
    for text in ["{}", "[1]", r#"[{"ips": "10.1.0.1"}]"#, ""] {
        assert!(parse_status(text).is_err(), "{text}");
    }
}

#[test]
fn text_is_escaped_as_go_does() {
    let status = NetworkStatus {
        name: "a<b>&\"".to_owned(),
        ..NetworkStatus::default()
    };
    let text = write_status(&[status]);
    assert!(text.contains(r#""a\u003cb\u003e\u0026\"""#), "{text}");
}

#[test]
fn prefixes_stand_under_a_key_of_ours() {
    let status = NetworkStatus {
        ips: vec!["10.1.0.5".to_owned()],
        prefixes: vec!["10.1.0.5/24".to_owned()],
        ..NetworkStatus::default()
    };
    let text = write_status(std::slice::from_ref(&status));
    assert!(
        text.contains("\"netqos.io/prefixes\": [\n        \"10.1.0.5/24\"\n    ]"),
        "{text}"
    );
    assert_eq!(parse_status(&text).unwrap(), [status]);
}
