//! `netqos install-plugin --multinet`: the meta plugin, and the list that calls it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use netqos_testkit::executable;
use serde_json::{Value, json};

use crate::{run, stderr, stdout};

const LIST: &str = "00-netqos.conflist";

/// The directories of a node.
struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["bin", "net.d", "state/pods"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    fn install(&self, more: &[&str]) -> Output {
        let (to, lists, state) = (self.path("bin"), self.path("net.d"), self.path("state"));
        let mut words = vec!["install-plugin", "--multinet", "--to", &to];
        words.extend(["--conf-dir", &lists, "--state-dir", &state]);
        words.extend(more);
        run(&words)
    }

    fn installed(&self) -> String {
        let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
        succeed(&self.install(&["--from", plugin.to_str().unwrap()]))
    }

    fn removed(&self) -> String {
        succeed(&self.install(&["--remove"]))
    }

    /// Writes a list that calls Multus, whose pods are in a directory of the node.
    fn write_multus(&self, kind: &str, more: Value) {
        let delegate = json!({"cniVersion": "1.0.0", "name": "pods", "type": "bridge"});
        let mut plugin = json!({"type": kind, "cniDir": self.path("multus"), "binDir": self.path("bin"),
                                "delegates": [delegate]});
        let more = more.as_object().unwrap().clone();
        plugin.as_object_mut().unwrap().extend(more);
        let list =
            json!({"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": [plugin]});
        self.write("net.d/10-multus.conflist", &list);
    }

    /// Writes the record of a pod on one network, of this plugin.
    fn write_record(&self, plugin: &str) {
        let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": plugin}]});
        let attachment = json!({"driver": "cni", "nad": null, "interface": "eth0", "list": list, "args": [],
                                "capabilityArgs": {}});
        let record = json!({
            "containerId": "c", "netns": "/not/seen/here/n", "attachments": [attachment], "made": 1,
            "pod": {"namespace": "games", "name": "player", "uid": null},
        });
        self.write("state/pods/c.json", &record);
    }

    /// Asserts that `--remove` fails with a text and changes nothing.
    fn assert_refused(&self, text: &str) {
        let output = self.install(&["--remove"]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let error = stderr(&output);
        assert!(error.contains(text), "{error}");
        assert!(error.contains("nothing changed"), "{error}");
        assert!(self.names("net.d").contains(&LIST.to_owned()));
        assert_eq!(self.names("bin"), ["netqos-multinet"]);
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.path().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn write(&self, name: &str, document: &Value) {
        fs::write(self.root.path().join(name), document.to_string()).unwrap();
    }

    fn list(&self) -> Value {
        let text = fs::read(self.root.path().join("net.d").join(LIST)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

fn default_list() -> Value {
    let capabilities = json!({"portMappings": true, "example.org/own": true});
    let bridge = json!({"type": "bridge", "capabilities": capabilities});
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})
}

#[test]
fn list_calls_plugin_and_declares_capabilities_of_default_network() {
    let node = Node::new();
    node.write("net.d/10-pods.conflist", &default_list());
    let said = node.installed();
    assert!(said.contains("the default network is pods"), "{said}");
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    assert_eq!(node.names("net.d"), [LIST, "10-pods.conflist"]);
    let plugin = &node.list()["plugins"][0];
    assert_eq!(plugin["type"], "netqos-multinet");
    let capabilities = [
        "example.org/own",
        "portMappings",
        "io.kubernetes.cri.pod-annotations",
    ];
    for capability in capabilities {
        assert_eq!(plugin["capabilities"][capability], true, "{capability}");
    }
    let before = fs::metadata(node.path("net.d/00-netqos.conflist")).unwrap();
    assert!(node.installed().contains("is there already"));
    let after = fs::metadata(node.path("net.d/00-netqos.conflist")).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());

    let said = node.removed();
    assert!(said.contains("removed"), "{said}");
    assert_eq!(node.names("bin"), [""; 0]);
    assert_eq!(node.names("net.d"), ["10-pods.conflist"]);
}

#[test]
fn keys_of_administrator_stay() {
    let node = Node::new();
    assert!(node.installed().contains("pods wait for a default network"));
    let mut list = node.list();
    list["plugins"][0]["hostPaths"] = json!(["/dev/vfio"]);
    list["plugins"][0]["capabilities"]["portMappings"] = json!(false);
    node.write("net.d/00-netqos.conflist", &list);
    node.installed();
    let plugin = &node.list()["plugins"][0];
    assert_eq!(plugin["hostPaths"], json!(["/dev/vfio"]));
    assert_eq!(plugin["capabilities"]["portMappings"], false);
}

#[test]
fn foreign_list_of_that_name_is_left_alone() {
    let node = Node::new();
    node.write("net.d/00-netqos.conflist", &default_list());
    let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
    let output = node.install(&["--from", plugin.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not netqos's list"));
    assert!(node.removed().contains("is left as it is"));
    assert_eq!(node.list(), default_list());
}

#[test]
fn executable_of_a_list_with_more_plugins_stays() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    let more = json!({"type": "tuning"});
    list["plugins"].as_array_mut().unwrap().push(more);
    node.write("net.d/00-netqos.conflist", &list);
    let output = node.install(&["--remove"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("is not netqos's list"));
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
}

#[test]
fn directory_of_state_that_is_not_seen_keeps_everything() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    list["plugins"][0]["stateDir"] = json!("/not/seen/here");
    node.write("net.d/00-netqos.conflist", &list);
    let output = node.install(&["--remove"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("/not/seen/here"));
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    assert_eq!(node.list(), list);
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
fn list_that_comes_first_is_named_and_fails() {
    let node = Node::new();
    node.write(
        "net.d/00-first.conf",
        &json!({"name": "first", "type": "bridge", "cniVersion": "1.0.0"}),
    );
    let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
    let output = node.install(&["--from", plugin.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("reads list \"first\" first"),
        "{}",
        stderr(&output)
    );
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
    node.assert_refused("it calls netqos-multinet, too");
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
    assert_eq!(output.status.code(), Some(1));
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

/// The agent's pod starts all the same.
#[test]
fn foreign_list_is_tolerated_with_a_warning() {
    let multus = json!({"name": "multus", "type": "multus", "cniVersion": "1.0.0"});
    for (name, expected) in [
        (
            "00-multus.conf",
            "which calls multus, and no pod could start",
        ),
        (LIST, "is not netqos's list"),
        (
            "99-multus.conf",
            "which calls multus, and no pod could start",
        ),
    ] {
        let node = Node::new();
        node.write(&format!("net.d/{name}"), &multus);
        let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
        let from = ["--from", plugin.to_str().unwrap()];
        let refused = node.install(&from);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
        let tolerated = [&from[..], &["--tolerate-foreign-lists"]].concat();
        let said = succeed(&node.install(&tolerated));
        assert!(
            said.contains("warning: ") && said.contains(expected),
            "{said}"
        );
        let is_ours = node.names("net.d").contains(&LIST.to_owned())
            && node.list()["plugins"][0]["type"] == "netqos-multinet";
        assert!(!is_ours, "{name}");
    }
    // Other errors are not tolerated.
    let node = Node::new();
    fs::remove_dir(node.path("net.d")).unwrap();
    let output = node.install(&["--from", "/nowhere", "--tolerate-foreign-lists"]);
    assert_eq!(output.status.code(), Some(1));
}

/// A list with the default network that the administrator named leads to no other meta plugin.
#[test]
fn named_default_network_permits_list_of_another_meta_plugin() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    list["plugins"][0]["defaultNetwork"] = json!("/etc/netqos/pods.conflist");
    node.write("net.d/00-netqos.conflist", &list);
    let multus = json!({"name": "multus", "type": "multus", "cniVersion": "1.0.0"});
    node.write("net.d/99-multus.conf", &multus);
    node.installed();
}

#[test]
fn list_names_its_directory_to_the_plugin_and_a_named_one_stays() {
    let node = Node::new();
    node.installed();
    let mut list = node.list();
    assert_eq!(list["plugins"][0]["confDir"], json!(node.path("net.d")));
    list["plugins"][0]["confDir"] = json!("/elsewhere");
    node.write("net.d/00-netqos.conflist", &list);
    node.installed();
    assert_eq!(node.list()["plugins"][0]["confDir"], "/elsewhere");
}

/// As in a container that sees the directory alone.
#[test]
fn link_of_that_name_to_a_file_that_is_not_seen_is_left_alone() {
    let node = Node::new();
    let link = node.path("net.d/00-netqos.conflist");
    std::os::unix::fs::symlink("/not/seen/here.conflist", &link).unwrap();
    let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
    let output = node.install(&["--from", plugin.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not netqos's list"));
    assert!(node.removed().contains("is left as it is"));
    assert!(Path::new(&link).is_symlink());
}

/// The init container `install-multinet` has these two capabilities only.
#[test]
fn install_over_directories_of_another_user_needs_two_capabilities() {
    const OTHER: u32 = 1001;
    let node = Node::new();
    let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
    for name in ["bin", "net.d"] {
        std::os::unix::fs::chown(node.path(name), Some(OTHER), Some(OTHER)).unwrap();
    }
    let install = |capabilities: &str| {
        Command::new("setpriv")
            .arg(format!("--bounding-set=-all{capabilities}"))
            .args(["--inh-caps=-all", env!("CARGO_BIN_EXE_netqos")])
            .args(["install-plugin", "--multinet", "--from"])
            .arg(&plugin)
            .args(["--to", &node.path("bin"), "--conf-dir", &node.path("net.d")])
            .output()
            .unwrap()
    };
    assert_eq!(install("").status.code(), Some(1));
    assert_eq!(node.names("net.d"), [""; 0]);
    succeed(&install(",+dac_override,+fowner"));
    assert_eq!(node.names("bin"), ["netqos-multinet"]);
    assert_eq!(node.names("net.d"), [LIST]);
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
    let Some(_node) = netqos_testkit::Node::new().unwrap() else {
        return;
    };
    let (state, records) = ("/run/state", "/run/state/multinet/pods");
    fs::create_dir_all(records).unwrap();
    let pod = json!({"namespace": "games", "name": "player", "uid": null});
    let record = json!({"containerId": "c", "netns": "/run/netns/n", "attachments": [], "made": 0, "pod": pod});
    fs::write(format!("{records}/c.json"), record.to_string()).unwrap();
    let cleanup = || run(&["cleanup", "--yes", "--state-dir", state]);
    let output = cleanup();
    let said = succeed(&output);
    assert!(said.contains("nothing else of netqos is left"), "{said}");
    let error = stderr(&output);
    assert!(
        error.contains("attachments by netqos-multinet: games/player"),
        "{error}"
    );
    assert!(
        error.contains("install-plugin --multinet --remove"),
        "{error}"
    );
    fs::remove_file(format!("{records}/c.json")).unwrap();
    let output = cleanup();
    assert!(stdout(&output).contains("nothing of netqos is left"));
    assert_eq!(stderr(&output), "");
}
