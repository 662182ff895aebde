use std::path::Path;

use netqos_api::npwg::AttachmentGrant;
use serde_json::json;

use super::fixture::{PLUGINS, bridge, start};

#[test]
fn ports_of_the_node_lead_to_the_pod_until_del() {
    let Some((node, pod)) = start() else { return };
    if !Path::new(PLUGINS).join("portmap").is_file() || node.node.run("iptables", &["-V"]).is_err()
    {
        eprintln!("skipped: {PLUGINS}/portmap or iptables is missing");
        return;
    }
    let config = json!({"cniVersion": "1.0.0", "plugins": [
        bridge("data0", "10.88.0.0/24"),
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]});
    let grant = AttachmentGrant {
        plugin_types: ["bridge", "host-local", "portmap"]
            .map(str::to_owned)
            .into(),
        masters: ["data0".to_owned()].into(),
        host_keys: ["portmap.portMappings".to_owned()].into(),
        ..AttachmentGrant::default()
    };
    node.define_with("shop/web", &config, grant);
    let networks = json!([{"name": "web", "portMappings": [
        {"hostPort": 18080, "containerPort": 80},
        {"hostPort": 18053, "containerPort": 53, "protocol": "UDP"},
    ]}]);
    // The rules of mapped ports: the plugin's chains for all pods stay.
    let rules = || {
        let rules = node.node.run("iptables-save", &["-t", "nat"]).unwrap();
        let of_pods = rules
            .lines()
            .filter(|it| it.contains("1805") || it.contains("1808") || it.contains("CNI-DN-"));
        of_pods.map(str::to_owned).collect::<Vec<String>>()
    };
    let before = node.inventory();
    assert_eq!(rules(), [""; 0]);
    node.add(&pod, Some(&networks.to_string()));
    for (protocol, port, target) in [
        ("tcp", 18080, "10.88.0.2:80"),
        ("udp", 18053, "10.88.0.2:53"),
    ] {
        let leads =
            format!("-p {protocol} -m {protocol} --dport {port} -j DNAT --to-destination {target}");
        assert!(
            rules().iter().any(|it| it.contains(&leads)),
            "{:?}",
            rules()
        );
    }
    node.del(&pod);
    assert_eq!(rules(), [""; 0]);
    assert_eq!(node.inventory(), before);
}
