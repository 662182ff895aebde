//! `netqos pod`: one pod, through the plugins that people have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use netqos_testkit::Node;

use crate::{assert_code, bandwidth, run, stderr};

/// Where Debian's package has the plugins.
const PLUGINS: &str = "/usr/lib/cni";
const FOLDER: &str = "/run/net.d";
const POD: &str = "/run/pod.yaml";
/// What was said to `bridge`, one command to a line.
const CALLS: &str = "/run/calls";
const NETNS: &str = "/run/netns/netqos-default_one";

const IPAM: &str = r#", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.86.0.0/24"}]]}"#;

/// A node of the test's own with a network and a pod, whose `bridge` writes down who calls it;
/// `None` where the test can't be run.
fn start(ipam: &str) -> Option<Node> {
    for plugin in ["bridge", "host-local"] {
        let path = Path::new(PLUGINS).join(plugin);
        if !path.is_file() {
            eprintln!(
                "skipped: {} is missing (containernetworking-plugins)",
                path.display()
            );
            return None;
        }
    }
    let node = Node::new().unwrap()?;
    let spy = format!("#!/bin/sh\necho $CNI_COMMAND >> {CALLS}\nexec {PLUGINS}/bridge\n");
    let network = format!(
        r#"{{"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {{"type": "bridge", "bridge": "pods0"{ipam}}}]}}"#
    );
    fs::create_dir(FOLDER).unwrap();
    fs::create_dir("/run/bin").unwrap();
    fs::write("/run/bin/bridge", spy).unwrap();
    fs::set_permissions("/run/bin/bridge", fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(format!("{FOLDER}/10-pods.conflist"), network).unwrap();
    fs::write(POD, "{kind: Pod, metadata: {name: one}}").unwrap();
    Some(node)
}

fn pod(command: &str) -> Output {
    run(&[
        "pod",
        command,
        "-f",
        POD,
        "--conf-dir",
        FOLDER,
        "--bin-dir",
        "/run/bin",
        "--bin-dir",
        PLUGINS,
    ])
}

#[track_caller]
fn succeed(command: &str) {
    let output = pod(command);
    assert_code(&output, 0);
}

/// What an `add` has made: links by name, addresses, files with their text. Carriers and IPv6 come
/// up by themselves a moment later.
fn made(node: &Node) -> String {
    let links = node.run("ip", &["-o", "link"]).unwrap();
    let names = links.lines().filter_map(|line| line.split(": ").nth(1));
    let mut text = names.collect::<Vec<_>>().join(" ");
    let inside = [
        "netns",
        "exec",
        "netqos-default_one",
        "ip",
        "-o",
        "-4",
        "addr",
    ];
    text.push_str(&node.run("ip", &inside).unwrap());
    for file in node.files("/var/lib/cni") {
        text.push_str(&format!("{file}: {}\n", fs::read_to_string(&file).unwrap()));
    }
    text + &fs::read_to_string(CALLS).unwrap()
}

#[test]
fn a_pod_that_is_up_is_refused_and_stays_up() {
    let Some(node) = start(IPAM) else { return };
    succeed("add");
    let before = made(&node);
    let again = pod("add");
    assert_code(&again, 1);
    let said = stderr(&again);
    assert!(
        said.contains("pod default/one is on network \"pods\" already")
            && said.contains(NETNS)
            && said.contains("`netqos pod del` first"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(made(&node), before);
    succeed("check");

    // In another namespace it would be the same attachment.
    let elsewhere = run(&[
        "pod",
        "add",
        "-f",
        POD,
        "--conf-dir",
        FOLDER,
        "--bin-dir",
        "/run/bin",
        "--netns",
        "/proc/self/ns/net",
    ]);
    assert_code(&elsewhere, 1);
    assert!(stderr(&elsewhere).contains(NETNS), "{}", stderr(&elsewhere));

    succeed("del");
    succeed("add");
    succeed("del");
    assert!(!Path::new(NETNS).exists());
    let calls = fs::read_to_string(CALLS).unwrap();
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(calls, ["ADD", "CHECK", "DEL", "ADD", "DEL"]);
}

#[test]
fn a_pod_whose_namespace_is_gone_is_not_up() {
    let Some(node) = start("") else { return };
    succeed("add");
    node.run("ip", &["netns", "delete", "netqos-default_one"])
        .unwrap();
    succeed("add");
    assert!(Path::new(NETNS).exists());
}

/// As after a reboot: `host-local` would refuse the pod a second address.
#[test]
fn what_a_pod_held_whose_namespace_is_gone_is_given_back_first() {
    let Some(node) = start(IPAM) else { return };
    succeed("add");
    let before = made(&node);
    node.run("ip", &["netns", "delete", "netqos-default_one"])
        .unwrap();
    succeed("add");
    let calls = fs::read_to_string(CALLS).unwrap();
    assert_eq!(calls, "ADD\nDEL\nADD\n");
    assert!(Path::new(NETNS).exists());
    let leases = |files: &str| files.matches("/var/lib/cni/networks/pods/10.86").count();
    assert_eq!(leases(&made(&node)), leases(&before));
    succeed("del");
}

/// The plugin fails and makes the namespace one that cannot be removed.
#[test]
fn what_failed_is_told_beside_a_namespace_that_stays() {
    let Some(_node) = start("") else { return };
    let plugin = "#!/bin/sh\nmount --bind $CNI_NETNS $CNI_NETNS\nexit 1\n";
    fs::write("/run/bin/bridge", plugin).unwrap();
    let output = pod("add");
    assert_code(&output, 1);
    let said = stderr(&output);
    assert!(
        said.contains("plugin type=\"bridge\" failed (add)")
            && said.contains("; and the namespace that was made for it"),
        "{said}"
    );
    assert!(said.contains(NETNS), "{said}");
}

#[test]
fn units_that_nobody_knows_or_that_differ_are_wrong_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name).display().to_string();
    fs::write(
        path("pod.yaml"),
        "{kind: Pod, metadata: {name: one, annotations: {kubernetes.io/egress-bandwidth: 1M}}}",
    )
    .unwrap();
    let shapes = |unit| {
        format!(r#"{{"type": "x", "unit": "{unit}", "capabilities": {{"trafficShaping": true}}}}"#)
    };
    for (plugins, words) in [
        (shapes("furlongs"), "the unit \"furlongs\""),
        (
            format!("{}, {}", shapes("bps"), shapes("Kbps")),
            "with different units",
        ),
    ] {
        fs::write(
            path("net.conflist"),
            format!(r#"{{"cniVersion": "1.0.0", "name": "pods", "plugins": [{plugins}]}}"#),
        )
        .unwrap();
        let output = run(&[
            "pod",
            "add",
            "-f",
            &path("pod.yaml"),
            "--conf-dir",
            &folder.path().display().to_string(),
            // Where no plugin is, none can be called.
            "--bin-dir",
            &path("bin"),
            "--cache-dir",
            &path("cache"),
            "--netns",
            "/proc/self/ns/net",
        ]);
        assert_code(&output, 2);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

/// The entry of KEP-2819 and of the kubelet's design, character by character, and the pod of the KEP's story. The
/// kubelet's design passes numbers in kbit/s, which an entry says with the key `unit`.
#[test]
fn pod_is_limited_through_the_list_that_the_kep_prints() {
    let plugin = bandwidth();
    for (entry, units) in [
        (
            r#"{
  "type": "bandwidth",
  "capabilities": {"trafficShaping": true}
}"#,
            "bit/s",
        ),
        (
            r#"{"type": "bandwidth", "unit": "Kbps", "capabilities": {"trafficShaping": true}}"#,
            "kbit/s",
        ),
    ] {
        let Some(node) = start(IPAM) else { return };
        fs::copy(&plugin, "/run/bin/bandwidth").unwrap();
        let list = Path::new(FOLDER).join("10-pods.conflist");
        let text = fs::read_to_string(&list).unwrap();
        let bridge = text.strip_suffix("]}").unwrap();
        fs::write(&list, format!("{bridge}, {entry}]}}")).unwrap();
        fs::write(
            POD,
            r#"{"kind": "Pod", "metadata": {"name": "one", "annotations": {
                "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"}}}"#,
        )
        .unwrap();
        succeed("add");
        let inside = ["netns", "exec", "netqos-default_one", "tc", "qdisc", "show"];
        let in_pod = node.run("ip", &inside).unwrap();
        let at_host = node.run("tc", &["qdisc", "show"]).unwrap();
        for qdiscs in [in_pod, at_host] {
            let limits = { qdiscs.lines() }.filter(|line| line.contains("rate 10Mbit"));
            assert_eq!(limits.count(), 1, "{units}: {qdiscs}");
        }
        succeed("del");
    }
}
