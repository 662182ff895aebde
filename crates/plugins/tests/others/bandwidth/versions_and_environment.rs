//! The skeleton's checks: versions, variables, names; before anything is done.

use netqos_testkit::Call;
use serde_json::{Value, json};

use super::calls::{limited, original, plugin, start, state};

/// The variables of a whole environment, and values that nothing is wrong with.
const GOOD: [(&str, &str); 4] = [
    ("CNI_CONTAINERID", "dummy"),
    ("CNI_NETNS", "/run/netns/none"),
    ("CNI_IFNAME", "eth0"),
    ("CNI_PATH", "/opt/cni/bin"),
];
/// A container id that is not one.
const BAD_ID: &str = "-dummy";

/// A command, what is changed of a whole environment, standard input, the code and the message.
type Refusal<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, u64, &'a str);

/// A call whose environment differs from a whole one by this; an empty value takes it away.
fn call(plugin: &std::path::Path, command: &str, changes: &[(&str, &str)], stdin: &str) -> Call {
    let whole = GOOD
        .iter()
        .fold(Call::bare(plugin, command), |call, (name, value)| {
            call.variable(name, value)
        });
    let changed = changes
        .iter()
        .fold(whole, |call, (name, value)| match *value {
            "" => call.without(name),
            value => call.variable(name, value),
        });
    changed.stdin(stdin)
}

#[test]
fn version_is_answered_without_anything_else() {
    let outcome = Call::bare(plugin(), "VERSION")
        .stdin("no JSON")
        .run()
        .unwrap();
    assert_eq!(
        outcome.stdout,
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n"
    );
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn without_a_command_it_says_what_it_is() {
    let outcome = Call::bare(plugin(), "")
        .without("CNI_COMMAND")
        .run()
        .unwrap();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""));
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(
        lines[0].starts_with("CNI bandwidth plugin netqos v"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1..],
        ["CNI protocol versions supported: 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"]
    );
}

/// What is wrong with an environment or a document, and what both plugins say to it.
#[test]
fn what_the_skeleton_refuses_it_refuses_in_the_originals_words() {
    let document = |key: &str, value: Value| {
        let mut document = json!({"cniVersion": "1.0.0", "name": "net", "type": "bandwidth"});
        document[key] = value;
        document.to_string()
    };
    let good = document("type", "bandwidth".into());
    let cases: &[Refusal<'_>] = &[
        (
            "ADD",
            &GOOD.map(|(name, _)| (name, "")),
            &good,
            4,
            "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing",
        ),
        (
            "ADD",
            &[("CNI_NETNS", "")],
            &good,
            4,
            "required env variables [CNI_NETNS] missing",
        ),
        (
            "CHECK",
            &[("CNI_IFNAME", "")],
            &good,
            4,
            "required env variables [CNI_IFNAME] missing",
        ),
        (
            "DEL",
            &[("CNI_NETNS", ""), ("CNI_PATH", "")],
            &good,
            4,
            "required env variables [CNI_PATH] missing",
        ),
        (
            "ADD",
            &[("CNI_CONTAINERID", BAD_ID)],
            &good,
            4,
            "invalid characters in containerID",
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "sixteen-letters0")],
            &good,
            4,
            "interface name is too long",
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "..")],
            &good,
            4,
            "interface name is . or ..",
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "eth 0")],
            &good,
            4,
            "interface name contains / or : or whitespace characters",
        ),
        (
            "FROBNICATE",
            &[],
            &good,
            4,
            "unknown CNI_COMMAND: FROBNICATE",
        ),
        (
            "ADD",
            &[],
            &document("name", "".into()),
            7,
            "missing network name",
        ),
        (
            "ADD",
            &[],
            &document("name", "a/b".into()),
            7,
            "invalid characters found in network name",
        ),
        (
            "ADD",
            &[],
            &document("cniVersion", "0.2.0".into()),
            1,
            "incompatible CNI versions",
        ),
        (
            "ADD",
            &[],
            &document("cniVersion", "".into()),
            1,
            "incompatible CNI versions",
        ),
        (
            "ADD",
            &[],
            &document("cniVersion", "1.0".into()),
            1,
            "incompatible CNI versions",
        ),
        (
            "CHECK",
            &[],
            &document("cniVersion", "0.3.1".into()),
            1,
            "config version does not allow CHECK",
        ),
    ];
    for (command, changes, stdin, code, message) in cases {
        let said = call(plugin(), command, changes, stdin).fail().unwrap();
        assert_eq!(
            said,
            (*code, (*message).to_owned()),
            "{command} {changes:?} {stdin}"
        );
        if let Some(original) = original() {
            let its = call(original, command, changes, stdin).fail().unwrap();
            assert_eq!(said, its, "{command} {changes:?} {stdin}");
        }
    }
}

/// What the installed original is too old for, or says in the words of Go's parser.
#[test]
fn newer_commands_and_texts_that_are_no_json() {
    let of = |version: &str| json!({"cniVersion": version, "name": "net"}).to_string();
    let cases: &[Refusal<'_>] = &[
        (
            "GC",
            &[("CNI_PATH", "")],
            &of("1.1.0"),
            4,
            "required env variables [CNI_PATH] missing",
        ),
        (
            "STATUS",
            &[("CNI_PATH", "")],
            &of("1.1.0"),
            4,
            "required env variables [CNI_PATH] missing",
        ),
        (
            "GC",
            &[],
            &of("1.0.0"),
            1,
            "config version does not allow GC",
        ),
        (
            "STATUS",
            &[],
            &of("1.0.0"),
            1,
            "config version does not allow STATUS",
        ),
        ("ADD", &[], "", 6, "error unmarshall network config: "),
        ("ADD", &[], "{", 6, "error unmarshall network config: "),
        ("ADD", &[], "[]", 6, "error unmarshall network config: "),
        ("DEL", &[], "\u{0}", 6, "error unmarshall network config: "),
        (
            "ADD",
            &[],
            r#"{"name": 1}"#,
            6,
            "error unmarshall network config: ",
        ),
    ];
    for (command, changes, stdin, code, beginning) in cases {
        let (said, text) = call(plugin(), command, changes, stdin).fail().unwrap();
        assert!(
            said == *code && text.starts_with(beginning),
            "{command} {stdin}: {said} {text}"
        );
    }
}

#[test]
fn details_say_which() {
    let error = |changes: &[(&str, &str)], stdin: &str| -> Value {
        let outcome = call(plugin(), "ADD", changes, stdin).run().unwrap();
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let config = json!({"cniVersion": "0.2.0", "name": "net"}).to_string();
    assert_eq!(
        error(&[("CNI_CONTAINERID", BAD_ID)], &config)["details"],
        BAD_ID
    );
    assert_eq!(
        error(&[], &config)["details"],
        r#"config is "0.2.0", plugin supports ["0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]"#
    );
}

/// The original says so when all is done, behind a result.
#[test]
fn its_own_namespace_is_refused_before_it_acts() {
    let Some((node, pod)) = start() else { return };
    let config = limited(&pod, json!({}));
    let before = state(&node, &pod);
    for command in ["ADD", "DEL"] {
        let own =
            Call::of(plugin(), command, &pod, &config).variable("CNI_NETNS", "/proc/self/ns/net");
        assert_eq!(
            own.fail().unwrap(),
            (
                8,
                "plugin's netns and netns from CNI_NETNS should not be the same".to_owned()
            ),
            "{command}"
        );
        state(&node, &pod).assert_is(&before, command);
    }
    // A runtime that knows what it does is believed; there is no such interface, though.
    let known = Call::of(plugin(), "ADD", &pod, &config)
        .variable("CNI_NETNS", "/proc/self/ns/net")
        .variable("CNI_NETNS_OVERRIDE", "true");
    assert_eq!(known.fail().unwrap().0, 999);
}
