//! What is written is what [`Status`] reads: no field of it is forgotten, and none is of another name.

use netqos_index::PeerSource;
use serde_json::{Value, to_value};

use crate::engine::{ClassOptions, Options};
use crate::{Engine, Status};

fn engine() -> Engine {
    let nowhere = |name: &str| Some(format!("/nowhere/{name}"));
    Engine::new(Options {
        node: "node1".to_owned(),
        pod: None,
        paths: netqos_datapath::Paths::from_variables(nowhere),
        proc: "/proc".into(),
        caches: Vec::new(),
        multinet_records: "/nowhere".into(),
        hook: Default::default(),
        egress: Default::default(),
        peers: PeerSource::Pods,
        enforce: Default::default(),
        classes: ClassOptions::default(),
        reports: None,
        sources: vec!["manifests"],
    })
}

#[test]
fn it_has_the_fields_that_are_read() {
    let text = engine().status().unwrap();
    let written: Value = serde_json::from_slice(&text).unwrap();
    let read: Status = serde_json::from_slice(&text).unwrap();
    assert_eq!(read.node, "node1");
    assert_eq!(read.checks[0].name, "manifests");
    // Nothing is lost by reading: the same fields, with the same values.
    assert_eq!(to_value(&read).unwrap(), written);
}
