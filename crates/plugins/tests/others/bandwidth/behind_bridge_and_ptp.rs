//! The kubelet's role, with the real plugins that make networks and ours behind them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netqos_cni::kubelet::{Kubelet, Pod, Sandbox};
use netqos_cni::runtime::{NetworkConfigList, Runtime};
use serde_json::{Value, json};

use super::calls::{node, plugin};
use super::kernel::{in_pod, limiters, on_host};

/// Where Debian's package has the plugins.
const PLUGINS: &str = "/usr/lib/cni";

fn list(main: Value) -> NetworkConfigList {
    let capabilities = json!({"bandwidth": true, "io.kubernetes.cri.pod-annotations": true});
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [main, {"type": "bandwidth", "capabilities": capabilities}],
    });
    NetworkConfigList::parse(list.to_string().as_bytes()).unwrap()
}

#[test]
fn a_pod_is_held_to_its_annotations() {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.87.0.0/24"}]]});
    for main in [
        json!({"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": ipam}),
        json!({"type": "ptp", "ipam": ipam}),
    ] {
        let kind = main["type"].as_str().unwrap().to_owned();
        if !Path::new(PLUGINS).join(&kind).is_file() {
            eprintln!("skipped: {PLUGINS}/{kind} is missing (containernetworking-plugins)");
            return;
        }
        let Some(node) = node() else { return };
        let namespace = node.empty_pod("a").unwrap();
        let ours = plugin().parent().unwrap().to_owned();
        let runtime = Runtime::new([ours, PathBuf::from(PLUGINS)], "/var/lib/cni");
        let list = list(main);
        let kubelet = Kubelet::new(&runtime, &list);
        let pod = Pod {
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            annotations: BTreeMap::from(
                [
                    ("kubernetes.io/ingress-bandwidth", "10M"),
                    ("kubernetes.io/egress-bandwidth", "20M"),
                    ("netqos.io/egress-burst", "4M"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            ),
            ..Pod::default()
        };
        let sandbox = Sandbox::new("a", namespace.netns());
        let setup = kubelet.set_up(&pod, &sandbox).unwrap();
        assert_eq!(setup.warnings, [], "{kind}");
        kubelet.check(&pod, &sandbox).unwrap();

        let on_node = |interface: &&netqos_cni::Interface| {
            interface.sandbox.is_empty() && interface.name != "pods0"
        };
        let veth = setup.result.interfaces.iter().find(on_node).unwrap();
        let rate = |held: super::kernel::Held| held.tbf.map(|tbf| tbf.rate);
        assert_eq!(rate(on_host(&veth.name)), Some(1_250_000), "{kind}");
        assert_eq!(rate(in_pod(&namespace, "eth0")), Some(2_500_000), "{kind}");
        assert_eq!(limiters().len(), 2, "{kind}");

        kubelet.tear_down(&pod, &sandbox).unwrap();
        assert_eq!(limiters(), [], "{kind}");
        assert_eq!(node.files("/run/netqos"), [""; 0], "{kind}");
        assert_eq!(node.files("/var/lib/cni/results"), [""; 0], "{kind}");
    }
}
