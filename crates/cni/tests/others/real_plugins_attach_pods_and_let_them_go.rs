//! The runtime's role with the plugins that people have: bridge, ptp and host-local, and, on top,
//! the kubelet's role with the well-known bandwidth plugin. On a node of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use netqos_cni::kubelet::{Kubelet, Pod, Sandbox};
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime};
use netqos_testkit::Node;
use serde_json::{Value, json};

/// Where distributions put them.
const PLACES: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// Runs a test on a node of its own, where root and these plugins are there. Else it says why not.
fn on_a_node(
    plugins: &[&str],
    test: impl FnOnce(&Node, &Runtime) -> Result<()> + Send,
) -> Result<()> {
    let has_all = |place: &&Path| plugins.iter().all(|plugin| place.join(plugin).is_file());
    let Some(place) = PLACES.map(Path::new).into_iter().find(has_all) else {
        eprintln!("skipped: none of {PLACES:?} has the plugins {plugins:?}");
        return Ok(());
    };
    // The thread is lost to the node's namespaces.
    let run = || -> Result<()> {
        let Some(node) = Node::new()? else {
            return Ok(());
        };
        test(&node, &Runtime::new([place], "/var/lib/cni"))
    };
    thread::scope(|scope| scope.spawn(run).join()).map_err(|_| anyhow::anyhow!("panicked"))?
}

fn list(version: &str, plugins: Value) -> Result<NetworkConfigList> {
    let text = json!({"name": "net", "cniVersion": version, "plugins": plugins});
    Ok(NetworkConfigList::parse(text.to_string().as_bytes())?)
}

fn main_plugin(kind: &str) -> Value {
    let ipam = json!({
        "type": "host-local",
        "ranges": [[{"subnet": "10.55.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    });
    json!({"type": kind, "bridge": "cni-test0", "isGateway": true, "ipam": ipam})
}

/// The addresses that host-local has given away.
fn leases(node: &Node) -> Vec<String> {
    let mut files = node.files("/var/lib/cni/networks/net");
    files.retain(|file| file.contains("/10.55."));
    files
}

fn results(node: &Node) -> Vec<String> {
    node.files("/var/lib/cni/results")
}

#[test]
fn bridge_and_ptp_in_every_version_that_they_speak() -> Result<()> {
    on_a_node(&["bridge", "ptp", "host-local"], |node, runtime| {
        for kind in ["bridge", "ptp"] {
            for version in runtime.version(kind)? {
                let pod = format!("{kind}-{}", version.to_string().replace('.', ""));
                attach_and_detach(node, runtime, kind, &version.to_string(), &pod)
                    .with_context(|| format!("{kind} in {version}"))?;
            }
        }
        Ok(())
    })
}

fn attach_and_detach(
    node: &Node,
    runtime: &Runtime,
    kind: &str,
    version: &str,
    name: &str,
) -> Result<()> {
    let list = list(version, json!([main_plugin(kind)]))?;
    runtime.validate(&list)?;
    let pod = node.empty_pod(name)?;
    let request = AttachmentRequest::new(name, "eth0").in_netns(pod.netns());
    let result = runtime.add(&list, &request)?;
    ensure!(result.version() == list.version);
    let address = result.ips.first().context("no address")?.address;
    let shown = pod.run(node, "ip", &["-o", "addr", "show", "dev", "eth0"])?;
    ensure!(
        shown.contains(&address.to_string()),
        "{address} not in {shown}"
    );
    if version.parse::<netqos_cni::CniVersion>()? >= netqos_cni::CniVersion::V0_3_0 {
        let sandbox = pod.netns().display().to_string();
        ensure!(
            result
                .interfaces
                .iter()
                .any(|i| i.name == "eth0" && i.sandbox == sandbox)
        );
    }
    ensure!(leases(node).len() == 1 && results(node).len() == 1);

    if version.parse::<netqos_cni::CniVersion>()? >= netqos_cni::CniVersion::V0_4_0 {
        runtime.check(&list, &request)?;
        pod.run(node, "ip", &["addr", "flush", "dev", "eth0"])?;
        let error = runtime
            .check(&list, &request)
            .err()
            .context("CHECK saw nothing")?;
        ensure!(error.to_string().contains("failed (check): "), "{error}");
    }

    for _ in 0..2 {
        runtime.del(&list, &request)?;
        ensure!(
            pod.run(node, "ip", &["link", "show", "dev", "eth0"])
                .is_err()
        );
        ensure!(leases(node).is_empty() && results(node).is_empty());
    }
    Ok(())
}

/// A plugin that always fails, in a folder of its own.
fn failing_plugin() -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    let dir = PathBuf::from("/run/plugins");
    fs::create_dir_all(&dir)?;
    let script = "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\necho '{\"code\": 100, \"msg\": \"no\"}'\nexit 1\n";
    fs::write(dir.join("fails"), script)?;
    fs::set_permissions(dir.join("fails"), fs::Permissions::from_mode(0o755))?;
    Ok(dir)
}

#[test]
fn a_failed_add_leaves_neither_interface_nor_address() -> Result<()> {
    on_a_node(&["bridge", "host-local"], |node, runtime| {
        let dirs = runtime
            .plugin_dirs()
            .iter()
            .cloned()
            .chain([failing_plugin()?]);
        let runtime = Runtime::new(dirs, "/var/lib/cni");
        let list = list("1.0.0", json!([main_plugin("bridge"), {"type": "fails"}]))?;
        let pod = node.empty_pod("a")?;
        let request = AttachmentRequest::new("a", "eth0").in_netns(pod.netns());
        let error = runtime.add(&list, &request).err().context("ADD worked")?;
        ensure!(
            error.to_string() == "plugin type=\"fails\" failed (add): no",
            "{error}"
        );
        ensure!(
            pod.run(node, "ip", &["link", "show", "dev", "eth0"])
                .is_err()
        );
        ensure!(leases(node).is_empty() && results(node).is_empty());
        Ok(())
    })
}

#[test]
fn a_pod_is_shaped_by_the_well_known_bandwidth_plugin() -> Result<()> {
    for kind in ["bridge", "ptp"] {
        on_a_node(&[kind, "host-local", "bandwidth"], |node, runtime| {
            shaped(node, runtime, kind)
        })?;
    }
    Ok(())
}

fn shaped(node: &Node, runtime: &Runtime, kind: &str) -> Result<()> {
    let bandwidth = json!({"type": "bandwidth", "capabilities": {"bandwidth": true}});
    let list = list("1.0.0", json!([main_plugin(kind), bandwidth]))?;
    let kubelet = Kubelet::new(runtime, &list);
    let netns = node.empty_pod("iperf-slow")?.netns();
    let sandbox = Sandbox::new("iperf-slow", &netns);
    let pod = Pod {
        namespace: "default".to_owned(),
        name: "iperf-slow".to_owned(),
        uid: "1".to_owned(),
        annotations: ["ingress", "egress"]
            .map(|way| (format!("kubernetes.io/{way}-bandwidth"), "10M".to_owned()))
            .into(),
    };
    let setup = kubelet.set_up(&pod, &sandbox)?;
    ensure!(setup.warnings.is_empty());

    // The host's end of the pod's interface limits what goes to it, the ifb what comes from it.
    let on_host = |prefix: &str| {
        let mut links = setup
            .result
            .interfaces
            .iter()
            .filter(|link| link.is_on_host());
        links
            .find(|link| link.name.starts_with(prefix))
            .map(|link| link.name.clone())
            .with_context(|| format!("no {prefix}* in {:?}", setup.result.interfaces))
    };
    let (veth, ifb) = (on_host("veth")?, on_host("bwp")?);
    for link in [&veth, &ifb] {
        let qdiscs = node.run("tc", &["qdisc", "show", "dev", link])?;
        ensure!(
            qdiscs.contains("tbf") && qdiscs.contains("rate 10Mbit"),
            "{link}: {qdiscs}"
        );
    }
    kubelet.check(&pod, &sandbox)?;
    kubelet.tear_down(&pod, &sandbox)?;
    for link in [&veth, &ifb] {
        ensure!(
            node.run("ip", &["link", "show", "dev", link]).is_err(),
            "{link} is left"
        );
    }
    ensure!(leases(node).is_empty() && results(node).is_empty());
    Ok(())
}
