//! Lists, from texts and from folders.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use crate::CniVersion;
use crate::runtime::{NetworkConfigList, PluginConfig};

const LIST: &str = "error parsing configuration list: ";

#[test]
fn what_is_no_list_is_said_in_the_words_of_libcni() {
    for (text, message) in [
        ("", "unexpected end of JSON input"),
        (r#"{"plugins": []}"#, "no name"),
        (r#"{"name": 1}"#, "invalid name type number"),
        (r#"{"name": "n", "plugins": []}"#, "no plugins in list"),
        (
            r#"{"name": "n", "plugins": {}}"#,
            "invalid 'plugins' type object",
        ),
        (
            r#"{"name": "n", "cniVersion": 1}"#,
            "invalid cniVersion type number",
        ),
        (
            r#"{"name": "n", "loadOnlyInlinedPlugins": true}"#,
            "`loadOnlyInlinedPlugins` is true, and no 'plugins' key",
        ),
        (
            r#"{"name": "n", "disableCheck": "perhaps"}"#,
            "invalid value \"perhaps\" for disableCheck",
        ),
        (
            r#"{"name": "n", "disableGC": 1}"#,
            "invalid type number for disableGC",
        ),
        (
            r#"{"name": "n", "cniVersions": "1.0.0"}"#,
            "invalid type for cniVersions: string",
        ),
        (
            r#"{"name": "n", "cniVersions": [1]}"#,
            "invalid type for cniVersions index 0: number",
        ),
        (
            r#"{"name": "n", "cniVersions": ["1.0.0", "1.0.0.0"]}"#,
            "invalid cniVersions entry 1.0.0.0 at index 1: invalid version \"1.0.0.0\": too many parts",
        ),
    ] {
        let error = NetworkConfigList::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("{LIST}{message}"), "{text}");
    }
    for (plugin, message) in [
        (r#"{}"#, "missing 'type'"),
        (
            r#"{"type": 1}"#,
            "cannot unmarshal number into type of type string",
        ),
        (r#"[]"#, "cannot unmarshal array"),
        (
            r#"{"type": "a", "capabilities": {"b": 1}}"#,
            "cannot unmarshal number into capabilities.b of type bool",
        ),
    ] {
        let error = PluginConfig::parse(plugin.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("error parsing configuration: {message}")
        );
        let list = format!(r#"{{"name": "n", "plugins": [{{"type": "a"}}, {plugin}]}}"#);
        let error = NetworkConfigList::parse(list.as_bytes()).unwrap_err();
        let message =
            format!("failed to parse plugin config 1: error parsing configuration: {message}");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn the_highest_version_that_is_spoken_wins() {
    for (single, several, chosen) in [
        (None, None, "0.3.1"),
        (Some(""), None, "0.3.1"),
        (Some("0.2.0"), Some(vec!["0.1.0"]), "0.3.1"),
        (Some("0.3.0"), None, "0.3.0"),
        (Some("0.4.0"), None, "0.4.0"),
        // Without a choice it is the plugins that say no.
        (Some("9.0.0"), None, "9.0.0"),
        (Some("0.4.0"), Some(vec!["1.0.0", "0.3.1"]), "1.0.0"),
        (Some("1.0.0"), Some(vec!["0.4.0"]), "1.0.0"),
        (Some("1.1.0"), Some(vec!["1.2.0", "0.4.0"]), "1.1.0"),
        (None, Some(vec!["1.2.0", "1.1.0", "1.0.0"]), "1.1.0"),
        (Some("1.2.0"), Some(vec!["1.3.0"]), "1.2.0"),
    ] {
        let mut text = json!({"name": "n", "plugins": [{"type": "a"}]});
        if let Some(single) = single {
            text["cniVersion"] = json!(single);
        }
        if let Some(several) = several {
            text["cniVersions"] = json!(several);
        }
        let list = NetworkConfigList::parse(text.to_string().as_bytes()).unwrap();
        assert_eq!(list.version.to_string(), chosen, "{text}");
    }
}

#[test]
fn switches_may_be_texts() {
    let text = r#"{"name": "n", "disableCheck": "TRUE", "disableGC": true,
                   "loadOnlyInlinedPlugins": "false", "plugins": [{"type": "a"}]}"#;
    let list = NetworkConfigList::parse(text.as_bytes()).unwrap();
    assert!(list.disable_check && list.disable_gc && !list.load_only_inlined_plugins);
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn kinds(list: &NetworkConfigList) -> Vec<&str> {
    list.plugins
        .iter()
        .map(|plugin| plugin.kind.as_str())
        .collect()
}

#[test]
fn a_folder_is_read_by_name_lists_before_single_plugins() {
    let dir = folder(&[
        (
            "20-b.conflist",
            r#"{"name": "b", "plugins": [{"type": "second"}]}"#,
        ),
        (
            "10-a.conflist",
            r#"{"name": "a", "plugins": [{"type": "first"}]}"#,
        ),
        (
            "05-b.conf",
            r#"{"name": "b", "type": "single", "cniVersion": "0.3.1"}"#,
        ),
        (
            "06-c.json",
            r#"{"name": "c", "type": "single", "cniVersion": "0.3.1", "mtu": 9000}"#,
        ),
        ("README", "not a configuration"),
    ]);
    let load = |name: &str| NetworkConfigList::load(dir.path(), name);
    assert_eq!(kinds(&load("b").unwrap()), ["second"]);

    let single = load("c").unwrap();
    assert_eq!(
        (kinds(&single), single.version),
        (vec!["single"], CniVersion::V0_3_1)
    );
    assert_eq!(single.plugins[0].raw["mtu"], 9000);
    // What is cached must be a list.
    assert_eq!(NetworkConfigList::parse(&single.text).unwrap(), single);

    let default = NetworkConfigList::load_default(dir.path()).unwrap();
    assert_eq!(default.name, "b");
    assert_eq!(kinds(&default), ["single"]);

    let missing = load("moo").unwrap_err().to_string();
    let place = dir.path().display();
    assert_eq!(
        missing,
        format!("no net configuration with name \"moo\" in {place}")
    );
}

#[test]
fn an_empty_or_missing_folder_has_no_network() {
    let dir = folder(&[("README", "")]);
    for path in [dir.path(), Path::new("/nonexistent/net.d")] {
        let message = format!("no net configurations found in {}", path.display());
        for error in [
            NetworkConfigList::load(path, "a").unwrap_err(),
            NetworkConfigList::load_default(path).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}

#[test]
fn a_broken_file_is_named() {
    let dir = folder(&[("10-a.conflist", r#"{"name": "a", "plugins": []}"#)]);
    let error = NetworkConfigList::load(dir.path(), "b")
        .unwrap_err()
        .to_string();
    let path = dir.path().join("10-a.conflist");
    assert_eq!(
        error,
        format!("{}: {LIST}no plugins in list", path.display())
    );

    let missing = dir.path().join("none.conflist");
    let error = NetworkConfigList::from_file(&missing)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("error reading {}: ", missing.display())),
        "{error}"
    );
}

#[test]
fn plugins_dropped_into_the_folder_of_the_network_follow_those_of_the_list() {
    let drop_ins = [
        ("net/20-z.conf", r#"{"type": "last"}"#),
        ("net/10-y.conf", r#"{"type": "then"}"#),
        ("net/05-x.conflist", r#"{"type": "no"}"#),
    ];
    for (list, expected) in [
        (
            r#"{"name": "net", "plugins": [{"type": "first"}]}"#,
            Ok(vec!["first", "then", "last"]),
        ),
        (r#"{"name": "net"}"#, Ok(vec!["then", "last"])),
        (
            r#"{"name": "net", "loadOnlyInlinedPlugins": true, "plugins": [{"type": "first"}]}"#,
            Ok(vec!["first"]),
        ),
        (r#"{"name": "other"}"#, Err("no plugin configs found")),
        (
            r#"{"name": "../x"}"#,
            Err("invalid characters found in network name; ../x"),
        ),
    ] {
        let dir = folder(&[&drop_ins[..], &[("a.conflist", list)]].concat());
        let path = dir.path().join("a.conflist");
        match (NetworkConfigList::from_file(&path), expected) {
            (Ok(list), Ok(expected)) => assert_eq!(kinds(&list), expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
            }
            (found, expected) => panic!("{list}: {found:?}, expected {expected:?}"),
        }
    }

    let dir = folder(&[("a.conflist", r#"{"name": "net"}"#), ("net/b.conf", "{}")]);
    let error = NetworkConfigList::load_default(dir.path())
        .unwrap_err()
        .to_string();
    let path = dir.path().join("net/b.conf");
    assert_eq!(
        error,
        format!(
            "{}: error parsing configuration: missing 'type'",
            path.display()
        )
    );
}

proptest! {
    #[test]
    fn parsing_never_panics(
        text in r#"\{"name":"n"(,"(plugins|cniVersions?|disableGC)":[\[\]{}0-9a-z":,.]{0,30})?\}|.{0,60}"#,
    ) {
        let _ = NetworkConfigList::parse(text.as_bytes());
        let _ = NetworkConfigList::parse_single(text.as_bytes());
    }
}
