use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;

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

    let oldest = old.into_version(V("0.2.0")).unwrap();
    assert_eq!(
        printed(&oldest),
        json!({
            "cniVersion": "0.2.0",
            "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1", "label": null,
                    "routes": [{"dst": "0.0.0.0/0", "mtu": 1400, "table": 0, "why": {"x": true}}]},
            "ip6": {"ip": "fd00::5/64"},
            "dns": {"nameservers": ["10.1.0.1"], "ttl": 3},
            "colour": "red",
        })
    );
}

#[test]
fn an_empty_result_is_printed_as_each_version_does() {
    for (version, expected) in [
        (
            "0.2.0",
            "{\n    \"cniVersion\": \"0.2.0\",\n    \"dns\": {}\n}",
        ),
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
    assert!(matches!(
        CniResult::new(V("1.0.0")).into_version(V("0.2.0")),
        Err(ResultError::NoAddresses)
    ));
    assert!(matches!(
        CniResult::parse(br#"{"cniVersion": "2.0.0"}"#, V("1.0.0")),
        Err(ResultError::UnsupportedVersion(version)) if version == "2.0.0"
    ));
}

#[test]
fn a_key_that_is_a_field_of_the_other_form_is_never_printed_twice() {
    let old = json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.0.5/16", "address": 1, "version": "6", "x": 2},
        "ips": "none",
        "x": 3,
    });
    let new = json!({
        "cniVersion": "0.4.0",
        "dns": {},
        "ips": [{"address": "10.1.0.5/16", "ip": 1, "routes": [], "x": 2}],
        "ip6": "none",
        "x": 3,
    });
    let mut expected_new = new.clone();
    expected_new.as_object_mut().unwrap().remove("ip6");
    expected_new["ips"][0] = json!({"address": "10.1.0.5/16", "version": "4", "x": 2});
    let expected_old = json!({
        "cniVersion": "0.2.0",
        "dns": {},
        "ip4": {"ip": "10.1.0.5/16", "x": 2},
        "x": 3,
    });
    for (value, version, expected) in [(old, "0.4.0", expected_new), (new, "0.2.0", expected_old)] {
        let result = CniResult::from_value(value, V("1.0.0")).unwrap();
        let converted = result.into_version(V(version)).unwrap();
        // As text, in which a key could stand twice.
        let text = serde_json::to_string(&converted).unwrap();
        assert_eq!(text.matches("\"x\"").count(), 2, "{text}");
        assert_eq!(text.len(), expected.to_string().len(), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }
}

#[test]
fn the_oldest_form_has_ipv4_first_whatever_the_order_was() {
    let value = json!({
        "ips": [{"address": "fd00::5/64"}, {"address": "10.1.0.5/16"}, {"address": "10.1.0.6/16"}],
        "routes": [{"dst": "fd01::/64"}, {"dst": "10.2.0.0/16"}, {"dst": "::/0"}],
    });
    let result = CniResult::from_value(value, V("1.0.0")).unwrap();
    let old = result.into_version(V("0.2.0")).unwrap();
    let addresses: Vec<_> = old.ips.iter().map(|ip| ip.address.to_string()).collect();
    assert_eq!(addresses, ["10.1.0.5/16", "fd00::5/64"]);
    let read = CniResult::from_value(printed(&old), V("1.0.0")).unwrap();
    assert_eq!(read, old);
}

#[test]
fn an_address_in_the_field_of_the_other_family_is_refused() {
    for (value, message) in [
        (
            json!({"ip4": {"ip": "fd00::5/64"}}),
            "ip4 holds fd00::5/64, which is of the other address family",
        ),
        (
            json!({"ip6": {"ip": "fd00::5/64", "routes": [{"dst": "10.0.0.0/8"}]}}),
            "ip6 holds 10.0.0.0/8, which is of the other address family",
        ),
    ] {
        let error = CniResult::from_value(value, V("0.2.0")).unwrap_err();
        assert_eq!(error.to_string(), message);
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
    fn result()(version in proptest::sample::select(&CniVersion::READABLE[2..]),
                interfaces in vec(interface(), 0..3), ips in vec(ip(), 0..3),
                routes in vec(route(), 0..3), nameservers in vec("[a-z]{0,4}", 0..3),
                domain in "[a-z]{0,3}", other in other()) -> CniResult {
        CniResult { version, interfaces, ips, routes, dns: Dns { nameservers, domain, ..Dns::default() }, other }
    }
}

fn lists(result: &CniResult) -> (Vec<IpPrefix>, Vec<Route>, Dns) {
    let addresses = result.ips.iter().map(|ip| ip.address).collect();
    (addresses, result.routes.clone(), result.dns.clone())
}

proptest! {
    #[test]
    fn results_round_trip(result in result()) {
        let read = CniResult::from_value(printed(&result), CniVersion::V0_1_0).unwrap();
        prop_assert_eq!(read, result);
    }

    /// Between all versions since 0.3.0, only the newer fields of interfaces are lost, and only
    /// where the way leads from the newer form to the older.
    #[test]
    fn conversions_keep_what_both_versions_know(
        result in result(), via in proptest::sample::select(&CniVersion::READABLE[2..])
    ) {
        let version = result.version();
        let back = result.clone().into_version(via).unwrap().into_version(version).unwrap();
        let mut expected = result;
        if (via < CniVersion::V1_0_0) != (version < CniVersion::V1_0_0) {
            expected.interfaces.iter_mut().for_each(Interface::forget_details);
        }
        prop_assert_eq!(back, expected);
    }

    /// A second trip through 0.2.0 changes nothing.
    #[test]
    fn what_0_2_0_keeps_round_trips(result in result()) {
        let Ok(old) = result.into_version(CniVersion::V0_2_0) else { return Ok(()) };
        let read = CniResult::from_value(printed(&old), CniVersion::V1_0_0).unwrap();
        prop_assert_eq!(printed(&read), printed(&old));
        let up = read.into_version(CniVersion::V1_1_0).unwrap();
        let again = up.clone().into_version(CniVersion::V0_2_0).unwrap();
        let up_again = again.into_version(CniVersion::V1_1_0).unwrap();
        prop_assert_eq!(lists(&up_again), lists(&up));
    }

    #[test]
    fn reading_never_panics(text in r#"\{"(cniVersion|ips|dns|routes|ip4|interfaces)":[\[\]{}0-9a-z":,.]{0,30}\}|.{0,60}"#,
                            version in proptest::sample::select(&CniVersion::READABLE[..])) {
        let _ = CniResult::parse(text.as_bytes(), version);
    }
}
