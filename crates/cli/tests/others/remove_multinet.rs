//! `netqos install-plugin --multinet --remove`: the list goes first, and pods with attachments keep what releases them.

use std::fs;
use std::path::Path;

use netqos_datapath::FileLock;
use netqos_testkit::executable;
use serde_json::json;

use crate::install_multinet::Node;
use crate::{assert_code, node, run, stderr, stdout, succeed};

#[test]
fn executable_of_a_list_with_more_plugins_stays() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    let more = json!({"type": "tuning"});
    list["plugins"].as_array_mut().unwrap().push(more);
    node.write("net.d/00-netqos.conflist", &list);
    let output = node.install(&["--remove"]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("is not netqos's list"));
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
}

/// The runtime called the plugin just before its list went.
#[test]
fn executable_stays_while_an_add_without_a_record_runs() {
    let node = Node::new();
    node.installed();
    let path = node.path("state/pods/starting.lock");
    let lock = FileLock::attempt(Path::new(&path)).unwrap();
    let said = node.removed();
    assert!(
        said.contains("stays until these pods are gone: container starting"),
        "{said}"
    );
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    drop(lock);
    node.removed();
    assert_eq!(node.names("bin"), [""; 0]);
    assert_eq!(node.names("state/pods"), [""; 0]);
}

/// Their DEL would fail without it.
#[test]
fn bandwidth_stays_while_attachments_need_it_and_no_other_takes_its_place() {
    let node = Node::new();
    node.write_record("bandwidth");
    let (to, state) = (node.path("bin"), node.path("state"));
    let plugin = executable("netqos-plugins", "bandwidth").unwrap();
    let run = |more: &[&str]| {
        let words = ["install-plugin", "--to", &to, "--state-dir", &state];
        succeed(&run(&[&words[..], more].concat()))
    };
    let from = ["--from", plugin.to_str().unwrap()];
    run(&from);
    let said = run(&["--remove"]);
    assert!(
        said.contains("stays until these pods are gone: games/player"),
        "{said}"
    );
    assert_eq!(node.names("bin"), ["bandwidth"]);
    fs::write(node.path("bin/bandwidth"), "of another project").unwrap();
    run(&from);
    run(&["--remove"]);
    let restored = fs::read_to_string(node.path("bin/bandwidth")).unwrap();
    assert_eq!(restored, "of another project");
    fs::remove_file(node.path("bin/bandwidth")).unwrap();
    run(&from);
    fs::remove_file(node.path("state/pods/c.json")).unwrap();
    run(&["--remove"]);
    assert_eq!(node.names("bin"), [""; 0]);
}

#[test]
fn directory_of_state_that_is_not_seen_keeps_everything() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    list["plugins"][0]["stateDir"] = json!("/not/seen/here");
    node.write("net.d/00-netqos.conflist", &list);
    let output = node.install(&["--remove"]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("/not/seen/here"));
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    assert_eq!(node.list(), list);
}

/// The key `stateDir` of the list, or of the list that is removed.
#[test]
fn bandwidth_stays_while_attachments_in_the_directory_of_a_list_need_it() {
    let node = Node::new();
    succeed(&node.install_beside("99-netqos.conflist"));
    let list = "net.d/99-netqos.conflist";
    let text = fs::read(node.path(list)).unwrap();
    let mut with_key: serde_json::Value = serde_json::from_slice(&text).unwrap();
    with_key["plugins"][0]["stateDir"] = json!(node.path("elsewhere"));
    node.write(list, &with_key);
    let (to, state, lists) = (node.path("bin"), node.path("state"), node.path("net.d"));
    let plugin = executable("netqos-plugins", "bandwidth").unwrap();
    let words = ["install-plugin", "--to", &to, "--state-dir", &state];
    let from = ["--from", plugin.to_str().unwrap()];
    succeed(&run(&[&words[..], &from].concat()));
    let remove = || run(&[&words[..], &["--remove", "--conf-dir", &lists]].concat());
    let output = remove();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("cannot see"), "{output:?}");
    node.write_record_in("elsewhere", "bandwidth");
    let assert_stays = || {
        let said = succeed(&remove());
        assert!(
            said.contains("until these pods are gone: games/player"),
            "{said}"
        );
        assert!(node.names("bin").contains(&"bandwidth".to_owned()));
    };
    assert_stays();
    let said = succeed(&node.install(&["--remove", "--list-name", "99-netqos.conflist"]));
    assert!(said.contains("games/player"), "{said}");
    assert!(!Path::new(&node.path(list)).exists());
    assert_stays();
    fs::remove_file(node.path("elsewhere/pods/c.json")).unwrap();
    succeed(&remove());
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
}

/// Without its name the executable would go that the list calls.
#[test]
fn list_of_another_name_is_removed_by_that_name_and_multus_stays() {
    let node = Node::new();
    fs::create_dir_all(node.path("multus")).unwrap();
    node.write_multus("multus", json!({}));
    succeed(&node.install_beside("99-netqos.conflist"));
    let output = node.install(&["--remove"]);
    assert_code(&output, 1);
    let error = stderr(&output);
    for words in ["99-netqos.conflist calls", "--list-name", "nothing changed"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    let unfinished = node.path("net.d/.99-netqos.conflist.netqos-new");
    fs::write(unfinished, "of a killed one").unwrap();
    succeed(&node.install(&["--remove", "--list-name", "99-netqos.conflist"]));
    assert_eq!(
        node.names("net.d"),
        ["10-multus.conflist", "50-pods.conflist"]
    );
    assert_eq!(node.names("bin"), [""; 0]);
    // It is the first of its directory, as that of a runtime handler.
    fs::remove_file(node.path("net.d/10-multus.conflist")).unwrap();
    succeed(&node.install_beside("10-netqos.conflist"));
    succeed(&node.install(&["--remove", "--list-name", "10-netqos.conflist"]));
    assert_eq!(node.names("net.d"), ["50-pods.conflist"]);
    assert_eq!(node.names("bin"), [""; 0]);
}

/// The other pod's namespace may be one that this container does not see.
#[test]
fn executable_stays_while_pod_has_attachments_and_gone_pod_is_released() {
    let node = Node::new();
    node.installed();
    let record = |id: &str, name: &str, netns: &str| {
        json!({
            "containerId": id, "netns": netns, "attachments": [], "made": 0,
            "pod": {"namespace": "games", "name": name, "uid": null},
        })
    };
    let gone = node.path("state/no-namespace");
    node.write("state/pods/gone.json", &record("gone", "away", &gone));
    let alive = record("alive", "player", "/not/seen/here/cni-1");
    node.write("state/pods/alive.json", &alive);
    let said = node.removed();
    assert!(
        said.contains("stays until these pods are gone: games/player"),
        "{said}"
    );
    assert!(!said.contains("away"), "{said}");
    assert_eq!(node.names("net.d"), [""; 0]);
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    let records = node.names("state/pods");
    assert!(records.contains(&"alive.json".to_owned()), "{records:?}");
    assert!(!records.contains(&"gone.json".to_owned()), "{records:?}");

    fs::remove_file(Path::new(&node.path("state/pods/alive.json"))).unwrap();
    node.removed();
    assert_eq!(node.names("bin"), [""; 0]);
}

#[test]
fn removal_is_refused_where_multus_leads_back() {
    let node = Node::new();
    fs::create_dir_all(node.path("multus")).unwrap();
    fs::create_dir_all(node.path("other.d")).unwrap();
    node.installed();
    node.write_record("netqos-multinet");
    let own =
        json!({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "netqos-multinet"}]});
    node.write("other.d/10-other.conflist", &own);
    let single = json!({"type": "netqos-multinet", "name": "x"});
    for (keys, text) in [
        (
            json!({"clusterNetwork": node.path("net.d/00-netqos.conflist")}),
            "its network",
        ),
        (
            json!({"clusterNetwork": "/host/etc/cni/net.d/00-netqos.conflist"}),
            "its network",
        ),
        (
            json!({"clusterNetwork": node.path("other.d/10-other.conflist")}),
            "its network",
        ),
        (
            json!({"clusterNetwork": node.path("other.d")}),
            "its network",
        ),
        (json!({"clusterNetwork": "netqos-multinet"}), "its network"),
        (
            json!({"clusterNetwork": "other", "confDir": node.path("other.d")}),
            "its network",
        ),
        (
            json!({"clusterNetwork": "a", "defaultNetworks": ["netqos-multinet"]}),
            "its network",
        ),
        (
            json!({"delegates": [own]}),
            "its delegates call netqos-multinet",
        ),
        (
            json!({"delegates": [{"type": "bridge", "name": "x"}, single]}),
            "its delegates call",
        ),
    ] {
        for kind in ["multus", "multus-shim"] {
            node.write_multus(kind, keys.clone());
            node.assert_refused(text);
            node.assert_refused("name the list of the default network there");
        }
    }
    assert_eq!(node.names("state/pods"), ["c.json"]);
    // The directory from which the list goes.
    node.write_multus("multus", json!({"clusterNetwork": node.path("net.d")}));
    fs::remove_file(node.path("state/pods/c.json")).unwrap();
    node.removed();
    assert_eq!(node.names("bin"), [""; 0]);
}

#[test]
fn removal_is_refused_where_the_next_list_is_broken_or_calls_the_plugin() {
    let node = Node::new();
    node.installed();
    fs::write(node.path("net.d/10-pods.conflist"), "{\"name\":").unwrap();
    node.assert_refused("10-pods.conflist");
    node.assert_refused("fix or remove that file");
    let own =
        json!({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "netqos-multinet"}]});
    node.write("net.d/10-pods.conflist", &own);
    node.assert_refused("10-pods.conflist calls netqos-multinet already");
}

/// As in a container without those mounts.
#[test]
fn removal_is_refused_where_a_directory_is_not_seen() {
    let node = Node::new();
    node.installed();
    node.write_multus("multus", json!({}));
    node.assert_refused("the directory of the pods of Multus");
    fs::create_dir_all(node.path("multus")).unwrap();
    let mut list = node.list();
    list["plugins"][0]["stateDir"] = json!(node.path("netqos/multinet"));
    node.write("net.d/00-netqos.conflist", &list);
    node.assert_refused("the directory of the pods of netqos-multinet");
    node.assert_refused("mount that directory");
    // Its parent is in each container.
    fs::create_dir_all(node.path("netqos")).unwrap();
    node.assert_refused("the directory of the pods of netqos-multinet");
    fs::create_dir_all(node.path("netqos/multinet")).unwrap();
    node.removed();
}

/// Its daemon does not look into the runtime's directory, and may have another one for pods.
#[test]
fn pod_is_handed_over_to_thick_multus_if_that_finds_its_plugins() {
    let node = Node::new();
    node.installed();
    for directory in ["daemon", "multus-bin"] {
        fs::create_dir_all(node.path(directory)).unwrap();
    }
    node.write_multus("multus-shim", json!({"binDir": node.path("multus-bin")}));
    node.write_record("ours");
    fs::write(node.path("bin/ours"), "").unwrap();
    let daemon = node.path("daemon");
    let remove = ["--remove", "--multus-dir", &daemon];
    let output = node.install(&remove);
    assert_code(&output, 1);
    let error = stderr(&output);
    assert!(
        error.contains("games/player (Multus does not find plugin ours"),
        "{error}"
    );
    assert!(error.contains("run this again on the node"), "{error}");
    assert_eq!(node.names("net.d"), ["10-multus.conflist"]);
    assert!(node.names("state/pods").contains(&"c.json".to_owned()));
    fs::write(node.path("multus-bin/ours"), "").unwrap();
    let said = succeed(&node.install(&remove));
    assert!(said.contains("1 pods are handed over to Multus"), "{said}");
    assert_eq!(node.names("daemon"), ["c"]);
    assert_eq!(node.names("state/pods"), [""; 0]);
    assert_eq!(node.names("bin"), ["ours"]);
}

/// Records are where the removed list says, and so are the plugins.
#[test]
fn keys_of_removed_list_are_used_until_the_last_pod_is_gone() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    list["plugins"][0]["stateDir"] = json!(node.path("elsewhere"));
    node.write("net.d/00-netqos.conflist", &list);
    fs::create_dir_all(node.path("elsewhere/pods")).unwrap();
    let pod = json!({"namespace": "games", "name": "player", "uid": null});
    let record = json!({"containerId": "c", "netns": "/not/seen/here/n", "attachments": [], "made": 0, "pod": pod});
    node.write("elsewhere/pods/c.json", &record);
    for _ in 0..2 {
        assert!(node.removed().contains("games/player"));
        assert_eq!(node.names("bin"), ["netqos-multinet"]);
    }
    fs::remove_file(node.path("elsewhere/pods/c.json")).unwrap();
    node.removed();
    assert_eq!(node.names("bin"), [""; 0]);
    assert_eq!(node.names("state"), ["pods"]);
}

/// They are released by their plugin, which is not the agent's.
#[test]
fn cleanup_names_pods_with_attachments() {
    let Some(_node) = node() else { return };
    let (state, records) = ("/run/state", "/run/state/multinet/pods");
    fs::create_dir_all(records).unwrap();
    let pod = json!({"namespace": "games", "name": "player", "uid": null});
    let record = json!({"containerId": "c", "netns": "/run/netns/n", "attachments": [], "made": 0, "pod": pod});
    fs::write(format!("{records}/c.json"), record.to_string()).unwrap();
    // Of another list, and another directory.
    fs::create_dir_all("/run/net.d").unwrap();
    fs::create_dir_all("/run/elsewhere/pods").unwrap();
    let plugin = json!({"type": "netqos-multinet", "stateDir": "/run/elsewhere"});
    let list = json!({"cniVersion": "1.0.0", "name": "netqos-multinet", "plugins": [plugin]});
    fs::write("/run/net.d/99-netqos.conflist", list.to_string()).unwrap();
    let other = record.to_string().replace("player", "guest");
    fs::write("/run/elsewhere/pods/c.json", other).unwrap();
    fs::create_dir_all("/run/state/multinet/results").unwrap();
    let words = ["cleanup", "--yes", "--conf-dir", "/run/net.d"];
    let cleanup = || run(&[&words[..], &["--state-dir", state]].concat());
    let output = cleanup();
    let said = succeed(&output);
    assert!(said.contains("nothing else of netqos is left"), "{said}");
    let error = stderr(&output);
    assert!(
        error.contains("attachments by netqos-multinet: games/guest, games/player;"),
        "{error}"
    );
    assert!(
        error.contains("install-plugin --multinet --remove"),
        "{error}"
    );
    assert!(Path::new(&format!("{records}/c.json")).exists());
    assert!(!Path::new("/run/state/multinet/results").exists());
    fs::remove_file(format!("{records}/c.json")).unwrap();
    fs::remove_file("/run/elsewhere/pods/c.json").unwrap();
    let output = cleanup();
    assert!(!Path::new(state).exists(), "empty directories");
    assert!(stdout(&output).contains("nothing of netqos is left"));
    assert_eq!(stderr(&output), "");
}
