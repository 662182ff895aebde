//! The skeleton, as a runtime sees it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{CniError, CniResult, CniVersion, ErrorCode, Interface};

/// Remembers what it was asked, adds an interface, and fails where it is told to.
#[derive(Default)]
struct Probe {
    asked: RefCell<Vec<String>>,
    fails: Option<CniError>,
}

impl Probe {
    fn note(&self, what: String) -> Result<(), CniError> {
        self.asked.borrow_mut().push(what);
        self.fails.clone().map_or(Ok(()), Err)
    }
}

impl Plugin for Probe {
    fn about(&self) -> String {
        "CNI plugin probe v1".to_owned()
    }
    fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        self.note(format!("ADD {}", request.attachment))?;
        let mut result = request
            .config
            .prev_result()?
            .unwrap_or_else(|| CniResult::new(CniVersion::CURRENT));
        result.interfaces.push(Interface::on_host("probe0", ""));
        Ok(result)
    }
    fn del(&self, request: &Request) -> Result<(), CniError> {
        self.note(format!("DEL {} {:?}", request.attachment, request.netns))
    }
    fn check(&self, request: &Request) -> Result<(), CniError> {
        self.note(format!("CHECK {}", request.attachment))
    }
    fn gc(&self, request: &GcRequest) -> Result<(), CniError> {
        let valid: Vec<_> = request
            .valid
            .iter()
            .map(|a| format!("{}/{}", a.container_id, a.ifname))
            .collect();
        self.note(format!("GC {} {valid:?}", request.config.name))
    }
    fn status(&self, request: &StatusRequest) -> Result<(), CniError> {
        self.note(format!("STATUS {}", request.config.name))
    }
}

/// A command, changes of the environment, standard input; and the error: code, message, details.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    String,
    (u32, String, String),
);

/// What a plugin printed.
struct Outcome {
    code: u8,
    stdout: String,
    stderr: String,
    asked: Vec<String>,
}

impl Outcome {
    fn error(&self) -> (u32, String, String) {
        assert_eq!(self.code, 1, "{}", self.stdout);
        let error: CniError = serde_json::from_str(&self.stdout).unwrap();
        (error.code.0, error.msg, error.details)
    }
}

fn call(plugin: &Probe, env: &[(&str, &str)], stdin: &str) -> Outcome {
    let env: BTreeMap<_, _> = env.iter().copied().collect();
    let get = |name: &str| env.get(name).map(|value| (*value).to_owned());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = execute(plugin, &get, stdin.as_bytes(), &mut stdout, &mut stderr);
    Outcome {
        code,
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
        asked: plugin.asked.take(),
    }
}

/// The whole environment, with some variables set differently.
fn env_with<'a>(command: &'a str, changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/nowhere/ns"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin:/usr/lib/cni"),
    ]
    .into_iter()
    .chain(changes.iter().copied())
    .collect()
}

const CONFIG: &str = r#"{"cniVersion": "1.1.0", "name": "net", "type": "probe"}"#;

#[test]
fn variables_that_are_missing_are_named_in_the_order_of_the_original() {
    for (command, missing) in [
        ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
        ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
        ("GC", "CNI_PATH"),
        ("STATUS", "CNI_PATH"),
    ] {
        // An empty variable is as good as none.
        let outcome = call(
            &Probe::default(),
            &[("CNI_COMMAND", command), ("CNI_PATH", "")],
            CONFIG,
        );
        assert_eq!(
            outcome.error(),
            (
                4,
                format!("required env variables [{missing}] missing"),
                String::new()
            )
        );
        assert!(outcome.asked.is_empty());
    }
}

#[test]
fn mistakes_of_the_runtime_have_the_codes_and_texts_of_the_original() {
    let named = |name: &str| format!(r#"{{"cniVersion": "1.0.0", "name": {name:?}}}"#);
    let versioned = |version: &str| format!(r#"{{"cniVersion": {version:?}, "name": "net"}}"#);
    let supports = r#"plugin supports ["0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]"#;
    let incompatible = |found: &str| {
        (
            1,
            "incompatible CNI versions".to_owned(),
            format!("config is {found:?}, {supports}"),
        )
    };
    let plain = |code: u32, msg: &str| (code, msg.to_owned(), String::new());
    let cases: Vec<Case> = vec![
        (
            "ADD",
            &[],
            String::new(),
            plain(
                6,
                "error unmarshall network config: unexpected end of JSON input",
            ),
        ),
        (
            "ADD",
            &[],
            "[]".into(),
            plain(
                6,
                "error unmarshall network config: cannot unmarshal array into a network config",
            ),
        ),
        (
            "ADD",
            &[],
            r#"{"name": 1}"#.into(),
            plain(
                6,
                "error unmarshall network config: cannot unmarshal number into name of type string",
            ),
        ),
        ("ADD", &[], "null".into(), plain(7, "missing network name")),
        ("ADD", &[], "{}".into(), plain(7, "missing network name")),
        ("GC", &[], "{}".into(), plain(7, "missing network name")),
        (
            "ADD",
            &[],
            named("a/b"),
            (
                7,
                "invalid characters found in network name".into(),
                "a/b".into(),
            ),
        ),
        (
            "ADD",
            &[],
            named("-a"),
            (
                7,
                "invalid characters found in network name".into(),
                "-a".into(),
            ),
        ),
        (
            "ADD",
            &[("CNI_CONTAINERID", "a/b")],
            CONFIG.into(),
            (4, "invalid characters in containerID".into(), "a/b".into()),
        ),
        (
            "DEL",
            &[("CNI_CONTAINERID", ".a")],
            CONFIG.into(),
            (4, "invalid characters in containerID".into(), ".a".into()),
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "sixteen-letters-")],
            CONFIG.into(),
            plain(4, "interface name is too long"),
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "..")],
            CONFIG.into(),
            plain(4, "interface name is . or .."),
        ),
        (
            "ADD",
            &[("CNI_IFNAME", "a:b")],
            CONFIG.into(),
            plain(4, "interface name contains / or : or whitespace characters"),
        ),
        (
            "CHECK",
            &[("CNI_IFNAME", "a b")],
            CONFIG.into(),
            plain(4, "interface name contains / or : or whitespace characters"),
        ),
        (
            "add",
            &[],
            CONFIG.into(),
            plain(4, "unknown CNI_COMMAND: add"),
        ),
        (
            "MOO",
            &[("CNI_CONTAINERID", "")],
            CONFIG.into(),
            plain(3, "missing containerID"),
        ),
        ("ADD", &[], versioned("1.2.0"), incompatible("1.2.0")),
        ("ADD", &[], versioned("1.0"), incompatible("1.0")),
        ("DEL", &[], versioned("moo"), incompatible("moo")),
        (
            "ADD",
            &[],
            r#"{"name": "net"}"#.into(),
            incompatible("0.1.0"),
        ),
        (
            "ADD",
            &[],
            r#"{"name": "net", "cniVersion": []}"#.into(),
            plain(
                6,
                "decoding version from network config: cannot unmarshal array into cniVersion of type string",
            ),
        ),
        (
            "CHECK",
            &[],
            versioned("0.3.1"),
            plain(1, "config version does not allow CHECK"),
        ),
        ("CHECK", &[], versioned("1.0"), incompatible("1.0")),
        (
            "CHECK",
            &[],
            versioned("2.0.0"),
            plain(1, "plugin version does not allow CHECK"),
        ),
        (
            "CHECK",
            &[],
            versioned("moo"),
            plain(
                6,
                "failed to convert major version part \"moo\": not a number that fits 32 bits",
            ),
        ),
        (
            "GC",
            &[],
            versioned("1.0.0"),
            plain(1, "config version does not allow GC"),
        ),
        (
            "GC",
            &[],
            versioned("2.0.0"),
            plain(1, "plugin version does not allow GC"),
        ),
        (
            "STATUS",
            &[],
            versioned("1.0.0"),
            plain(1, "config version does not allow STATUS"),
        ),
        (
            "GC",
            &[],
            CONFIG.into(),
            plain(
                7,
                "GC without \"cni.dev/valid-attachments\": the runtime must say which attachments are alive",
            ),
        ),
        (
            "ADD",
            &[("CNI_NETNS", "/proc/thread-self/ns/net")],
            CONFIG.into(),
            plain(
                8,
                "plugin's netns and netns from CNI_NETNS should not be the same",
            ),
        ),
        (
            "DEL",
            &[("CNI_NETNS", "/proc/thread-self/ns/net")],
            CONFIG.into(),
            plain(
                8,
                "plugin's netns and netns from CNI_NETNS should not be the same",
            ),
        ),
        (
            "ADD",
            &[],
            r#"{"cniVersion": "1.0.0", "name": "net", "capabilities": {"a": 1}}"#.into(),
            plain(
                999,
                "failed to parse network configuration: capabilities.a is of type number, expected bool",
            ),
        ),
    ];
    for (command, changes, stdin, expected) in cases {
        let plugin = Probe::default();
        let outcome = call(&plugin, &env_with(command, changes), &stdin);
        assert_eq!(outcome.error(), expected, "{command} {changes:?} {stdin}");
        assert!(
            outcome.asked.is_empty(),
            "the plugin acted: {command} {stdin}"
        );
    }
}

#[test]
fn what_is_in_order_reaches_the_plugin() {
    for (command, changes, asked) in [
        ("ADD", &[] as &[_], "ADD net/c1/eth0"),
        ("CHECK", &[], "CHECK net/c1/eth0"),
        ("DEL", &[("CNI_NETNS", "")], "DEL net/c1/eth0 None"),
        ("DEL", &[], r#"DEL net/c1/eth0 Some("/nowhere/ns")"#),
        ("STATUS", &[("CNI_CONTAINERID", "")], "STATUS net"),
        // The runtime may say that it knows.
        (
            "ADD",
            &[
                ("CNI_NETNS", "/proc/thread-self/ns/net"),
                ("CNI_NETNS_OVERRIDE", "True"),
            ],
            "ADD net/c1/eth0",
        ),
        (
            "DEL",
            &[
                ("CNI_NETNS", "/proc/thread-self/ns/net"),
                ("CNI_NETNS_OVERRIDE", "1"),
            ],
            r#"DEL net/c1/eth0 Some("/proc/thread-self/ns/net")"#,
        ),
    ] {
        let outcome = call(&Probe::default(), &env_with(command, changes), CONFIG);
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{}",
            outcome.stdout
        );
        assert_eq!(outcome.asked, [asked]);
        assert_eq!(outcome.stdout.is_empty(), command != "ADD");
    }
}

#[test]
fn gc_learns_who_is_alive_under_either_key() {
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        for (list, valid) in [
            (
                json!([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "eth1"}]),
                r#"GC net ["a/eth0", "b/eth1"]"#,
            ),
            (json!([]), "GC net []"),
            (Value::Null, "GC net []"),
        ] {
            let config = json!({"cniVersion": "1.1.0", "name": "net", key: list});
            let env = [("CNI_COMMAND", "GC"), ("CNI_PATH", "/opt/cni/bin")];
            let outcome = call(&Probe::default(), &env, &config.to_string());
            assert_eq!(
                (outcome.code, outcome.asked),
                (0, vec![valid.to_owned()]),
                "{}",
                outcome.stdout
            );
        }
    }
    let config = json!({"cniVersion": "1.1.0", "name": "net", "cni.dev/valid-attachments": [{"containerID": "a"}]});
    let outcome = call(&Probe::default(), &env_with("GC", &[]), &config.to_string());
    assert_eq!(outcome.error().0, 7);
}

#[test]
fn version_needs_nothing_but_the_command() {
    let outcome = call(
        &Probe::default(),
        &[("CNI_COMMAND", "VERSION")],
        "{ not json",
    );
    assert_eq!(outcome.code, 0);
    assert_eq!(
        outcome.stdout,
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n"
    );
}

#[test]
fn started_by_hand_it_says_what_it_is() {
    let outcome = call(&Probe::default(), &[], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""));
    assert_eq!(
        outcome.stderr,
        "CNI plugin probe v1\nCNI protocol versions supported: 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n"
    );
}

#[test]
fn results_are_printed_in_the_version_of_the_configuration() {
    for (version, previous, expected) in [
        (
            "1.0.0",
            Some("1.1.0"),
            r#"{"cniVersion":"1.0.0","interfaces":[{"name":"probe0"}],"x":1}"#,
        ),
        (
            "0.4.0",
            Some("0.3.0"),
            r#"{"cniVersion":"0.4.0","dns":{},"interfaces":[{"name":"probe0"}],"x":1}"#,
        ),
        (
            "0.3.0",
            None,
            r#"{"cniVersion":"0.3.0","dns":{},"interfaces":[{"name":"probe0"}]}"#,
        ),
    ] {
        let mut config = json!({"cniVersion": version, "name": "net"});
        if let Some(previous) = previous {
            // Go matches keys without regard to case.
            config["PrevResult"] = json!({"cniVersion": previous, "x": 1});
        }
        let outcome = call(
            &Probe::default(),
            &env_with("ADD", &[]),
            &config.to_string(),
        );
        assert_eq!(outcome.code, 0, "{}", outcome.stdout);
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(printed, serde_json::from_str::<Value>(expected).unwrap());
        assert!(
            outcome.stdout.starts_with("{\n    \"cniVersion\"") && outcome.stdout.ends_with('}')
        );
    }
}

#[test]
fn a_previous_result_of_another_family_is_refused() {
    let config =
        json!({"cniVersion": "1.0.0", "name": "net", "prevResult": {"cniVersion": "0.4.0"}});
    let outcome = call(
        &Probe::default(),
        &env_with("ADD", &[]),
        &config.to_string(),
    );
    let message = "could not parse prevResult: result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.4.0\"";
    assert_eq!(outcome.error(), (999, message.to_owned(), String::new()));
}

#[test]
fn the_error_object_has_the_form_of_the_original() {
    let fails = Some(CniError::new(ErrorCode(107), "no").with_details("at all"));
    let plugin = Probe {
        fails,
        ..Probe::default()
    };
    let outcome = call(&plugin, &env_with("DEL", &[]), CONFIG);
    assert_eq!(outcome.code, 1);
    assert_eq!(
        outcome.stdout,
        "{\n    \"code\": 107,\n    \"msg\": \"no\",\n    \"details\": \"at all\"\n}"
    );
    let plain = CniError::internal("no");
    assert_eq!(
        serde_json::to_string(&plain).unwrap(),
        r#"{"code":999,"msg":"no"}"#
    );
    assert_eq!(plain.with_details("at all").to_string(), "no; at all");
}

proptest! {
    /// Whatever arrives, there is one answer: nothing printed and 0, or an error object and 1.
    #[test]
    fn any_configuration_gets_an_answer(
        command in "ADD|DEL|CHECK|GC|STATUS|[A-Z]{1,4}",
        stdin in r#"\{"name":"n","cniVersion":"1.1.0"(,"(prevResult|capabilities|runtimeConfig|type|cni.dev/attachments)":[\[\]{}0-9a-z":,.]{0,30})?\}|.{0,60}"#,
    ) {
        let outcome = call(&Probe::default(), &env_with(&command, &[]), &stdin);
        if outcome.code != 0 {
            prop_assert!(!outcome.error().1.is_empty());
        }
    }
}
