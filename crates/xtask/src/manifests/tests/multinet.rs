//! netqos-multinet on nodes: the init container that installs it, and the list that calls it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::chart;

#[test]
fn multinet_plugin_without_its_agents_is_refused() {
    let refused = chart().render(&json!({"multinet": {"install": true}}));
    let refused = refused.unwrap_err().to_string();
    let expected = "multinet.install=true needs multinet.enabled=true";
    assert!(refused.contains(expected), "{refused}");
}

/// The init container `install-multinet`, and its volumes by the paths at which it has them.
fn install_multinet(more: Value) -> (Value, BTreeMap<String, Value>) {
    let mut chosen = json!({
        "multinet": {"enabled": true, "install": true, "configDirectory": "/k3s/net.d"},
        "cniPlugin": {"directory": "/k3s/bin"},
    });
    chosen
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let objects = chart().objects(&chosen).unwrap();
    let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
    let container = pod["initContainers"][0].clone();
    assert_eq!(container["name"], "install-multinet");
    let volumes = pod["volumes"].as_array().unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let mounts = mounts.map(|mount| {
        let volume = volumes.iter().find(|it| it["name"] == mount["name"]);
        let path = volume.unwrap()["hostPath"]["path"].clone();
        (mount["mountPath"].as_str().unwrap().to_owned(), path)
    });
    let mounts = mounts.collect();
    (container, mounts)
}

/// That directory has the limits of the plugin's own configuration.
#[test]
fn agent_does_not_write_lists_of_the_runtime() {
    let chosen = json!({"multinet": {"enabled": true, "configDirectory": "/k3s/net.d"}});
    let objects = chart().objects(&chosen).unwrap();
    let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|it| it["name"] == "cni-conf").unwrap();
    assert_eq!(mount["mountPath"], "/k3s/net.d");
    assert_eq!(mount["readOnly"], true);
}

/// The list names its directory to the plugin on the node, and plugins find files by the paths in records.
#[test]
fn install_multinet_sees_directories_by_their_paths_on_the_node() {
    let (container, mounts) = install_multinet(json!({}));
    let command = [
        "/netqos",
        "install-plugin",
        "--multinet",
        "--to=/k3s/bin",
        "--conf-dir=/k3s/net.d",
        "--list-name=00-netqos.conflist",
        "--tolerate-foreign-lists",
    ];
    assert_eq!(container["command"], json!(command));
    // What `install_over_directories_of_another_user_needs_two_capabilities` runs with.
    assert_eq!(
        container["securityContext"]["capabilities"]["add"],
        json!(["DAC_OVERRIDE", "FOWNER"])
    );
    let paths: Vec<&str> = mounts.keys().map(String::as_str).collect();
    assert_eq!(paths, ["/k3s/bin", "/k3s/net.d"]);
    assert!(
        mounts.iter().all(|(path, of_node)| of_node == path),
        "{mounts:?}"
    );

    let (container, mounts) = install_multinet(json!({"leaving": true}));
    assert_eq!(container["command"][6], "--remove");
    let paths: Vec<&str> = mounts.keys().map(String::as_str).collect();
    let of_plugins = ["/run", "/var/lib/cni", "/var/lib/netqos", "/var/run"];
    assert_eq!(
        paths,
        [&["/k3s/bin", "/k3s/net.d"], &of_plugins[..]].concat()
    );
    for (path, of_node) in mounts {
        // The node's /var/run is a link.
        let of_node = of_node.as_str().unwrap().to_owned();
        assert_eq!(of_node, path.replace("/var/run", "/run"));
    }
}

/// Install and removal go by the same name.
#[test]
fn list_beside_multus_has_the_name_that_values_say() {
    let multinet = json!({
        "enabled": true, "install": true, "listName": "99-netqos.conflist",
        "defaultNetwork": "/etc/cni/net.d/10-pods.conflist",
    });
    for leaving in [false, true] {
        let objects = chart().objects(&json!({"multinet": multinet, "leaving": leaving}));
        let pod = &objects.unwrap()["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
        let has = |list: &Value, argument: &str| {
            let arguments = list.as_array().into_iter().flatten();
            let mut arguments = arguments.filter_map(Value::as_str);
            arguments.any(|it| it == argument)
        };
        let install = &pod["initContainers"][0]["command"];
        assert!(has(install, "--list-name=99-netqos.conflist"), "{install}");
        let named = has(install, "--default-network=/etc/cni/net.d/10-pods.conflist");
        assert_eq!(named, !leaving, "{install}");
    }
}
