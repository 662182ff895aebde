//! ADD, DEL and CHECK: who is called, in which order, with what.

use serde_json::{Value, json};

use super::stage::{Stage, full_request, list, request, stage, three};
use crate::runtime::AttachmentRequest;
use crate::{CniVersion, ErrorCode};

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
        let processors = std::env::var("GOMAXPROCS").unwrap_or_else(|_| "1".to_owned());
        assert_eq!(call.env["GOMAXPROCS"], processors);
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
fn plugin_that_speaks_nothing_since_0_3_0_is_refused_by_name() {
    for version in ["", "0.1.0", "0.2.0"] {
        let stage = Stage::with(&["old"], "0.2.0");
        let list = list(version, json!([{"type": "old"}]));
        let error = stage.runtime().add(&list, &request()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "plugin type=\"old\" failed (add): cannot read its result: \
             unsupported CNI result version \"0.2.0\""
        );
        assert_eq!(stage.calls()[0].stdin["cniVersion"], "0.3.1");

        let unversioned = r#"{"ip4": {"ip": "10.0.0.2/24"}}"#;
        stage.answer("old", "ADD", unversioned, 0);
        let other = stage.runtime().add(&list, &request()).unwrap_err();
        assert_eq!(other.to_string(), error.to_string());
    }
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
fn del_that_fails_for_one_plugin_calls_the_others_and_can_be_repeated() {
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
    assert_eq!(stage.summaries(), ["third DEL", "second DEL", "first DEL"]);
    assert!(stage.cache_file().exists());

    stage.answer("first", "DEL", r#"{"code": 5, "msg": "busy"}"#, 1);
    let error = runtime.del(&list, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"second\" failed (delete): later; please; plugin type=\"first\" failed (delete): busy"
    );
    stage.calls();

    stage.answer("first", "DEL", "", 0);
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
    stage.answer("first", "DEL", r#"{"code": 5, "msg": "stuck"}"#, 1);
    let error = runtime.add(&list, &request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plugin type=\"second\" failed (add): bad; undoing it failed, too: \
         plugin type=\"first\" failed (delete): stuck"
    );
    assert_eq!(error.plugin_error().unwrap().code.0, 7);
    assert!(error.may_have_left_something());
    assert_eq!(
        stage.summaries()[2..],
        ["third DEL", "second DEL", "first DEL"]
    );
}

/// The code and the text of an answer.
type Answer = (u32, &'static str);

const UNMARSHAL: &str =
    "failed to load netconf: json: cannot unmarshal string into Go struct field";

/// The codes and texts of the answers of a plugin to ADD and to its DEL, and whether it may have left something.
#[test]
fn failed_del_of_plugin_that_has_done_nothing_does_not_count() {
    for ipam in [
        json!({}),
        json!({"type": "static"}),
        json!({"type": "absent"}),
    ] {
        assert_may_have_left(
            &json!({"type": "bridge", "ipam": ipam}),
            &[
                // Codes come first, whatever the text.
                ((7, "Link not found"), (7, "Link not found"), false),
                ((7, "bad"), (2, "other"), false),
                ((4, "bad"), (999, "Link not found"), false),
                ((7, "bad"), (11, "cannot unmarshal"), true),
                ((7, "bad"), (5, "Link not found"), true),
                ((999, UNMARSHAL), (999, UNMARSHAL), false),
                ((999, "Link not found"), (999, "Link not found"), false),
                ((999, "Link not found"), (999, "address not found"), true),
                (
                    (999, "Link not found"),
                    (999, "failed to find plugin \"x\" in path [/a]"),
                    false,
                ),
                (
                    (999, "failed to find plugin \"x\""),
                    (999, "Link not found"),
                    true,
                ),
                // A plugin that fails later, or ends without an answer, may have done anything.
                (
                    (999, "context deadline exceeded"),
                    (999, "context deadline exceeded"),
                    true,
                ),
                ((999, "context deadline exceeded"), (999, UNMARSHAL), true),
                ((999, "context deadline exceeded"), (7, "bad"), true),
                ((0, ""), (0, ""), true),
            ],
        );
    }
}

/// A daemon may have given an address, and answer ADD and DEL in the same words.
#[test]
fn texts_of_other_plugins_prove_nothing() {
    for plugin in [
        json!({"type": "thin"}),
        json!({"type": "bridge", "ipam": {"type": "thin"}}),
        json!({"type": "bridge", "IPAM": {"Type": "thin"}}),
    ] {
        assert_may_have_left(
            &plugin,
            &[
                ((999, UNMARSHAL), (999, UNMARSHAL), true),
                ((999, "Link not found"), (999, "Link not found"), true),
                ((999, UNMARSHAL), (7, "bad"), true),
                ((1, "bad"), (1, "bad"), true),
                ((6, "bad"), (6, "bad"), true),
                ((2, "bad"), (2, "bad"), false),
                ((4, "bad"), (4, "bad"), false),
                ((7, "bad"), (7, "bad"), false),
                ((7, "bad"), (7, "other"), true),
                ((7, "bad"), (2, "bad"), true),
            ],
        );
    }
}

/// Asserts for the answers of the second of three plugins to ADD and DEL whether it may have left something.
fn assert_may_have_left(plugin: &Value, cases: &[(Answer, Answer, bool)]) {
    let stage = Stage::with(&["first", "bridge", "thin", "third"], "1.0.0");
    let plugins = json!([{"type": "first"}, plugin, {"type": "third"}]);
    let (runtime, list) = (stage.runtime(), list("1.0.0", plugins));
    // The one behind it is not executed at all.
    stage.answer("third", "DEL", r#"{"code": 5, "msg": "stuck"}"#, 1);
    for (of_add, of_del, may_have_left) in cases {
        for (command, (code, msg)) in [("ADD", of_add), ("DEL", of_del)] {
            let answer = match code {
                0 => String::new(),
                _ => json!({"code": code, "msg": msg}).to_string(),
            };
            stage.answer(&list.plugins[1].kind, command, &answer, 1);
        }
        let error = runtime.add(&list, &request()).unwrap_err();
        let found = error.may_have_left_something();
        assert_eq!(
            found, *may_have_left,
            "{plugin}, {of_add:?}, {of_del:?}: {error}"
        );
    }
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
