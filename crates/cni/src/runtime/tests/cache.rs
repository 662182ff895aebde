//! What is remembered, in the form that libcni reads and writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use base64::Engine;
use serde_json::{Value, json};

use super::stage::{Stage, full_request, list, request, stage, three};
use crate::runtime::RuntimeError;

#[test]
fn the_cache_is_one_that_libcni_reads() {
    let stage = stage();
    let list = list("1.0.0", three());
    stage.runtime().add(&list, &full_request()).unwrap();

    let path = stage.cache_file();
    assert_eq!(
        path.metadata().unwrap().permissions().mode() & 0o7777,
        0o600
    );
    let folder = path.parent().unwrap();
    assert_eq!(
        folder.metadata().unwrap().permissions().mode() & 0o7777,
        0o700
    );
    let cached: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let config = base64::engine::general_purpose::STANDARD.encode(&list.text);
    assert_eq!(
        cached,
        json!({
            "kind": "cniCacheV1",
            "containerId": "c1",
            "config": config,
            "ifName": "eth0",
            "networkName": "net",
            "netns": "/run/netns/c1",
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAME", "web"]],
            "capabilityArgs": {
                "bandwidth": {"ingressRate": 1_000_000},
                "ips": ["10.0.0.9"],
                "mac": "00:11:22:33:44:55",
            },
            "result": {
                "cniVersion": "1.0.0",
                "interfaces": [{"name": "third", "made": "here"}],
                "ips": [{"address": "10.0.0.2/24", "version": "4"}],
            },
        })
    );
    // Nothing else is left beside it, and no draft.
    let names = |dir: PathBuf| -> Vec<_> {
        fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    };
    assert_eq!(names(folder.to_owned()), ["net-c1-eth0"]);
    assert_eq!(names(stage.path("cache")), ["results"]);

    let [attachment] = &stage.runtime().cached_attachments()[..] else {
        unreachable!()
    };
    assert_eq!(attachment.request(), full_request());
    assert_eq!(attachment.config, list.text);
}

#[test]
fn a_cache_that_libcni_wrote_is_read() {
    let stage = stage();
    fs::create_dir_all(stage.cache_file().parent().unwrap()).unwrap();
    // Field for field as Go's encoding/json writes it, with nulls for what is empty.
    let text = r#"{"kind":"cniCacheV1","containerId":"c1","config":"e30=","ifName":"eth0","networkName":"net","cniArgs":null,"capabilityArgs":null,"result":{"cniVersion":"0.4.0","dns":{},"interfaces":[{"name":"old"}]}}"#;
    fs::write(stage.cache_file(), text).unwrap();
    stage
        .runtime()
        .check(&list("1.0.0", three()), &request())
        .unwrap();
    for call in stage.calls() {
        // In the list's version, whatever it was.
        assert_eq!(
            call.stdin["prevResult"],
            json!({"cniVersion": "1.0.0", "interfaces": [{"name": "old"}]})
        );
    }
    // The form of old versions: the result alone.
    fs::write(
        stage.cache_file(),
        r#"{"cniVersion":"0.4.0","interfaces":[{"name":"older"}]}"#,
    )
    .unwrap();
    stage
        .runtime()
        .check(&list("0.4.0", three()), &request())
        .unwrap();
    assert_eq!(
        stage.calls()[2].stdin["prevResult"]["interfaces"][0]["name"],
        "older"
    );
}

#[test]
fn results_that_cannot_be_remembered_are_an_error_and_undone() {
    let stage = Stage::with(&["a"], "1.0.0");
    fs::write(stage.path("cache"), "not a folder").unwrap();
    let error = stage
        .runtime()
        .add(&list("1.0.0", json!([{"type": "a"}])), &request())
        .unwrap_err();
    assert!(matches!(&error, RuntimeError::Cache { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.starts_with("failed to set network \"net\" cached result: "),
        "{message}"
    );
    assert_eq!(stage.summaries(), ["a ADD", "a DEL"]);
}
