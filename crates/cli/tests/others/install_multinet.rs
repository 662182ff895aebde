//! `netqos install-plugin --multinet`: the meta plugin, and the list that calls it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use netqos_testkit::executable;
use serde_json::{Value, json};

use crate::{assert_code, run, stderr, succeed};

pub(crate) const LIST: &str = "00-netqos.conflist";

/// The directories of a node.
pub(crate) struct Node {
    root: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["bin", "net.d", "state/pods"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn install(&self, more: &[&str]) -> Output {
        let (to, lists, state) = (self.path("bin"), self.path("net.d"), self.path("state"));
        let mut words = vec!["install-plugin", "--multinet", "--to", &to];
        words.extend(["--conf-dir", &lists, "--state-dir", &state]);
        words.extend(more);
        run(&words)
    }

    /// Installs the plugin that was built.
    pub(crate) fn install_built(&self, more: &[&str]) -> Output {
        let plugin = executable("netqos-plugins", "netqos-multinet").unwrap();
        let from = ["--from", plugin.to_str().unwrap()];
        self.install(&[&from, more].concat())
    }

    pub(crate) fn installed(&self) -> String {
        succeed(&self.install_built(&[]))
    }

    pub(crate) fn removed(&self) -> String {
        succeed(&self.install(&["--remove"]))
    }

    /// Writes a list that calls Multus, whose pods are in a directory of the node.
    pub(crate) fn write_multus(&self, kind: &str, more: Value) {
        let delegate = json!({"cniVersion": "1.0.0", "name": "pods", "type": "bridge"});
        let mut plugin = json!({"type": kind, "cniDir": self.path("multus"), "binDir": self.path("bin"),
                                "delegates": [delegate]});
        let more = more.as_object().unwrap().clone();
        plugin.as_object_mut().unwrap().extend(more);
        let list =
            json!({"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": [plugin]});
        self.write("net.d/10-multus.conflist", &list);
    }

    /// Installs the plugin with a list of this name. The default network is that of `net.d/50-pods.conflist`.
    pub(crate) fn install_beside(&self, name: &str) -> Output {
        self.write("net.d/50-pods.conflist", &default_list());
        let default = self.path("net.d/50-pods.conflist");
        self.install_built(&["--list-name", name, "--default-network", &default])
    }

    /// Writes the record of a pod on one network, of this plugin.
    pub(crate) fn write_record(&self, plugin: &str) {
        self.write_record_in("state", plugin);
    }

    pub(crate) fn write_record_in(&self, state: &str, plugin: &str) {
        let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": plugin}]});
        let attachment = json!({"driver": "cni", "nad": null, "interface": "eth0", "list": list, "args": [],
                                "capabilityArgs": {}});
        let record = json!({
            "containerId": "c", "netns": "/not/seen/here/n", "attachments": [attachment], "made": 1,
            "pod": {"namespace": "games", "name": "player", "uid": null},
        });
        fs::create_dir_all(self.path(&format!("{state}/pods"))).unwrap();
        self.write(&format!("{state}/pods/c.json"), &record);
    }

    /// Asserts that `--remove` fails with a text and changes nothing.
    pub(crate) fn assert_refused(&self, text: &str) {
        let output = self.install(&["--remove"]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let error = stderr(&output);
        assert!(error.contains(text), "{error}");
        assert!(error.contains("nothing changed"), "{error}");
        assert!(self.names("net.d").contains(&LIST.to_owned()));
        assert_eq!(self.names("bin"), ["netqos-multinet"]);
    }

    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.path().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) fn write(&self, name: &str, document: &Value) {
        fs::write(self.root.path().join(name), document.to_string()).unwrap();
    }

    pub(crate) fn list(&self) -> Value {
        let text = fs::read(self.root.path().join("net.d").join(LIST)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

fn default_list() -> Value {
    let capabilities = json!({"portMappings": true, "example.org/own": true});
    let bridge = json!({"type": "bridge", "capabilities": capabilities});
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})
}

/// An administrator's, such as one that keeps the runtime from CHECK, and the name that GC goes by.
#[test]
fn second_installation_keeps_keys_of_the_list() {
    let node = Node::new();
    node.write(
        "net.d/10-pods.conflist",
        &json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}),
    );
    node.installed();
    let mut list = node.list();
    list["name"] = "ours".into();
    list["disableCheck"] = true.into();
    node.write(&format!("net.d/{LIST}"), &list);
    node.installed();
    assert_eq!(node.list(), list);
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
    let output = node.install_built(&[]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("is not netqos's list"));
    assert!(node.removed().contains("is left as it is"));
    assert_eq!(node.list(), default_list());
}

#[test]
fn list_that_comes_first_is_named_and_fails() {
    let node = Node::new();
    node.write(
        "net.d/00-first.conf",
        &json!({"name": "first", "type": "bridge", "cniVersion": "1.0.0"}),
    );
    let output = node.install_built(&[]);
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("reads list \"first\" first"),
        "{}",
        stderr(&output)
    );
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
        let refused = node.install_built(&[]);
        assert_code(&refused, 1);
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
        let said = succeed(&node.install_built(&["--tolerate-foreign-lists"]));
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
    assert_code(&output, 1);
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
    let output = node.install_built(&[]);
    assert_code(&output, 1);
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

/// The runtime calls Multus for each pod, and the plugin for pods of a RuntimeClass.
#[test]
fn list_of_another_name_is_written_behind_that_of_multus() {
    let node = Node::new();
    node.write_multus("multus", json!({}));
    let said = succeed(&node.install_beside("99-netqos.conflist"));
    for words in [
        "99-netqos.conflist: written; the default network is pods",
        "the runtime calls list multus-cni-network",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let lists = [
        "10-multus.conflist",
        "50-pods.conflist",
        "99-netqos.conflist",
    ];
    assert_eq!(node.names("net.d"), lists);
    let text = fs::read(node.path("net.d/99-netqos.conflist")).unwrap();
    let list: Value = serde_json::from_slice(&text).unwrap();
    let plugin = &list["plugins"][0];
    let default = json!(node.path("net.d/50-pods.conflist"));
    assert_eq!(plugin["defaultNetwork"], default);
    assert_eq!(plugin["capabilities"]["example.org/own"], true);
    // By the key that is there already.
    let again = ["--list-name", "99-netqos.conflist"];
    let said = succeed(&node.install_built(&again));
    assert!(
        said.contains("99-netqos.conflist: is there already"),
        "{said}"
    );
}

/// Each pod would be attached to its networks twice, or by another meta plugin than the administrator's.
#[test]
fn list_that_would_take_the_place_of_multus_or_be_called_by_it_is_refused() {
    let refused = |multus: Value, name: &str, text: &str| {
        let node = Node::new();
        node.write_multus("multus", multus);
        let output = node.install_beside(name);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(text), "{error}");
        assert_eq!(
            node.names("net.d"),
            ["10-multus.conflist", "50-pods.conflist"]
        );
    };
    // Also where Multus would take it for the list of the default network, which it finds by itself.
    for name in ["05-netqos.conflist", "30-netqos.conflist", LIST] {
        refused(json!({}), name, "give it a name behind both");
    }
    let by_name = json!({"clusterNetwork": "netqos-multinet"});
    refused(
        by_name,
        "99-netqos.conflist",
        "attached to their networks twice",
    );
    let by_file = json!({"clusterNetwork": "/host/etc/cni/net.d/99-netqos.conflist"});
    refused(
        by_file,
        "99-netqos.conflist",
        "attached to their networks twice",
    );

    let node = Node::new();
    node.write_multus("multus", json!({}));
    let own = node.path("net.d/10-multus.conflist");
    for default in [&[][..], &["--default-network", &own]] {
        let name = ["--list-name", "99-netqos.conflist"];
        let output = node.install_built(&[&name[..], default].concat());
        let error = stderr(&output);
        assert!(error.contains("--default-network"), "{error}");
        assert_eq!(node.names("net.d"), ["10-multus.conflist"]);
    }
}

/// The runtime would go on calling the one of before.
#[test]
fn second_list_of_another_name_is_refused_until_the_first_is_removed() {
    let node = Node::new();
    node.installed();
    let other = ["--list-name", "99-netqos.conflist"];
    let error = stderr(&node.install_built(&other));
    let expected = "00-netqos.conflist calls netqos-multinet already";
    assert!(error.contains(expected), "{error}");
    assert!(
        !node
            .names("net.d")
            .contains(&"99-netqos.conflist".to_owned())
    );
    node.removed();
    succeed(&node.install(&other));
}

#[test]
fn name_that_no_runtime_reads_is_refused() {
    let node = Node::new();
    for name in ["99-netqos", "sub/99-netqos.conflist", ".netqos.conflist"] {
        let output = node.install_beside(name);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(stderr(&output).contains("such as 99-netqos.conflist"));
    }
}
