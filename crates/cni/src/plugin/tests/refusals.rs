//! What the skeleton refuses, with the codes and texts of the original.

use super::{CONFIG, Probe, call, env_with};

/// A command, changes of the environment, standard input; and the error: code, message, details.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    String,
    (u32, String, String),
);

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
                6,
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
