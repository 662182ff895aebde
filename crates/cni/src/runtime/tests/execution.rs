//! Starting an executable, feeding it, and reading how it ended.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{Stage, list, request};
use crate::CniVersion;

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
    let small = list("1.0.0", json!([{"type": "a"}]));
    let list = list("1.0.0", json!([{"type": "a", "large": large}]));
    stage.runtime().add(&list, &request()).unwrap();
    assert_eq!(stage.calls()[0].stdin["large"], large);

    // More output than a pipe takes, before the input is read, or without reading it.
    for (list, then) in [
        (&list, "exit"),
        (&small, "exit"),
        (&list, "cat > /dev/null"),
        (&small, "cat > /dev/null"),
    ] {
        let domain = "$(head -c 200000 /dev/zero | tr '\\0' x)";
        let script =
            format!("#!/bin/sh\necho '{{\"dns\": {{\"domain\": \"'{domain}'\"}}}}'\n{then}\n");
        fs::write(stage.path("a"), script).unwrap();
        let result = stage.runtime().add(list, &request()).unwrap();
        assert_eq!(result.version(), CniVersion::V1_0_0);
        assert_eq!(result.dns.domain.len(), 200_000, "{then}");
    }
}
