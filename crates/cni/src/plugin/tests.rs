//! The skeleton, as a runtime sees it.

mod refusals;

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

/// As `cnitool gc` sends it.
#[test]
fn gc_without_list_succeeds_and_removes_nothing() {
    let outcome = call(&Probe::default(), &env_with("GC", &[]), CONFIG);
    assert_eq!(
        (outcome.code, outcome.asked),
        (0, vec![]),
        "{}",
        outcome.stdout
    );
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

/// A call that containerd 2.1.9 made for a pod with both annotations, word for word.
#[test]
fn what_containerd_sends_is_understood() {
    let recorded = include_str!("tests/containerd-add.json");
    let netns = "/var/run/netns/cni-883c0d83-d9eb-e219-e651-43988fb869f2";
    let args = "K8S_POD_NAME=cli2;K8S_POD_UID=36cee2dc;IgnoreUnknown=1;K8S_POD_NAMESPACE=default";
    let env = env_with("ADD", &[("CNI_NETNS", netns), ("CNI_ARGS", args)]);

    struct Asserts;
    impl Plugin for Asserts {
        fn about(&self) -> String {
            String::new()
        }
        fn add(&self, request: &Request) -> Result<CniResult, CniError> {
            assert_eq!(request.args.get("K8S_POD_NAME"), Some("cli2"));
            assert!(request.args.ignore_unknown());
            assert_eq!(request.attachment.to_string(), "podnet/c1/eth0");
            let config = &request.config;
            assert_eq!(
                (config.kind.as_str(), config.version),
                ("netqos-spy", CniVersion::V1_0_0)
            );
            assert!(config.capabilities["bandwidth"]);
            assert_eq!(config.runtime_config["bandwidth"]["IngressRate"], 8_000_000);
            Ok(config.prev_result()?.unwrap())
        }
        fn del(&self, _: &Request) -> Result<(), CniError> {
            Ok(())
        }
        fn check(&self, _: &Request) -> Result<(), CniError> {
            Ok(())
        }
    }

    let env: BTreeMap<_, _> = env.into_iter().collect();
    let get = |name: &str| env.get(name).map(|value| (*value).to_owned());
    let mut stdout = Vec::new();
    let code = execute(
        &Asserts,
        &get,
        recorded.as_bytes(),
        &mut stdout,
        &mut Vec::new(),
    );
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&stdout));
    let (printed, recorded): (Value, Value) = (
        serde_json::from_slice(&stdout).unwrap(),
        serde_json::from_str(recorded).unwrap(),
    );
    assert_eq!(printed, recorded["prevResult"]);
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
