//! Attachments of drivers that this version does not have.

use std::fs;

use netqos_api::multinet::{Nad, PodRecord};
use serde_json::json;

use super::fixture::{everything, nad, start};

const RECORD: &str = "/var/lib/netqos/multinet/pods/web.json";

#[test]
fn attachment_of_unknown_driver_fails_the_pod_and_leaves_nothing() {
    let Some((node, pod)) = start() else { return };
    let bridge = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "data0"});
    let port = Nad {
        driver: "neutron".to_owned(),
        ..nad(Some(&bridge), everything())
    };
    node.define_nad("shop/port", port);
    let before = node.inventory();
    for networks in ["lan,port", "port,lan", "lan,port,lan"] {
        let (_, error) = node.refuse(&pod, Some(networks));
        let expected = r#"shop/port: this version does not know driver "neutron""#;
        assert!(error.contains(expected), "{error}");
        assert_eq!(node.inventory(), before);
        let links = node.in_pod(&pod, "ip -o link");
        assert_eq!(links.lines().count(), 1, "{links}");
    }
}

/// A later version made it.
#[test]
fn del_of_recorded_unknown_driver_releases_the_others_and_fails() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    node.add(&pod, Some("lan,lan"));
    let whole = fs::read(RECORD).unwrap();
    let mut record: PodRecord = serde_json::from_slice(&whole).unwrap();
    record.attachments[1].driver = "neutron".to_owned();
    fs::write(RECORD, serde_json::to_vec(&record).unwrap()).unwrap();
    let (_, error) = node.call("DEL", &pod, None, json!({})).fail().unwrap();
    let expected = r#"attachment net1: driver "neutron" is not known to this version"#;
    assert!(error.contains(expected), "{error}");
    let links = node.in_pod(&pod, "ip -br link");
    let has = |interface: &str| links.contains(&format!("{interface}@"));
    assert_eq!(
        ["eth0", "net1", "net2"].map(has),
        [false, true, false],
        "{links}"
    );
    // Its record stays, and the version that knows the driver releases it.
    fs::write(RECORD, whole).unwrap();
    node.del(&pod);
    assert_eq!(node.inventory(), before);
}
