//! Results: reading, printing, and the ways from each version to each other.

use netqos_cni::{CniResult, CniVersion};

/// One version of each form that results have.
const FORMS: [CniVersion; 2] = [CniVersion::V0_4_0, CniVersion::V1_1_0];

/// A result reads back what it prints, in its own version and in every other; there and back, it
/// still has what both versions have a place for, and a second trip changes nothing.
pub fn cni_result(text: &str) {
    for config_version in FORMS {
        let Ok(result) = CniResult::parse(text.as_bytes(), config_version) else {
            continue;
        };
        reads_back(&result);
        for version in CniVersion::SUPPORTED {
            there_and_back(&result, version);
        }
    }
}

fn there_and_back(result: &CniResult, version: CniVersion) {
    let other = convert(result, version);
    reads_back(&other);
    let back = convert(&other, result.version());
    keeps(result, &back, version);
    let again = convert(&convert(&back, version), back.version());
    assert_eq!(again, back, "via {version}");
}

fn convert(result: &CniResult, version: CniVersion) -> CniResult {
    match result.clone().into_version(version) {
        Ok(converted) => {
            assert_eq!(converted.version(), version);
            converted
        }
        Err(error) => panic!("{result:?} to {version}: {error}"),
    }
}

fn reads_back(result: &CniResult) {
    let mut printed = Vec::new();
    result.write(&mut printed).expect("a result can be printed");
    match CniResult::parse(&printed, CniVersion::CURRENT) {
        Ok(read) => assert_eq!(read, *result, "{}", String::from_utf8_lossy(&printed)),
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&printed)),
    }
}

/// Checks what is left of a result after a trip to another version.
fn keeps(before: &CniResult, after: &CniResult, via: CniVersion) {
    assert_eq!(after.version(), before.version());
    assert_eq!(after.dns, before.dns);
    assert_eq!(after.other, before.other);
    let names = |result: &CniResult| -> Vec<_> {
        let links = result.interfaces.iter();
        links
            .map(|link| (link.name.clone(), link.mac.clone(), link.sandbox.clone()))
            .collect()
    };
    assert_eq!(names(after), names(before));
    assert_eq!(after.routes, before.routes);
    let addresses = |result: &CniResult| -> Vec<_> {
        let ips = result.ips.iter();
        ips.map(|ip| (ip.address.to_string(), ip.gateway)).collect()
    };
    assert_eq!(addresses(after), addresses(before), "via {via}");
}
