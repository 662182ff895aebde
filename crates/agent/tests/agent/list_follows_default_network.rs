//! The list of `netqos-multinet` declares what the default network takes.

use std::fs;
use std::path::Path;

use netqos_agent::multinet::{LIST, write_list};
use serde_json::{Value, json};

use crate::stage::{self, Agent};

const DIRECTORY: &str = "/run/net.d";

fn put(name: &str, document: &Value) {
    let unfinished = Path::new(DIRECTORY).join(".unfinished");
    fs::write(&unfinished, document.to_string()).unwrap();
    fs::rename(unfinished, Path::new(DIRECTORY).join(name)).unwrap();
}

/// The default network, with a capability.
fn put_default(capability: &str) {
    let plugin = json!({"type": "bridge", "capabilities": {capability: true}});
    let list = json!({"cniVersion": "1.0.0", "name": "net", "plugins": [plugin]});
    put("10-net.conflist", &list);
}

fn list() -> Value {
    serde_json::from_slice(&fs::read(Path::new(DIRECTORY).join(LIST)).unwrap()).unwrap()
}

fn declares(capability: &str) -> bool {
    list()["plugins"][0]["capabilities"][capability] == true
}

fn start() -> Agent {
    Agent::start_with(&["--cni-conf-dir", DIRECTORY])
}

#[test]
fn capabilities_of_default_network_are_declared_and_keys_of_administrator_stay() {
    let Some(_node) = stage::node() else { return };
    fs::create_dir_all(DIRECTORY).unwrap();
    let _agent = start();
    // Nothing is written where the plugin is not installed.
    put_default("example.org/a");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!Path::new(DIRECTORY).join(LIST).exists());
    fs::remove_file(Path::new(DIRECTORY).join("10-net.conflist")).unwrap();

    write_list(&Path::new(DIRECTORY).join(LIST), None).unwrap();
    let mut own = list();
    own["plugins"][0]["hostPaths"] = json!(["/dev/vfio"]);
    put(LIST, &own);
    // A runtime that reads the file at that moment reads the one or the other.
    fs::hard_link(Path::new(DIRECTORY).join(LIST), "/run/before").unwrap();
    for capability in ["example.org/a", "example.org/b"] {
        assert!(!declares(capability));
        put_default(capability);
        assert!(stage::eventually(|| declares(capability)), "{}", list());
    }
    assert_eq!(fs::read_to_string("/run/before").unwrap(), own.to_string());
    fs::remove_file(Path::new(DIRECTORY).join("10-net.conflist")).unwrap();
    assert_eq!(list()["plugins"][0]["hostPaths"], json!(["/dev/vfio"]));

    let foreign = json!({"cniVersion": "1.0.0", "name": "own", "plugins": [{"type": "bridge"}]});
    put(LIST, &foreign);
    put_default("example.org/c");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(list(), foreign);
}

/// As `netqos install-plugin --multinet --list-name` has written it.
#[test]
fn list_of_another_name_declares_capabilities_and_the_first_is_left_alone() {
    let Some(_node) = stage::node() else { return };
    let other = Path::new(DIRECTORY).join("99-netqos.conflist");
    fs::create_dir_all(DIRECTORY).unwrap();
    write_list(&other, None).unwrap();
    write_list(&Path::new(DIRECTORY).join(LIST), None).unwrap();
    let name = ["--multinet-list", "99-netqos.conflist"];
    let _agent = Agent::start_with(&[&["--cni-conf-dir", DIRECTORY][..], &name].concat());
    put_default("example.org/a");
    assert!(stage::eventually(|| {
        let text = fs::read_to_string(&other).unwrap();
        text.contains("example.org/a")
    }));
    assert!(!declares("example.org/a"));
}

#[test]
fn directory_that_is_read_only_is_a_problem_until_it_is_writable() {
    let Some(node) = stage::node() else { return };
    fs::create_dir_all(DIRECTORY).unwrap();
    write_list(&Path::new(DIRECTORY).join(LIST), None).unwrap();
    put_default("example.org/a");
    let mount = |options: &[&str]| {
        node.run("mount", &[options, &[DIRECTORY]].concat())
            .unwrap()
    };
    mount(&["--bind", DIRECTORY]);
    mount(&["-o", "remount,bind,ro"]);
    let _agent = start();
    let problem = || {
        let problems = stage::status().problems.into_iter();
        { problems }
            .find(|it| it.reason == "FileNotWritten")
            .map(|it| it.message)
    };
    assert!(stage::eventually(|| problem().is_some()));
    let message = problem().unwrap();
    assert!(message.contains("install-plugin --multinet"), "{message}");
    assert!(!declares("example.org/a"));
    mount(&["-o", "remount,bind,rw"]);
    assert!(stage::eventually(|| declares("example.org/a")));
    assert!(stage::eventually(|| problem().is_none()));
}
