use netqos_core::{BitRate, ByteCount, Limit, Limits, ObjectName};
use serde_json::json;

use crate::npwg::{
    HostPort, InterfaceNames, MAX_SELECTIONS, NetworkSelection, PortProtocol, interface_names,
    parse_default_network, parse_selections,
};

fn selected(text: &str) -> Vec<NetworkSelection> {
    parse_selections(text, "shop").unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    match parse_selections(text, "shop") {
        Ok(selections) => panic!("{text}: {selections:?}"),
        Err(error) => error.to_string(),
    }
}

/// The NAD and interface of each entry, as the short form writes them.
fn short(selections: &[NetworkSelection]) -> Vec<String> {
    let text = |it: &NetworkSelection| match &it.interface {
        Some(interface) => format!("{}@{interface}", it.nad),
        None => it.nad.to_string(),
    };
    selections.iter().map(text).collect()
}

#[test]
fn short_form_names_networks_in_order() {
    for (text, expected) in [
        ("", vec![]),
        (" \n", vec![]),
        ("net-a", vec!["shop/net-a"]),
        (
            "net-a,net-b,other-ns/net-c",
            vec!["shop/net-a", "shop/net-b", "other-ns/net-c"],
        ),
        ("other-ns/net-c,net-a", vec!["other-ns/net-c", "shop/net-a"]),
        (
            " net-a , other / net-b @ Eth_1 ",
            vec!["shop/net-a", "other/net-b@Eth_1"],
        ),
        ("net-a@x,net-a@y", vec!["shop/net-a@x", "shop/net-a@y"]),
        ("null", vec!["shop/null"]),
        ("1", vec!["shop/1"]),
    ] {
        assert_eq!(short(&selected(text)), expected, "{text:?}");
    }
}

#[test]
fn both_forms_are_equal() {
    let list = json!([
        {"name": "net-a"},
        {"name": "net-b", "namespace": "", "interface": null},
        {"name": "net-c", "namespace": "other-ns", "interface": "x0"},
    ]);
    assert_eq!(
        selected(&list.to_string()),
        selected("net-a,net-b,other-ns/net-c@x0")
    );
    assert_eq!(selected("[]"), []);
}

#[test]
fn json_form_has_every_key_of_the_specification() {
    let list = json!([{
        "name": "net-a",
        "namespace": "other",
        "interfaceRequest": "dat0",
        "interface": "dat0",
        "ips": ["10.1.0.5/24", "fd00::5"],
        "mac": "02-00-00-00-00-0A",
        "cni-args": {"role": "db", "org.example.x": [1]},
        "portMappings": [
            {"hostPort": 8080, "containerPort": 80},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "192.0.2.1"},
        ],
        "bandwidth": {"ingressRate": 2048, "ingressBurst": 1600, "egressRate": 8000},
        "default-route": ["10.1.0.1"],
        "infiniband-guid": "00:11:22:33:44:55:66:77",
        "deviceID": "0000:03:02.3",
        "org.example.key": "another program's",
    }]);
    let [selection] = &selected(&list.to_string())[..] else {
        panic!("one entry")
    };
    assert_eq!(selection.nad, ObjectName::new("other", "net-a"));
    assert_eq!(selection.interface.as_deref(), Some("dat0"));
    let ips: Vec<String> = selection.ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.1.0.5/24", "fd00::5"]);
    let mac = selection.mac.map(|mac| mac.to_string());
    assert_eq!(mac.as_deref(), Some("02:00:00:00:00:0a"));
    assert_eq!(selection.cni_args["role"], "db");
    let mapping = |host_port, container_port, protocol, host_ip: Option<&str>| HostPort {
        host_port,
        container_port,
        protocol,
        host_ip: host_ip.map(|text| text.parse().unwrap()),
    };
    let mappings = [
        mapping(8080, 80, PortProtocol::Tcp, None),
        mapping(53, 53, PortProtocol::Udp, Some("192.0.2.1")),
    ];
    assert_eq!(selection.port_mappings, mappings);
    let rate = BitRate::from_bits_per_second;
    let limits = Limits {
        ingress: Some(Limit {
            burst: Some(ByteCount::from_bytes(200)),
            ..Limit::of(rate(2048))
        }),
        egress: Some(Limit::of(rate(8000))),
    };
    assert_eq!(selection.bandwidth, limits);
    let gateways = selection.default_route.as_deref().unwrap();
    assert_eq!(gateways, ["10.1.0.1".parse::<std::net::IpAddr>().unwrap()]);
    let guid = selection.infiniband_guid.map(|guid| guid.to_string());
    assert_eq!(guid.as_deref(), Some("00:11:22:33:44:55:66:77"));
    assert_eq!(selection.device_id.as_deref(), Some("0000:03:02.3"));
    let claimed = selected(r#"[{"name": "a", "ipam-claim-reference": "vm-1.claim"}]"#);
    assert_eq!(claimed[0].ipam_claim.as_deref(), Some("vm-1.claim"));
}

#[test]
fn empty_default_route_is_a_request() {
    let selections = selected(r#"[{"name": "a", "default-route": []}]"#);
    assert_eq!(selections[0].default_route.as_deref(), Some(&[][..]));
    assert_eq!(selected(r#"[{"name": "a"}]"#)[0].default_route, None);
}

#[test]
fn error_of_short_form_names_its_entry() {
    for (text, expected) in [
        (
            "a,,b",
            "entry 2: no network between commas, or behind the last one",
        ),
        ("a,", "entry 2: no network between commas"),
        (
            "a/b/c",
            r#"entry 1 ("a/b/c"): "a/b/c" is not [namespace/]name[@interface]"#,
        ),
        ("a@b@c", r#""a@b@c" is not [namespace/]name[@interface]"#),
        (
            "x,a@",
            r#"entry 2 ("a@"): "" cannot be the name of an interface"#,
        ),
        ("a/", r#"name "" is not a DNS label"#),
        ("/a", r#"namespace "" is not a DNS label"#),
        ("../a", r#"namespace ".." is not a DNS label"#),
        ("foo.bar", r#"name "foo.bar" is not a DNS label"#),
        ("Net", r#"name "Net" is not a DNS label"#),
        ("net-", r#"name "net-" is not a DNS label"#),
        ("a b", r#"name "a b" is not a DNS label"#),
        ("a@eth0/1", "cannot be the name of an interface"),
        ("a@sixteen-letters-", "cannot be the name of an interface"),
        ("a@net%d", "cannot be the name of an interface"),
        ("a@lo", "cannot be the name of an interface"),
        ("a@all", "cannot be the name of an interface"),
        (
            "a@x,b,c@x",
            r#"entry 3 ("c"): interface name "x" is taken: entry 1 has it"#,
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let long = refused(&"x".repeat(300));
    assert!(long.len() < 400, "{long}");
}

#[test]
fn error_of_json_form_names_its_entry_and_key() {
    for (list, expected) in [
        (
            json!({"name": "a"}),
            "the JSON form is a list of objects, not an object",
        ),
        (json!(["a"]), r#"entry 1: an entry is an object, not "a""#),
        (
            json!([{"name": "a"}, null]),
            "entry 2: an entry is an object, not null",
        ),
        (json!([{}]), "entry 1: name: required"),
        (json!([{"name": ""}]), "entry 1: name: required"),
        (json!([{"name": 7}]), "name: a string, not 7"),
        (
            json!([{"name": "a/b"}]),
            r#"name: name "a/b" is not a DNS label"#,
        ),
        (
            json!([{"name": "a", "namespace": "../x"}]),
            "namespace: namespace",
        ),
        (
            json!([{"name": "a", "Interface": "x"}]),
            "Interface: unknown key; write interface",
        ),
        (
            json!([{"name": "a", "bandwith": {}}]),
            "bandwith: unknown key; the keys are name, ",
        ),
        (
            json!([{"name": "a", "interface": "../x"}]),
            "interface: \"../x\" cannot be",
        ),
        (
            json!([{"name": "a", "interface": "x", "interfaceRequest": "y"}]),
            "interfaceRequest: differs from interface",
        ),
        (
            json!([{"name": "a", "ips": "10.1.0.1"}]),
            r#"ips: a list, not "10.1.0.1""#,
        ),
        (json!([{"name": "a", "ips": []}]), "ips: the list is empty"),
        (
            json!([{"name": "a", "ips": [1]}]),
            "ips[0]: an IP address is a string, not 1",
        ),
        (
            json!([{"name": "a"}, {"name": "b", "ips": ["10.1.0.1", "10.1.0.300"]}]),
            r#"entry 2 ("b"): ips[1]: "10.1.0.300" is not an IP address"#,
        ),
        (
            json!([{"name": "a", "ips": ["10.1.0.1/33"]}]),
            "is not an IP address",
        ),
        (
            json!([{"name": "a", "ips": vec!["10.1.0.1"; 65]}]),
            "ips: at most 64 values, not 65",
        ),
        (
            json!([{"name": "a", "mac": "02:00:00:00:00"}]),
            "mac: \"02:00:00:00:00\" is not",
        ),
        (
            json!([{"name": "a", "mac": "02:00:00:00:00:00:00:01"}]),
            "is not an Ethernet address",
        ),
        (
            json!([{"name": "a", "mac": "0:0:0:0:0:1"}]),
            "is not an Ethernet address",
        ),
        (
            json!([{"name": "a", "mac": "+2:00:00:00:00:07"}]),
            "is not an Ethernet address",
        ),
        (
            json!([{"name": "a", "mac": "01:00:5e:00:00:01"}]),
            "it is zero or a group's",
        ),
        (
            json!([{"name": "a", "mac": "00:00:00:00:00:00"}]),
            "it is zero or a group's",
        ),
        (
            json!([{"name": "a", "cni-args": ["x"]}]),
            "cni-args: an object, not a list",
        ),
        (
            json!([{"name": "a", "portMappings": [{"hostPort": 1}]}]),
            "portMappings[0].containerPort: required",
        ),
        (
            json!([{"name": "a", "portMappings": [{"hostPort": 65536, "containerPort": 1}]}]),
            "portMappings[0].hostPort: a port is from 1 to 65535, not 65536",
        ),
        (
            json!([{"name": "a", "portMappings": [{"hostPort": 1, "containerPort": 1, "protocol": "icmp"}]}]),
            r#"protocol: "icmp" is not TCP, UDP or SCTP"#,
        ),
        (
            json!([{"name": "a", "bandwidth": {}}]),
            "bandwidth: has neither ingressRate nor egressRate",
        ),
        (
            json!([{"name": "a", "bandwidth": {"ingressRate": 0}}]),
            "bandwidth.ingressRate: a whole number above zero, not 0",
        ),
        (
            json!([{"name": "a", "bandwidth": {"ingressRate": 1.5}}]),
            "a whole number above zero, not 1.5",
        ),
        (
            json!([{"name": "a", "bandwidth": {"ingressRate": -8}}]),
            "a whole number above zero, not -8",
        ),
        (
            json!([{"name": "a", "bandwidth": {"ingressRate": 7}}]),
            "at least 8 bits per second, not 7",
        ),
        (
            json!([{"name": "a", "bandwidth": {"egressBurst": 800}}]),
            "bandwidth.egressBurst: has no effect without egressRate",
        ),
        (
            json!([{"name": "a", "bandwidth": {"egressRate": 8, "egressBurst": 7}}]),
            "bandwidth.egressBurst: a burst is at least 8 bits, not 7",
        ),
        (
            json!([{"name": "a", "bandwidth": {"rate": 7}}]),
            "bandwidth.rate: unknown key",
        ),
        (
            json!([{"name": "a", "default-route": ["x"]}]),
            "default-route[0]: \"x\" is not an IP address",
        ),
        (
            json!([{"name": "a", "default-route": []}, {"name": "b", "default-route": []}]),
            r#"entry 2 ("b"): default-route: entry 1 has it already"#,
        ),
        (
            json!([{"name": "a", "infiniband-guid": "00:11"}]),
            "infiniband-guid: \"00:11\" is not a GUID",
        ),
        (
            json!([{"name": "a", "ipam-claim-reference": "c", "ips": ["10.1.0.1"]}]),
            "ipam-claim-reference: cannot be together with ips",
        ),
        (
            json!([{"name": "a", "ipam-claim-reference": "a/b"}]),
            "is not an object's name",
        ),
        (
            json!([{"name": "a", "deviceID": "../../x"}]),
            "deviceID: \"../../x\" is not a device",
        ),
        (json!([{"name": "a", "deviceID": ".."}]), "is not a device"),
    ] {
        let error = refused(&list.to_string());
        assert!(error.contains(expected), "{list}: {error}");
    }
    let error = refused(r#"[{"name": "a"]"#);
    assert!(error.starts_with("not valid JSON: "), "{error}");
}

#[test]
fn pod_selects_a_bounded_number_of_networks() {
    let entries = |number: usize| vec!["a"; number].join(",");
    assert_eq!(selected(&entries(MAX_SELECTIONS)).len(), MAX_SELECTIONS);
    let list = json!(vec![json!({"name": "a"}); MAX_SELECTIONS + 1]);
    for text in [entries(MAX_SELECTIONS + 1), list.to_string()] {
        let error = refused(&text);
        assert!(
            error.contains("at most 64 networks, and the list has 65"),
            "{error}"
        );
    }
}

#[test]
fn interface_without_a_name_gets_its_position() {
    let names = |text, scheme| interface_names(&selected(text), scheme, "eth0").unwrap();
    assert_eq!(names("a@x,b,a", InterfaceNames::Net), ["x", "net2", "net3"]);
    assert_eq!(names("a,b", InterfaceNames::Eth), ["eth1", "eth2"]);
}

#[test]
fn two_interfaces_of_one_name_are_an_error() {
    for (text, default, expected) in [
        (
            "a@net2,b",
            "eth0",
            r#"entry 2 ("shop/b"): interface name "net2" is taken: entry 1 has it"#,
        ),
        (
            "a@eth0",
            "eth0",
            r#"interface name "eth0" is taken: the default network's has it"#,
        ),
        (
            "a",
            "net1",
            r#"interface name "net1" is taken: the default network's has it"#,
        ),
    ] {
        let error = interface_names(&selected(text), InterfaceNames::Net, default).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn default_network_is_one_entry() {
    let parse = |text| parse_default_network(text, "kube-system");
    let one = parse("macvlan").unwrap().unwrap();
    assert_eq!(one.nad, ObjectName::new("kube-system", "macvlan"));
    let one = parse(r#"[{"name": "m", "namespace": "x"}]"#)
        .unwrap()
        .unwrap();
    assert_eq!(one.nad, ObjectName::new("x", "m"));
    assert_eq!(parse("").unwrap(), None);
    let error = parse("a,b").unwrap_err().to_string();
    assert_eq!(
        error,
        "a pod has one default network, and the list has 2 entries"
    );
}
