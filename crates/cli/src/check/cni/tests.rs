//! Lists of runtimes, and the findings about them.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::check::line::State;

fn list(name: &str, plugins: Value) -> String {
    json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}).to_string()
}

fn directory(files: &[(&str, String)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// A runtime that has attached no pod.
fn unknown() -> AnnotationSource {
    AnnotationSource {
        cni_cache: "/nowhere".into(),
        pod_files: "/nowhere".into(),
    }
}

/// The state and the words of each check.
fn checks(files: &[(&str, String)]) -> Vec<(State, String)> {
    let directory = directory(files);
    let report = CniReport::read(directory.path(), &unknown()).unwrap();
    // These have tests of their own.
    let checks = report
        .checks
        .into_iter()
        .filter(|it| !it.message.contains("is not known") && !it.message.contains("is not called"));
    checks
        .map(|line| (line.state, format!("{} → {}", line.message, line.remedy)))
        .collect()
}

fn assert_one(files: &[(&str, String)], state: State, words: &[&str]) {
    let checks = checks(files);
    let [(found, text)] = &checks[..] else {
        panic!("{checks:?}")
    };
    assert_eq!(*found, state, "{text}");
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// The list that KEP-2819 and the kubelet's design print.
#[test]
fn traffic_shaping_of_the_kep_gets_no_limit() {
    let plugins = json!([
        {"type": "calico"},
        {"type": "bandwidth", "capabilities": {"trafficShaping": true}},
    ]);
    let files = [("10-calico.conflist", list("k8s-pod-network", plugins))];
    let words = [
        "declares trafficShaping",
        "containerd and CRI-O pass nothing",
        "add \"capabilities\": {\"bandwidth\": true}",
    ];
    assert_one(&files, State::Warning, &words);
}

#[test]
fn limits_reach_a_plugin_that_declares_bandwidth() {
    let declaring = json!([{"type": "bandwidth", "capabilities": {"bandwidth": true}}]);
    let files = [("10-net.conflist", list("net", declaring))];
    assert_one(&files, State::Ok, &["to bandwidth of list net"]);
    for (keys, named) in [
        (json!({"ingressRate": 0}), "has ingressRate in its"),
        (
            json!({"EgressBurst": null, "egressRate": 8000}),
            "remove EgressBurst, egressRate; write no more than",
        ),
    ] {
        let mut plugin = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
        plugin
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let files = [("10-net.conflist", list("net", json!([plugin])))];
        assert_one(
            &files,
            State::Warning,
            &[named, "hide the limits that the runtime passes"],
        );
    }
    for capabilities in [json!({}), json!({"bandwidth": false})] {
        let plugins = json!([{"type": "bandwidth", "capabilities": capabilities}]);
        let files = [("10-net.conflist", list("net", plugins))];
        let words = ["does not declare the capability bandwidth"];
        assert_one(&files, State::Warning, &words);
    }
    let files = [("10-net.conflist", list("net", json!([{"type": "ptp"}])))];
    assert_one(&files, State::Warning, &["only an agent limits pods"]);
}

#[test]
fn broken_file_before_the_list_fails() {
    let files = [
        ("05-broken.conflist", "{".to_owned()),
        ("10-net.conflist", list("net", json!([{"type": "ptp"}]))),
    ];
    assert_one(&files, State::Failed, &["05-broken.conflist"]);
    // The runtime does not read it.
    let files = [
        ("10-net.conflist", default_network()),
        ("99-broken.conflist", "{".to_owned()),
    ];
    assert_one(&files, State::Ok, &[]);
}

fn multinet(capabilities: Value) -> String {
    let plugin = json!({"type": "netqos-multinet", "capabilities": capabilities});
    list("netqos-multinet", json!([plugin]))
}

fn default_network() -> String {
    let declared = json!({"bandwidth": true, "portMappings": true});
    list(
        "net",
        json!([{"type": "bandwidth", "capabilities": declared}]),
    )
}

#[test]
fn list_that_comes_before_multinets_is_what_the_runtime_calls() {
    let all = json!({"bandwidth": true, "portMappings": true, ANNOTATIONS: true});
    let files = [
        ("00-netqos.conflist", multinet(all.clone())),
        ("10-net.conflist", default_network()),
    ];
    let found = checks(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(state, _)| *state == State::Ok));
    assert!(found[0].1.contains("the default network is net"));

    let files = [
        ("00-netqos.conflist", multinet(all)),
        ("00-first.conflist", default_network()),
    ];
    let found = checks(&files);
    assert_eq!(found[0].0, State::Failed, "{found:?}");
    assert!(
        found[0]
            .1
            .contains("00-first.conflist a name that comes after")
    );
}

#[test]
fn default_network_before_installation_is_the_first_list_without_a_meta_plugin() {
    let would_be = |files: &[(&str, String)]| {
        let directory = directory(files);
        let report = CniReport::read(directory.path(), &unknown()).unwrap();
        let messages = report.checks.into_iter().map(|it| it.message);
        messages
            .filter(|it| it.contains("is not called; its default network would be"))
            .collect::<Vec<String>>()
    };
    let net = || ("10-net.conflist", default_network());
    let [found] = &would_be(&[net()])[..] else {
        panic!("no line")
    };
    assert!(found.contains("would be net of"), "{found}");
    let of_multus = list("multus", json!([{"type": "multus"}]));
    assert!(would_be(&[("00-multus.conflist", of_multus), net()]).is_empty());
    assert!(would_be(&[("00-netqos.conflist", multinet(json!({}))), net()]).is_empty());
}

#[test]
fn default_network_is_the_one_that_the_plugin_takes() {
    let all = json!({"bandwidth": true, "portMappings": true, ANNOTATIONS: true});
    let with = |more: Value| {
        let mut plugin = json!({"type": "netqos-multinet", "capabilities": all});
        let more = more.as_object().unwrap().clone();
        plugin.as_object_mut().unwrap().extend(more);
        list("netqos-multinet", json!([plugin]))
    };
    let elsewhere = directory(&[("20-net.conflist", default_network())]);
    let file = elsewhere.path().join("20-net.conflist");
    let inline: Value = serde_json::from_str(&default_network()).unwrap();
    for key in [
        json!({"defaultNetwork": file}),
        json!({"defaultNetwork": inline}),
        json!({"confDir": elsewhere.path()}),
    ] {
        let found = checks(&[("00-netqos.conflist", with(key.clone()))]);
        assert_eq!(found[0].0, State::Ok, "{key}: {found:?}");
    }
    let of_multus = list("multus", json!([{"type": "multus"}]));
    let files = [
        ("00-netqos.conflist", with(json!({}))),
        ("10-multus.conflist", of_multus),
        ("20-net.conflist", default_network()),
    ];
    assert_one(&files, State::Failed, &["calls multus", "defaultNetwork"]);
}

#[test]
fn capability_that_multinets_list_lacks_is_named() {
    let files = [
        ("00-netqos.conflist", multinet(json!({"bandwidth": true}))),
        ("10-net.conflist", default_network()),
    ];
    let found = checks(&files);
    assert_eq!(found[0].0, State::Warning, "{found:?}");
    for word in [
        "portMappings",
        ANNOTATIONS,
        "--multinet --to PLUGIN_DIRECTORY --conf-dir",
    ] {
        assert!(found[0].1.contains(word), "{word}: {found:?}");
    }
    // A new list keeps what an administrator has written.
    for (written, words) in [
        (
            json!({ANNOTATIONS: true, "bandwidth": false, "portMappings": true}),
            "write true for bandwidth in",
        ),
        (
            json!({"bandwidth": false}),
            "again, and write true for bandwidth in",
        ),
    ] {
        let files = [
            ("00-netqos.conflist", multinet(written)),
            ("10-net.conflist", default_network()),
        ];
        let found = checks(&files);
        assert_eq!(found[0].0, State::Warning, "{found:?}");
        assert!(found[0].1.contains(words), "{words}: {found:?}");
    }
    let files = [("00-netqos.conflist", multinet(json!({})))];
    assert_one(&files, State::Failed, &["no default network"]);
}

#[test]
fn directory_without_configuration_has_no_report() {
    let directory = directory(&[]);
    assert!(CniReport::read(directory.path(), &unknown()).is_none());
    assert!(CniReport::read(&directory.path().join("none"), &unknown()).is_none());
}

/// An administrator tries the plugin while Multus stays the list that the runtime calls.
#[test]
fn list_of_another_name_behind_multus_is_beside_it() {
    let of_multus = |more: Value| {
        let mut plugin = json!({"type": "multus"});
        let more = more.as_object().unwrap().clone();
        plugin.as_object_mut().unwrap().extend(more);
        list("multus", json!([plugin]))
    };
    let elsewhere = directory(&[("10-net.conflist", default_network())]);
    let file = elsewhere.path().join("10-net.conflist");
    let own = |more: Value| {
        let capabilities = json!({ANNOTATIONS: true, "bandwidth": true, "portMappings": true});
        let mut plugin = json!({"type": "netqos-multinet", "capabilities": capabilities});
        let more = more.as_object().unwrap().clone();
        plugin.as_object_mut().unwrap().extend(more);
        list("netqos-multinet", json!([plugin]))
    };
    let named = json!({"defaultNetwork": file});
    let beside = |multus: Value, own: String| {
        let files = [
            ("00-multus.conf.conflist", of_multus(multus)),
            ("99-netqos.conflist", own),
        ];
        let mut found = checks(&files);
        found.remove(0)
    };
    let (state, text) = beside(json!({}), own(named.clone()));
    assert_eq!(state, State::Ok, "{text}");
    for words in ["99-netqos.conflist is beside it", "of these is net of"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let bare = json!({"defaultNetwork": file, "capabilities": {ANNOTATIONS: true}});
    let (state, text) = beside(json!({}), own(bare));
    assert_eq!(state, State::Warning, "{text}");
    for words in [
        "not bandwidth, portMappings",
        "--list-name 99-netqos.conflist again",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for (multus, own, words) in [
        (json!({}), own(json!({})), "calls multus"),
        (
            json!({"clusterNetwork": "netqos-multinet"}),
            own(named),
            "attached to their networks twice",
        ),
    ] {
        let (state, text) = beside(multus, own);
        assert_eq!(state, State::Failed, "{text}");
        assert!(text.contains(words), "{text}");
    }
}
