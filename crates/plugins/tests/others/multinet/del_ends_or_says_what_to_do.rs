//! A DEL ends at once for what was never made, and otherwise says what it lacks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use netqos_testkit::{Pod, executable};
use serde_json::{Value, json};

use super::fixture::{BIN, MultinetNode, PLUGINS, bridge, record, start, write_script};

/// NADs of users: numbers as strings, a range that is none, and a plugin of IPAM that is not on the node.
fn refused() -> [Value; 3] {
    let bridge = |name: &str, ipam: Value| json!({"cniVersion": "0.3.1", "name": name, "type": "bridge", "bridge": name, "ipam": ipam});
    let mut mtu = bridge(
        "bt1",
        json!({"type": "host-local", "ranges": [[{"subnet": "192.168.94.0/24"}]]}),
    );
    mtu["mtu"] = json!("1500");
    let range = json!({"subnet": "10.205.28.0/24", "rangeStart": "10.205.28.14.200", "rangeEnd": "10.205.28.14.216"});
    let range = json!({"type": "host-local", "ranges": [[range]]});
    let missing =
        json!({"type": "whereabouts", "range": "10.1.0.1/19", "exclude": ["10.1.0.1/30"]});
    [mtu, bridge("bbs", range), bridge("bni", missing)]
}

/// The directories of the plugins of Debian, and of others if they are named.
fn plugin_dirs() -> Vec<String> {
    let newest = std::env::var("NETQOS_TEST_CNI_PLUGINS");
    if newest.is_err() {
        eprintln!("skipped: NETQOS_TEST_CNI_PLUGINS names no directory of CNI plugins");
    }
    [Ok(PLUGINS.to_owned()), newest]
        .into_iter()
        .flatten()
        .collect()
}

/// DEL of a pod, again and again, as containerd does it: with its namespace, without, and when that is gone.
fn assert_every_del_ends(node: &MultinetNode, pod: &Pod, config: &Value) {
    let del = || node.call("DEL", pod, None, config.clone());
    for _ in 0..2 {
        del().succeed().unwrap();
        del().without("CNI_NETNS").succeed().unwrap();
    }
    node.remove(pod);
    del().succeed().unwrap();
    del().without("CNI_NETNS").succeed().unwrap();
}

#[test]
fn refused_attachment_is_undone_and_every_del_ends() {
    let Some((node, pod)) = start() else { return };
    node.remove(&pod);
    let node = &node;
    let absent =
        json!({"cniVersion": "1.0.0", "name": "hd", "type": "host-device", "device": "absent"});
    let mut absent_and_range = absent.clone();
    absent_and_range["ipam"] = refused()[1]["ipam"].clone();
    // Their interface is made before the addresses are refused.
    let mut macvlan =
        json!({"cniVersion": "1.0.0", "name": "mv", "type": "macvlan", "master": "parent"});
    macvlan["ipam"] = refused()[2]["ipam"].clone();
    let mut device = absent_and_range.clone();
    device["device"] = json!("device");
    node.node
        .run(
            "ip",
            &[
                "link", "add", "device", "type", "veth", "peer", "name", "peer",
            ],
        )
        .unwrap();
    let before = node.inventory();
    let configs = refused()
        .into_iter()
        .chain([absent, absent_and_range, macvlan, device]);
    for (config, dir) in
        configs.flat_map(|it| plugin_dirs().into_iter().map(move |dir| (it.clone(), dir)))
    {
        let pod = node.pod("web");
        node.define_by_digest("shop/broken", &config);
        let dirs = json!({"pluginDirs": [dir]});
        let add = node.call("ADD", &pod, Some("lan,broken"), dirs.clone());
        let (_, message) = add.fail().unwrap();
        assert!(message.contains("shop/broken, interface net2"), "{message}");
        assert!(!message.contains("not undone"), "{config}: {message}");
        assert_every_del_ends(node, &pod, &dirs);
        for bridge in ["bbs", "bni"] {
            // A bridge stays, as with any runtime.
            let _ = node.node.run("ip", &["link", "del", bridge]);
        }
        node.assert_only(&before);
    }
}

#[test]
fn refused_default_network_leaves_no_del_that_fails() {
    let Some((node, pod)) = start() else { return };
    node.remove(&pod);
    let missing = json!({"type": "no-such-plugin", "cniVersion": "1.0.0", "name": "pods"});
    for config in refused().into_iter().chain([missing]) {
        let pod = node.pod("web");
        let list = json!({"cniVersion": config["cniVersion"], "name": "pods", "plugins": [config]});
        let more = json!({"defaultNetwork": list});
        node.call("ADD", &pod, None, more.clone()).fail().unwrap();
        assert_every_del_ends(&node, &pod, &more);
    }
}

/// A directory of plugins from which one can be taken.
fn own_plugins() -> Value {
    fs::create_dir_all(BIN).unwrap();
    for plugin in ["bridge", "host-local"] {
        symlink(format!("{PLUGINS}/{plugin}"), format!("{BIN}/{plugin}")).unwrap();
    }
    json!({"pluginDirs": [BIN]})
}

/// Asserts that DEL fails and says all that is needed.
fn assert_del_fails(node: &MultinetNode, pod: &Pod, dirs: &Value, plugin: &str) {
    for netns in [true, false] {
        let del = node.call("DEL", pod, None, dirs.clone());
        let del = if netns { del } else { del.without("CNI_NETNS") };
        let (_, message) = del.fail().unwrap();
        for expected in [
            plugin,
            "/var/lib/netqos/multinet/pods/web.json",
            "netqos cleanup --forget web",
            "installed again",
        ] {
            assert!(message.contains(expected), "no {expected:?}: {message}");
        }
        // go-cni would take it for a success.
        assert!(!message.contains("not found"), "{message}");
    }
    let record = record("web");
    let failure = record["failure"].as_str().unwrap();
    assert!(failure.contains(plugin), "{failure}");
    assert!(record["netns"].is_string(), "{record}");
}

#[test]
fn del_without_a_plugin_that_ran_fails_until_it_is_back() {
    let Some((node, pod)) = start() else { return };
    let (before, dirs) = (node.inventory(), own_plugins());
    // That of an interface, and that of its addresses.
    for plugin in ["bridge", "host-local"] {
        node.call("ADD", &pod, Some("lan"), dirs.clone())
            .succeed()
            .unwrap();
        let (path, aside) = (format!("{BIN}/{plugin}"), format!("{BIN}/aside"));
        fs::rename(&path, &aside).unwrap();
        assert_del_fails(&node, &pod, &dirs, plugin);
        fs::rename(&aside, &path).unwrap();
        node.call("DEL", &pod, None, dirs.clone())
            .succeed()
            .unwrap();
        assert_eq!(node.inventory(), before, "{plugin}");
    }
}

#[test]
fn del_of_a_sandbox_that_was_given_up_ends() {
    let Some((node, pod)) = start() else { return };
    let dirs = own_plugins();
    node.call("ADD", &pod, Some("lan"), dirs.clone())
        .succeed()
        .unwrap();
    fs::remove_file(format!("{BIN}/bridge")).unwrap();
    assert_del_fails(&node, &pod, &dirs, "bridge");
    let netqos = executable("netqos-cli", "netqos").unwrap();
    let said = node.node.run(
        netqos.to_str().unwrap(),
        &["cleanup", "--yes", "--forget", "web"],
    );
    let said = said.unwrap();
    for expected in [
        "shop/web",
        "shop/lan",
        "net1",
        "bridge, host-local",
        "10.88.0.2/24",
    ] {
        assert!(said.contains(expected), "no {expected:?}: {said}");
    }
    assert!(!Path::new("/var/lib/netqos/multinet/results/lan-web-net1").exists());
    node.call("DEL", &pod, None, dirs.clone())
        .succeed()
        .unwrap();
    assert!(!Path::new("/var/lib/netqos/multinet/pods/web.json").exists());
    // The runtime removes the namespace once DEL has succeeded.
    node.remove(&pod);
    node.call("DEL", &pod, None, dirs).succeed().unwrap();
}

/// A plugin without effects, whose DEL fails while `/run/stuck` is there.
fn write_stuck_plugin() -> Value {
    let result = r#"{"cniVersion": "1.0.0", "interfaces": [], "ips": []}"#;
    let error = r#"{"code": 999, "msg": "daemon timed out"}"#;
    let text = format!(
        "#!/bin/sh\ncat >/dev/null\n\
         if [ $CNI_COMMAND = ADD ]; then echo '{result}'; fi\n\
         if [ $CNI_COMMAND = DEL ] && [ -e /run/stuck ]; then echo '{error}'; exit 1; fi\n"
    );
    write_script("stuck", &text);
    fs::write("/run/stuck", "").unwrap();
    json!({"type": "stuck"})
}

/// A pod has a network that was refused, and one whose DEL needs another try.
#[test]
fn del_that_waits_for_one_plugin_does_not_fail_for_one_that_refused() {
    let Some((node, pod)) = start() else { return };
    let (stuck, before) = (write_stuck_plugin(), node.inventory());
    let list = |plugins: Value| json!({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins});
    let dirs = |list: Value| json!({"pluginDirs": [BIN, PLUGINS], "defaultNetwork": list});
    let tuning = json!({"type": "tuning", "mtu": "1500"});
    node.define_by_digest("shop/broken", &refused()[0]);
    for (config, networks, kept) in [
        // Another attachment is refused, another plugin of the same one, and one that is missing.
        (dirs(list(json!([stuck]))), Some("broken"), 1),
        (dirs(list(json!([stuck, tuning, stuck]))), None, 1),
        (
            dirs(list(json!([stuck, {"type": "no-such-plugin"}]))),
            None,
            1,
        ),
    ] {
        fs::write("/run/stuck", "").unwrap();
        let add = node.call("ADD", &pod, networks, config.clone());
        let (_, message) = add.fail().unwrap();
        assert!(message.contains("netqos cleanup --forget web"), "{message}");
        let attachments = record("web")["attachments"].as_array().unwrap().clone();
        assert_eq!(attachments.len(), kept);
        assert_eq!(attachments[0]["list"]["plugins"], json!([stuck]));
        assert_del_fails(&node, &pod, &config, "stuck");
        fs::remove_file("/run/stuck").unwrap();
        assert_every_del_ends(&node, &pod, &config);
        node.assert_only(&before);
        node.node.empty_pod("web").unwrap();
    }
}

/// The plugin of a selected network is missing.
#[test]
fn add_that_is_killed_while_it_undoes_leaves_no_del_that_fails() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    // Its first DEL kills the plugin that calls it.
    write_script(
        "killer",
        "#!/bin/sh\ncat >/dev/null\n\
         if [ $CNI_COMMAND = ADD ]; then echo '{\"cniVersion\": \"1.0.0\"}'; fi\n\
         if [ $CNI_COMMAND = DEL ] && rm /run/kill; then kill -9 $PPID; fi\n",
    );
    fs::write("/run/kill", "").unwrap();
    let missing = json!({"cniVersion": "1.0.0", "name": "absent", "type": "no-such-plugin"});
    node.define_by_digest("shop/broken", &missing);
    let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "killer"}]});
    let config = json!({"pluginDirs": [BIN, PLUGINS], "defaultNetwork": list});
    let add = node.call("ADD", &pod, Some("broken"), config.clone());
    assert_eq!(add.run().unwrap().code, None);
    assert_eq!(record("web")["attachments"].as_array().unwrap().len(), 1);
    assert_every_del_ends(&node, &pod, &config);
    node.assert_only(&before);
}

/// An ADD that was killed while a plugin refused it, and one that had ended, before the plugin was replaced.
#[test]
fn configuration_that_is_refused_at_del_counts_if_its_add_had_ended() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    for (made, ends) in [(1, true), (2, false)] {
        node.define("shop/lan", &bridge("data0", "10.88.0.0/24"));
        node.add(&pod, Some("lan"));
        let mut record = record("web");
        let list = record["attachments"][1]["list"].clone();
        let del = || node.call("DEL", &pod, None, json!({}));
        record["attachments"][1]["list"]["plugins"][0]["mtu"] = json!("1500");
        record["made"] = json!(made);
        let path = "/var/lib/netqos/multinet/pods/web.json";
        fs::write(path, record.to_string()).unwrap();
        // Its result says that the ADD had ended.
        assert!(del().fail().unwrap().1.contains("cannot unmarshal"));
        let result = "/var/lib/netqos/multinet/results/lan-web-net1";
        let kept = fs::read(result).unwrap();
        fs::remove_file(result).unwrap();
        node.in_pod(&pod, "ip link del net1");
        if ends {
            fs::remove_dir_all("/var/lib/cni/networks/lan").unwrap();
            del().succeed().unwrap();
        } else {
            assert!(del().fail().unwrap().1.contains("cannot unmarshal"));
            record["attachments"][1]["list"] = list;
            fs::write(path, record.to_string()).unwrap();
            fs::write(result, kept).unwrap();
            del().succeed().unwrap();
        }
    }
    assert!(node.inventory().len() <= before.len());
}
