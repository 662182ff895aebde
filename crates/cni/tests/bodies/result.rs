//! Results: reading, printing, and the ways from each version to each other.

use netqos_cni::{CniResult, CniVersion, IpConfig, ResultError, Route};
use serde_json::{Map, Value};

/// One version of each form that results have had.
const FORMS: [CniVersion; 3] = [CniVersion::V0_2_0, CniVersion::V0_4_0, CniVersion::V1_1_0];

/// Keys that are fields of a result in one form, and unknown in another.
const FIELDS: [&str; 5] = ["interfaces", "ip4", "ip6", "ips", "routes"];

/// The same for an address.
const ADDRESS_FIELDS: [&str; 5] = ["address", "interface", "ip", "routes", "version"];

/// A result reads back what it prints, in its own version and in every other; there and back, it
/// still has what both versions have a place for, and a second trip changes nothing.
pub fn cni_result(text: &str) {
    for config_version in FORMS {
        let Ok(result) = CniResult::parse(text.as_bytes(), config_version) else {
            continue;
        };
        reads_back(&result);
        for version in CniVersion::READABLE {
            there_and_back(&result, version);
        }
    }
}

fn there_and_back(result: &CniResult, version: CniVersion) {
    let Some(other) = convert(result, version) else {
        return;
    };
    reads_back(&other);
    let Some(back) = convert(&other, result.version()) else {
        return;
    };
    keeps(result, &back, version);
    let again = convert(&back, version).and_then(|other| convert(&other, back.version()));
    assert_eq!(again, Some(back), "via {version}");
}

/// `None` only where the version can't say that there is no address.
fn convert(result: &CniResult, version: CniVersion) -> Option<CniResult> {
    match result.clone().into_version(version) {
        Ok(converted) => {
            assert_eq!(converted.version(), version);
            Some(converted)
        }
        Err(ResultError::NoAddresses) => {
            assert!(is_old(version) && result.ips.is_empty(), "{result:?}");
            None
        }
        Err(error) => panic!("{result:?} to {version}: {error}"),
    }
}

fn reads_back(result: &CniResult) {
    let mut printed = Vec::new();
    result.write(&mut printed).expect("a result can be printed");
    match CniResult::parse(&printed, CniVersion::CURRENT) {
        Ok(read) => assert_eq!(read, *result, "{}", String::from_utf8_lossy(&printed)),
        // An address stands one level deeper in the newer forms.
        Err(error) if error.to_string().contains("recursion limit exceeded") => {}
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&printed)),
    }
}

/// Checks what is left of a result after a trip to another version.
fn keeps(before: &CniResult, after: &CniResult, via: CniVersion) {
    let crosses = is_old(before.version()) != is_old(via);
    assert_eq!(after.version(), before.version());
    assert_eq!(after.dns, before.dns);
    assert_eq!(
        unknown(&after.other, &FIELDS),
        unknown(&before.other, &FIELDS)
    );
    if !crosses {
        let names = |result: &CniResult| -> Vec<_> {
            let links = result.interfaces.iter();
            links
                .map(|link| (link.name.clone(), link.mac.clone(), link.sandbox.clone()))
                .collect()
        };
        assert_eq!(names(after), names(before));
        assert_eq!(after.routes, before.routes);
        assert_eq!(after.ips.len(), before.ips.len());
    }
    for ipv4 in [true, false] {
        let address = |result: &CniResult| {
            let mut of_family = result.ips.iter().filter(|ip| ip.address.is_ipv4() == ipv4);
            of_family.next().map(identity)
        };
        assert_eq!(address(after), address(before), "via {via}");
        let routes = |result: &CniResult| -> Vec<Route> {
            let routes = result.routes.iter();
            routes
                .filter(|route| route.dst.is_ipv4() == ipv4)
                .cloned()
                .collect()
        };
        // The old form keeps routes beside the address of their family.
        if !crosses || address(before).is_some() {
            assert_eq!(routes(after), routes(before), "via {via}");
        }
    }
}

/// What of an address every form has.
fn identity(ip: &IpConfig) -> (String, Option<std::net::IpAddr>, Map<String, Value>) {
    let address = ip.address.to_string();
    (address, ip.gateway, unknown(&ip.other, &ADDRESS_FIELDS))
}

/// The fields that no form knows.
fn unknown(other: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let mut other = other.clone();
    other.retain(|key, _| !known.contains(&key.as_str()));
    other
}

fn is_old(version: CniVersion) -> bool {
    version < CniVersion::V0_3_0
}
