//! GC, STATUS and VERSION.

use std::collections::BTreeSet;

use serde_json::json;

use super::stage::{Stage, list, request, stage, three};
use crate::plugin::GcAttachment;
use crate::runtime::AttachmentRequest;
use crate::{CniVersion, ErrorCode};

fn alive(container: &str) -> GcAttachment {
    GcAttachment {
        container_id: container.to_owned(),
        ifname: "eth0".to_owned(),
    }
}

#[test]
fn gc_deletes_what_is_not_alive_and_tells_the_plugins_what_is() {
    let stage = stage();
    let (runtime, net) = (stage.runtime(), list("1.1.0", three()));
    let mut other = net.clone();
    other.name = "other".to_owned();
    for (network, container) in [(&net, "c1"), (&net, "c2"), (&other, "c3")] {
        runtime
            .add(network, &AttachmentRequest::new(container, "eth0"))
            .unwrap();
    }
    stage.calls();
    // One that fails does not stop the rest.
    stage.answer("first", "GC", r#"{"code": 5, "msg": "broken"}"#, 1);
    let error = runtime
        .gc(&net, &BTreeSet::from([alive("c2")]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"first\" failed (gc): broken"
    );

    let calls = stage.calls();
    let summaries: Vec<_> = calls.iter().map(|call| call.summary()).collect();
    assert_eq!(
        summaries,
        [
            "third DEL",
            "second DEL",
            "first DEL",
            "first GC",
            "second GC",
            "third GC"
        ]
    );
    assert_eq!(calls[0].env["CNI_CONTAINERID"], "c1");
    for call in &calls[3..] {
        for name in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"] {
            assert_eq!(call.env[name], "", "{name}");
        }
        for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            assert_eq!(
                call.stdin[key],
                json!([{"containerID": "c2", "ifname": "eth0"}])
            );
        }
    }
    let left: Vec<_> = runtime
        .cached_attachments()
        .into_iter()
        .map(|a| a.container_id)
        .collect();
    assert_eq!(left, ["c2", "c3"]);
}

#[test]
fn gc_before_1_1_0_only_deletes_and_may_be_forbidden() {
    let stage = stage();
    let (runtime, mut net) = (stage.runtime(), list("1.0.0", three()));
    runtime.add(&net, &request()).unwrap();
    stage.calls();
    net.disable_gc = true;
    runtime.gc(&net, &BTreeSet::new()).unwrap();
    assert!(stage.calls().is_empty());
    net.disable_gc = false;
    stage.answer("third", "DEL", r#"{"code": 5, "msg": "stuck"}"#, 1);
    let error = runtime.gc(&net, &BTreeSet::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to delete stale attachment c1 eth0: plugin type=\"third\" failed (delete): stuck"
    );
    stage.answer("third", "DEL", "", 0);
    stage.calls();
    runtime.gc(&net, &BTreeSet::new()).unwrap();
    assert_eq!(stage.summaries(), ["third DEL", "second DEL", "first DEL"]);
}

#[test]
fn status_stops_at_the_first_no() {
    let stage = stage();
    stage.runtime().status(&list("1.0.0", three())).unwrap();
    assert!(stage.calls().is_empty());
    let net = list("1.1.0", three());
    stage.runtime().status(&net).unwrap();
    assert_eq!(
        stage.summaries(),
        ["first STATUS", "second STATUS", "third STATUS"]
    );
    stage.answer("second", "STATUS", r#"{"code": 50, "msg": "no TBF"}"#, 1);
    let error = stage.runtime().status(&net).unwrap_err();
    assert_eq!(
        error.plugin_error().unwrap().code,
        ErrorCode::PLUGIN_NOT_AVAILABLE
    );
    assert_eq!(stage.summaries(), ["first STATUS", "second STATUS"]);
}

#[test]
fn plugins_say_which_versions_they_speak() {
    let stage = Stage::with(&["a"], "1.0.0");
    let runtime = stage.runtime();
    for (stdout, exit, expected) in [
        (
            r#"{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}"#,
            0,
            Ok(vec![CniVersion::V0_4_0, CniVersion::V1_0_0]),
        ),
        (
            r#"{"cniVersion": "0.2.0"}"#,
            0,
            Ok(vec![CniVersion::V0_1_0, CniVersion::V0_2_0]),
        ),
        (
            r#"{"code": 4, "msg": "unknown CNI_COMMAND: VERSION"}"#,
            1,
            Ok(vec![CniVersion::V0_1_0]),
        ),
        (
            "{}",
            0,
            Err("decoding version info: missing field cniVersion"),
        ),
        (
            r#"{"cniVersion": "1.0.0"}"#,
            0,
            Err("decoding version info: missing field supportedVersions"),
        ),
        (r#"{"code": 999, "msg": "moo"}"#, 1, Err("moo")),
    ] {
        stage.answer("a", "VERSION", stdout, exit);
        match (runtime.version("a"), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => assert_eq!(
                error.to_string(),
                format!("plugin type=\"a\" failed (version): {expected}")
            ),
            (found, _) => panic!("{stdout}: {found:?}"),
        }
    }
    stage.answer(
        "a",
        "VERSION",
        r#"{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}"#,
        0,
    );
    runtime
        .validate(&list("1.0.0", json!([{"type": "a"}])))
        .unwrap();
    let error = runtime
        .validate(&list("1.1.0", json!([{"type": "a"}])))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin a does not support config version \"1.1.0\""
    );
}
