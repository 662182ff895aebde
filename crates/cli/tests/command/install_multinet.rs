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
        "net.d/00-multus.conf",
        &json!({"name": "multus", "type": "multus", "cniVersion": "1.0.0"}),
    );
    let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
    let output = node.install(&["--from", plugin.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("reads list \"multus\" first"),
        "{}",
        stderr(&output)
    );
}

/// The agent's pod starts all the same.
#[test]
fn foreign_list_is_tolerated_with_a_warning() {
    let multus = json!({"name": "multus", "type": "multus", "cniVersion": "1.0.0"});
    for (name, expected) in [
        ("00-multus.conf", "reads list \"multus\" first"),
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
        let is_written = name == "00-multus.conf";
        let is_ours = node.names("net.d").contains(&LIST.to_owned())
            && node.list()["plugins"][0]["type"] == "netqos-multinet";
        assert_eq!(is_ours, is_written, "{name}");
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
