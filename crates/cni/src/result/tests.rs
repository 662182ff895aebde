use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::IpPrefix;

const V: fn(&str) -> CniVersion = |text| text.parse().unwrap();

fn printed(result: &CniResult) -> Value {
    serde_json::to_value(result).unwrap()
}

fn rich(version: &str) -> Value {
    json!({
        "cniVersion": version,
        "interfaces": [
            {"name": "cni0", "mac": "00:11:22:33:44:55"},
            {"name": "eth0", "sandbox": "/var/run/netns/a", "mtu": 1450, "pciID": "0000:00:1f.6",
             "socketPath": "/run/vhost", "tint": [1, 2]},
        ],
        "ips": [
            {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 1, "label": null},
            {"address": "fd00::5/64", "interface": 1},
        ],
        "routes": [{"dst": "0.0.0.0/0", "mtu": 1400, "table": 0, "why": {"x": true}}],
        "dns": {"nameservers": ["10.1.0.1"], "ttl": 3},
        "colour": "red",
    })
}

#[test]
fn everything_survives_reading_and_printing() {
    for version in ["1.0.0", "1.1.0"] {
        let result = CniResult::from_value(rich(version), V("1.0.0")).unwrap();
        assert_eq!(result.version(), V(version));
        assert_eq!(printed(&result), rich(version));
    }
}

#[test]
fn older_versions_lose_what_they_have_no_place_for() {
    let result = CniResult::from_value(rich("1.1.0"), V("1.1.0")).unwrap();
    let mut expected = rich("0.4.0");
    for field in ["mtu", "pciID", "socketPath"] {
        expected["interfaces"][1]
            .as_object_mut()
            .unwrap()
            .remove(field);
    }
    expected["ips"][0]["version"] = json!("4");
    expected["ips"][1]["version"] = json!("6");
    let old = result.into_version(V("0.4.0")).unwrap();
    assert_eq!(printed(&old), expected);
}

#[test]
fn an_empty_result_is_printed_as_each_version_does() {
    for (version, expected) in [
        (
            "0.3.1",
            "{\n    \"cniVersion\": \"0.3.1\",\n    \"dns\": {}\n}",
        ),
        ("1.0.0", "{\n    \"cniVersion\": \"1.0.0\"\n}"),
    ] {
        let mut out = Vec::new();
        CniResult::parse(b"null", V(version))
            .unwrap()
            .write(&mut out)
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn the_original_prints_keys_in_the_order_of_their_names() {
    let text = r#"{"routes":[{"gw":"10.0.0.1","dst":"0.0.0.0/0"}],"ips":[{"interface":0,"gateway":"10.0.0.1",
        "address":"10.0.0.2/24"}],"dns":{"search":["a"],"nameservers":["b"]},"interfaces":[{"sandbox":"/n",
        "name":"eth0","mac":"m"}],"cniVersion":"1.0.0"}"#;
    let result = CniResult::parse(text.as_bytes(), V("1.0.0")).unwrap();
    assert_eq!(
        serde_json::to_string(&result).unwrap(),
        r#"{"cniVersion":"1.0.0","dns":{"nameservers":["b"],"search":["a"]},"interfaces":[{"mac":"m","name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.2/24","gateway":"10.0.0.1","interface":0}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}]}"#
    );
}

#[test]
fn what_cannot_be_read_is_said_in_the_words_of_the_original() {
    for (value, config, message) in [
        (
            json!({"cniVersion": "0.4.0"}),
            "1.0.0",
            r#"result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "0.4.0""#,
        ),
        (
            json!({"cniVersion": "1.0.0"}),
            "0.3.1",
            r#"result type supports [0.3.0 0.3.1 0.4.0] but unmarshalled CNIVersion is "1.0.0""#,
        ),
        (
            json!({}),
            "1.2.0",
            r#"unsupported CNI result version "1.2.0""#,
        ),
        (
            json!({"ips": [{"address": "10.0.0.1"}]}),
            "1.0.0",
            "invalid CIDR address: 10.0.0.1",
        ),
        (
            json!({"ips": [{"address": "10.0.0.1/8", "gateway": "x"}]}),
            "1.0.0",
            "invalid IP address: x",
        ),
    ] {
        let error = CniResult::from_previous(value, V(config)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    for unsupported in ["0.2.0", "2.0.0"] {
        let text = json!({"cniVersion": unsupported}).to_string();
        let read = CniResult::parse(text.as_bytes(), V("1.0.0"));
        for result in [
            read,
            CniResult::new(V("1.0.0")).into_version(V(unsupported)),
        ] {
            assert!(matches!(
                result,
                Err(ResultError::UnsupportedVersion(version)) if version == unsupported
            ));
        }
    }
}

#[test]
fn unknown_numbers_are_kept_to_the_last_digit() {
    let text = br#"{"x": -9.498286918285292e+107}"#;
    let mut printed = Vec::new();
    let result = CniResult::parse(text, V("1.0.0")).unwrap();
    result.write(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("-9.498286918285292e+107"), "{printed}");
}

#[test]
fn null_is_as_good_as_absent() {
    let value = json!({"interfaces": null, "ips": null, "routes": null, "dns": null});
    let result = CniResult::from_value(value, V("1.0.0")).unwrap();
    assert_eq!(result, CniResult::new(V("1.0.0")));
}

fn prefix() -> impl Strategy<Value = IpPrefix> {
    (any::<std::net::IpAddr>(), 0_u8..=32)
        .prop_map(|(address, length)| IpPrefix::new(address, length).unwrap())
}

fn other() -> impl Strategy<Value = Map<String, Value>> {
    // No key that any version knows.
    btree_map("x-[a-z]{1,5}", any::<i64>().prop_map(Value::from), 0..3)
        .prop_map(|map| map.into_iter().collect())
}

prop_compose! {
    fn interface()(name in "[a-z0-9]{1,15}", mac in "([0-9a-f:]{17})?", sandbox in "(/[a-z]{1,9})?",
                   mtu in 0_u32..9000, pci_id in "[0-9:]{0,4}", socket_path in "[/a-z]{0,4}",
                   other in other()) -> Interface {
        Interface { mac, mtu, name, pci_id, sandbox, socket_path, other }
    }
}

prop_compose! {
    fn ip()(address in prefix(), gateway in option::of(any::<std::net::IpAddr>()), interface in option::of(0_usize..5),
            other in other()) -> IpConfig {
        IpConfig { address, gateway, interface, other }
    }
}

prop_compose! {
    fn route()(dst in prefix(), gw in option::of(any::<std::net::IpAddr>()), numbers: [u32; 3], scope: Option<u32>,
               table: Option<u32>, other in other()) -> Route {
        let [advmss, mtu, priority] = numbers;
        Route { advmss, dst, gw, mtu, priority, scope, table, other }
    }
}

prop_compose! {
    fn result()(version in proptest::sample::select(&CniVersion::SUPPORTED[..]),
                interfaces in vec(interface(), 0..3), ips in vec(ip(), 0..3),
                routes in vec(route(), 0..3), nameservers in vec("[a-z]{0,4}", 0..3),
                domain in "[a-z]{0,3}", other in other()) -> CniResult {
        CniResult { version, interfaces, ips, routes, dns: Dns { nameservers, domain, ..Dns::default() }, other }
    }
}

proptest! {
    #[test]
    fn results_round_trip(result in result()) {
        let read = CniResult::from_value(printed(&result), CniVersion::V0_1_0).unwrap();
        prop_assert_eq!(read, result);
    }

    /// Only the newer fields of interfaces are lost, and only where the way leads from the newer form to the older.
    #[test]
    fn conversions_keep_what_both_versions_know(
        result in result(), via in proptest::sample::select(&CniVersion::SUPPORTED[..])
    ) {
        let version = result.version();
        let back = result.clone().into_version(via).unwrap().into_version(version).unwrap();
        let mut expected = result;
        if (via < CniVersion::V1_0_0) != (version < CniVersion::V1_0_0) {
            expected.interfaces.iter_mut().for_each(Interface::forget_details);
        }
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn reading_never_panics(text in r#"\{"(cniVersion|ips|dns|routes|ip4|interfaces)":[\[\]{}0-9a-z":,.]{0,30}\}|.{0,60}"#,
                            version in proptest::sample::select(&CniVersion::SUPPORTED[..])) {
        let _ = CniResult::parse(text.as_bytes(), version);
    }
}
