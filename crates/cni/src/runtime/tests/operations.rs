//! What plugins get to see, and what is remembered.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

use super::stage::{Stage, list, request};
use crate::plugin::GcAttachment;
use crate::runtime::{AttachmentRequest, RuntimeError};
use crate::{CniVersion, ErrorCode};

fn three() -> Value {
    json!([
        {"type": "first", "ipam": {"x": 9_007_199_254_740_993_u64}},
        {"type": "second", "capabilities": {"bandwidth": true, "ips": false}},
        {"type": "third", "runtimeConfig": {"old": 1}},
    ])
}

fn stage() -> Stage {
    Stage::with(&["first", "second", "third"], "1.0.0")
}

fn full_request() -> AttachmentRequest {
    request()
        .with_arg("IgnoreUnknown", "1")
        .with_arg("K8S_POD_NAME", "web")
        .with_capability("bandwidth", json!({"ingressRate": 1_000_000}))
        .with_capability("ips", json!(["10.0.0.9"]))
        .with_capability("mac", json!("00:11:22:33:44:55"))
}

#[test]
fn add_calls_the_plugins_in_order_with_what_is_theirs() {
    let stage = stage();
    let runtime = stage
        .runtime()
        .with_env("NETQOS_EGRESS", "ifb")
        .with_env("CNI_ARGS", "evil");
    let result = runtime
        .add(&list("1.0.0", three()), &full_request())
        .unwrap();
    assert_eq!(result.interfaces[0].name, "third");

    let calls = stage.calls();
    let summaries: Vec<_> = calls.iter().map(|call| call.summary()).collect();
    assert_eq!(summaries, ["first ADD", "second ADD", "third ADD"]);
    for call in &calls {
        let path = format!("/nonexistent:{}", stage.path("").display());
        for (name, value) in [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/c1"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=web"),
            ("CNI_PATH", path.trim_end_matches('/')),
            ("NETQOS_EGRESS", "ifb"),
        ] {
            assert_eq!(call.env[name], value);
        }
        assert_eq!(call.env.get("PATH"), std::env::var("PATH").ok().as_ref());
        assert_eq!(
            (&call.stdin["name"], &call.stdin["cniVersion"]),
            (&json!("net"), &json!("1.0.0"))
        );
    }
    let [first, second, third] = &calls[..] else {
        unreachable!()
    };
    // Go's libcni would have made a float of it.
    assert_eq!(first.stdin["ipam"]["x"], 9_007_199_254_740_993_u64);
    assert_eq!(first.stdin.get("prevResult"), None);
    assert_eq!(first.stdin.get("runtimeConfig"), None);
    assert_eq!(
        second.stdin["prevResult"]["interfaces"],
        json!([{"name": "first", "made": "here"}])
    );
    assert_eq!(
        second.stdin["runtimeConfig"],
        json!({"bandwidth": {"ingressRate": 1_000_000}})
    );
    assert_eq!(
        second.stdin["capabilities"],
        json!({"bandwidth": true, "ips": false})
    );
    assert_eq!(third.stdin["runtimeConfig"], json!({"old": 1}));
}

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
fn del_goes_backwards_with_the_cached_result_and_forgets_it() {
    for (version, has_result) in [("0.3.1", false), ("0.4.0", true), ("1.1.0", true)] {
        let stage = Stage::with(&["first", "second", "third"], version);
        let (runtime, list) = (stage.runtime(), list(version, three()));
        runtime.add(&list, &full_request()).unwrap();
        stage.calls();

        runtime.del(&list, &full_request()).unwrap();
        let calls = stage.calls();
        let summaries: Vec<_> = calls.iter().map(|call| call.summary()).collect();
        assert_eq!(summaries, ["third DEL", "second DEL", "first DEL"]);
        for call in &calls {
            let name = call.stdin.pointer("/prevResult/interfaces/0/name");
            assert_eq!(name, has_result.then_some(&json!("third")), "{version}");
        }
        assert!(calls[1].stdin["runtimeConfig"].get("bandwidth").is_some());
        assert!(!stage.cache_file().exists());

        // Again, without a namespace: nothing is known, and all are told.
        let mut gone = full_request();
        gone.netns = None;
        runtime.del(&list, &gone).unwrap();
        let calls = stage.calls();
        assert_eq!(calls.len(), 3);
        assert_eq!(calls[0].env["CNI_NETNS"], "");
        assert_eq!(calls[0].stdin.get("prevResult"), None);
    }
}

#[test]
fn a_failing_del_stops_and_can_be_tried_again() {
    let stage = stage();
    let (runtime, list) = (stage.runtime(), list("1.0.0", three()));
    runtime.add(&list, &request()).unwrap();
    stage.calls();
    stage.answer(
        "second",
        "DEL",
        r#"{"code": 11, "msg": "later", "details": "please"}"#,
        1,
    );
    let error = runtime.del(&list, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"second\" failed (delete): later; please"
    );
    assert_eq!(
        error.plugin_error().unwrap().code,
        ErrorCode::TRY_AGAIN_LATER
    );
    assert_eq!(stage.summaries(), ["third DEL", "second DEL"]);
    assert!(stage.cache_file().exists());

    stage.answer("second", "DEL", "", 0);
    runtime.del(&list, &request()).unwrap();
    assert_eq!(stage.calls().len(), 3);
    assert!(!stage.cache_file().exists());
}

#[test]
fn a_failed_add_is_undone_and_its_error_kept() {
    let stage = stage();
    let (runtime, list) = (stage.runtime(), list("1.0.0", three()));
    stage.answer("second", "ADD", r#"{"code": 7, "msg": "bad"}"#, 1);
    let error = runtime.add(&list, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"second\" failed (add): bad"
    );
    assert_eq!(
        stage.summaries(),
        [
            "first ADD",
            "second ADD",
            "third DEL",
            "second DEL",
            "first DEL"
        ]
    );
    assert!(!stage.cache_file().exists());

    // Undoing goes on where it fails, and never hides why.
    stage.answer("third", "DEL", r#"{"code": 5, "msg": "stuck"}"#, 1);
    let error = runtime.add(&list, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"second\" failed (add): bad; undoing it failed, too: \
         plugin type=\"third\" failed (delete): stuck"
    );
    assert_eq!(error.plugin_error().unwrap().code.0, 7);
    assert_eq!(
        stage.summaries()[2..],
        ["third DEL", "second DEL", "first DEL"]
    );
}

#[test]
fn what_plugins_print_when_they_fail_is_read_or_shown() {
    let stage = Stage::with(&["a"], "1.0.0");
    let list = list("1.0.0", json!([{"type": "a"}]));
    for (stdout, stderr, message) in [
        (r#"{"msg": "no code"}"#, "noise", "no code"),
        (
            "",
            "",
            "netplugin failed with no error message: exit status: 3",
        ),
        (
            "",
            "line\n\"two\"",
            r#"netplugin failed: "line\n\"two\"": exit status: 3"#,
        ),
        (
            "oops",
            "",
            "netplugin failed but error parsing its diagnostic message \"oops\": \
             expected value at line 1 column 1",
        ),
    ] {
        stage.answer("a", "CHECK", stdout, 3);
        stage.complain("a", "CHECK", stderr);
        let error = stage.runtime().check(&list, &request()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("plugin type=\"a\" failed (check): {message}")
        );
    }
    for (stdout, message) in [
        ("", "unexpected end of JSON input"),
        (
            r#"{"cniVersion": "7.0.0"}"#,
            "unsupported CNI result version \"7.0.0\"",
        ),
    ] {
        stage.answer("a", "ADD", stdout, 0);
        let error = stage.runtime().add(&list, &request()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("plugin type=\"a\" failed (add): cannot read its result: {message}")
        );
    }
}

#[test]
fn a_plugin_that_is_not_there_is_named_with_where_it_was_looked_for() {
    let stage = Stage::with(&[], "1.0.0");
    let place = stage.path("").display().to_string();
    let place = place.trim_end_matches('/');
    for (kind, message) in [
        (
            "moo",
            format!("failed to find plugin \"moo\" in path [/nonexistent {place}]"),
        ),
        (
            "calls",
            format!("failed to find plugin \"calls\" in path [/nonexistent {place}]"),
        ),
        ("../x", "invalid plugin name: \"../x\"".to_owned()),
    ] {
        let list = list("1.0.0", json!([{"type": kind}]));
        let error = stage.runtime().check(&list, &request()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused_before_any_call() {
    let stage = Stage::with(&["a"], "1.0.0");
    let list = list("1.0.0", json!([{"type": "a"}]));
    for (container, interface, message) in [
        (
            "../../etc",
            "eth0",
            "invalid characters in containerID; ../../etc",
        ),
        ("", "eth0", "missing containerID"),
        (
            "c1",
            "a/b",
            "interface name contains / or : or whitespace characters",
        ),
        ("c1", "", "interface name is empty"),
    ] {
        let request = AttachmentRequest::new(container, interface);
        let runtime = stage.runtime();
        for error in [
            runtime.add(&list, &request).unwrap_err(),
            runtime.del(&list, &request).unwrap_err(),
            runtime.check(&list, &request).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
    assert!(stage.calls().is_empty());
}

#[test]
fn check_needs_its_version_and_leave() {
    let stage = Stage::with(&["a"], "1.0.0");
    let mut old = list("0.3.1", json!([{"type": "a"}]));
    let error = stage.runtime().check(&old, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "configuration version \"0.3.1\" does not support the CHECK command"
    );
    old.version = CniVersion::V0_4_0;
    old.disable_check = true;
    stage.runtime().check(&old, &request()).unwrap();
    assert!(stage.calls().is_empty());
}

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

#[test]
fn an_executable_that_is_being_written_is_waited_for() {
    let stage = Stage::with(&["a"], "1.0.0");
    let writer = fs::OpenOptions::new()
        .append(true)
        .open(stage.path("a"))
        .unwrap();
    let release = thread::spawn(move || {
        thread::sleep(Duration::from_millis(60));
        drop(writer);
    });
    let started = Instant::now();
    stage
        .runtime()
        .add(&list("1.0.0", json!([{"type": "a"}])), &request())
        .unwrap();
    assert!(
        started.elapsed() >= Duration::from_millis(50),
        "it was not busy"
    );
    release.join().unwrap();
    assert_eq!(stage.summaries(), ["a ADD"]);
}

#[test]
fn a_configuration_larger_than_a_pipe_arrives_whole_or_may_be_ignored() {
    let stage = Stage::with(&["a"], "1.0.0");
    let large = "x".repeat(300_000);
    let list = list("1.0.0", json!([{"type": "a", "large": large}]));
    stage.runtime().add(&list, &request()).unwrap();
    assert_eq!(stage.calls()[0].stdin["large"], large);

    fs::write(stage.path("a"), "#!/bin/sh\nexec echo '{}'\n").unwrap();
    let result = stage.runtime().add(&list, &request()).unwrap();
    assert_eq!(result.version(), CniVersion::V1_0_0);
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
