//! What the runtime and the pod request, and the plugins that get it.

use netqos_api::multinet::Nad;
use netqos_api::npwg::AttachmentGrant;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::fixture::{MultinetNode, by_digest, nad, record};
use super::recorder;

/// A node with recorders for the default network and for others; `dummy` is a type that netqos knows.
fn node() -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    recorder::install(&["default", "log", "last", "dummy"]);
    Some(node)
}

fn capable() -> Value {
    json!({"capabilities": {"bandwidth": true, "portMappings": true}})
}

fn capable_list() -> Value {
    let mut plugin = capable();
    plugin["type"] = "log".into();
    json!({"cniVersion": "1.0.0", "plugins": [plugin]})
}

/// What a runtime requests for a pod with these annotations.
fn of_runtime(annotations: Value) -> Value {
    let mut config = recorder::default_network("default", &capable());
    config["runtimeConfig"] = json!({
        "io.kubernetes.cri.pod-annotations": annotations,
        "bandwidth": {"ingressRate": 1_000_000, "ingressBurst": 800_000},
        "portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp"}],
    });
    config
}

fn runtime_config(call: &str) -> Value {
    recorder::config(call)["runtimeConfig"].clone()
}

fn refused(node: &MultinetNode, pod: &Pod, networks: &Value) -> String {
    recorder::forget();
    let before = node.inventory();
    let config = recorder::default_network("default", &json!({}));
    let add = node.call("ADD", pod, Some(&networks.to_string()), config);
    let (code, error) = add.fail().unwrap();
    assert_eq!(code, 7, "{error}");
    assert_eq!(recorder::calls(), [""; 0]);
    assert_eq!(node.inventory(), before);
    error
}

/// Version 1.3 of the specification, section 7.5.
#[test]
fn arguments_of_runtime_reach_default_network_alone() {
    let Some(node) = node() else { return };
    node.define_by_digest("shop/capable", &capable_list());
    let plain = json!({"cniVersion": "1.0.0", "plugins": [{"type": "log"}]});
    node.define_by_digest("shop/plain", &plain);
    let networks = json!([
        {"name": "capable"},
        {"name": "plain"},
        {"name": "capable", "bandwidth": {"egressRate": 8_000_000, "egressBurst": 80_000},
         "portMappings": [{"hostPort": 90, "containerPort": 9090}]},
    ]);
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": networks.to_string()});
    let pod = node.pod("web");
    let requested = of_runtime(annotations);
    let add = node.call("ADD", &pod, None, requested.clone());
    add.succeed().unwrap();
    let record = record("web");
    // None of them got a plugin that enforces the runtime's bandwidth.
    for attachment in record["attachments"].as_array().unwrap() {
        let plugins = attachment["list"]["plugins"].as_array();
        assert_eq!(plugins.map(Vec::len), Some(1), "{attachment}");
    }
    // DEL of a runtime that requests nothing any more.
    node.call(
        "DEL",
        &pod,
        None,
        json!({"pluginDirs": requested["pluginDirs"]}),
    )
    .succeed()
    .unwrap();
    for command in ["ADD", "DEL"] {
        let of_default = runtime_config(&format!("default {command} eth0"));
        assert_eq!(
            of_default["bandwidth"],
            requested["runtimeConfig"]["bandwidth"]
        );
        assert_eq!(
            of_default["portMappings"],
            requested["runtimeConfig"]["portMappings"]
        );
        assert_eq!(of_default.as_object().map(|it| it.len()), Some(2));
        assert_eq!(runtime_config(&format!("log {command} net1")), Value::Null);
        assert_eq!(runtime_config(&format!("log {command} net2")), Value::Null);
        let own = json!({
            "bandwidth": {"egressRate": 8_000_000, "egressBurst": 80_000},
            "portMappings": [{"hostPort": 90, "containerPort": 9090, "protocol": "tcp", "hostIP": ""}],
        });
        assert_eq!(runtime_config(&format!("log {command} net3")), own);
    }
}

/// The address that a runtime requests is one of the default network.
#[test]
fn cni_args_of_runtime_reach_default_network_alone() {
    let Some(node) = node() else { return };
    let list = json!({"cniVersion": "1.0.0", "plugins": [{"type": "log"}]});
    node.define_by_digest("shop/plain", &list);
    node.define_by_digest("kube-system/other", &list);
    let of_pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u";
    let all = format!("IP=10.0.0.9/24;{of_pod};MAC=02:00:00:00:00:09;GATEWAY=10.0.0.1;k8s_x=1");
    for (in_place, default) in [(None, "default"), (Some("other"), "log")] {
        let mut annotations = json!({"k8s.v1.cni.cncf.io/networks": "plain"});
        if let Some(name) = in_place {
            annotations["v1.multus-cni.io/default-network"] = name.into();
        }
        let mut config = recorder::default_network("default", &json!({}));
        config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": annotations});
        let pod = node.pod("web");
        for command in ["ADD", "CHECK", "DEL"] {
            let call = node.call(command, &pod, None, config.clone());
            call.variable("CNI_ARGS", &all).succeed().unwrap();
            assert_eq!(recorder::args(&format!("{default} {command} eth0")), all);
            assert_eq!(recorder::args(&format!("log {command} net1")), of_pod);
        }
        node.remove(&pod);
    }
}

#[test]
fn arguments_of_runtime_reach_network_in_place_of_default_one() {
    let Some(node) = node() else { return };
    let list = capable_list();
    node.define_by_digest("kube-system/other", &list);
    node.define_by_digest("shop/capable", &list);
    let annotations = json!({
        "v1.multus-cni.io/default-network": "other", "k8s.v1.cni.cncf.io/networks": "capable",
    });
    let pod = node.pod("web");
    let requested = of_runtime(annotations);
    node.call("ADD", &pod, None, requested.clone())
        .succeed()
        .unwrap();
    assert_eq!(recorder::calls(), ["log ADD eth0", "log ADD net1"]);
    let of_default = runtime_config("log ADD eth0");
    assert_eq!(
        of_default["bandwidth"],
        requested["runtimeConfig"]["bandwidth"]
    );
    assert_eq!(runtime_config("log ADD net1"), Value::Null);
}

/// The agent tells it from that of the pod's annotations, which the runtime requests, by the record.
#[test]
fn bandwidth_that_a_pod_selects_for_its_default_network_reaches_it_and_is_recorded_as_selected() {
    let Some(node) = node() else { return };
    let list = capable_list();
    node.define_by_digest("kube-system/other", &list);
    let own = json!({"egressRate": 8_000_000, "egressBurst": 80_000});
    for (name, selected) in [("web", Some(&own)), ("db", None)] {
        let mut selection = json!({"name": "other"});
        if let Some(own) = selected {
            selection["bandwidth"] = own.clone();
        }
        let annotations =
            json!({"v1.multus-cni.io/default-network": json!([selection]).to_string()});
        let pod = node.pod(name);
        let requested = of_runtime(annotations);
        let of_annotations = requested["runtimeConfig"]["bandwidth"].clone();
        node.call("ADD", &pod, None, requested).succeed().unwrap();
        let expected = selected.unwrap_or(&of_annotations);
        assert_eq!(runtime_config("log ADD eth0")["bandwidth"], *expected);
        let record = record(name);
        let is_selected = record["attachments"][0]["selectsBandwidth"] == true;
        assert_eq!(is_selected, selected.is_some(), "{record}");
        recorder::forget();
    }
}

/// The kubelet gave it to the pod, so no policy is about it.
#[test]
fn device_of_kubelet_is_in_the_list_and_in_arguments() {
    let Some(node) = node() else { return };
    let config = json!({"cniVersion": "1.0.0", "plugins": [
        {"type": "log", "capabilities": {"deviceID": true}}, {"type": "last"},
    ]});
    let with_device = |config: &Value, grant| Nad {
        device: Some("0000:03:02.3".to_owned()),
        ..nad(Some(config), grant)
    };
    node.define_nad("shop/nic", with_device(&config, by_digest(&config)));
    // The annotation's device does not count then.
    let dummy = json!({"cniVersion": "1.0.0", "type": "dummy", "capabilities": {"deviceID": true}});
    let grant = AttachmentGrant {
        plugin_types: ["dummy".to_owned()].into(),
        devices: ["0000:00:01.0".to_owned()].into(),
        ..AttachmentGrant::default()
    };
    node.define_nad("shop/dummy", with_device(&dummy, grant));
    let networks = json!([{"name": "nic"}, {"name": "dummy", "deviceID": "0000:00:01.0"}]);
    let pod = node.pod("web");
    let more = recorder::default_network("default", &json!({"capabilities": {"deviceID": true}}));
    for command in ["ADD", "DEL"] {
        node.call(command, &pod, Some(&networks.to_string()), more.clone())
            .succeed()
            .unwrap();
        for (plugin, interface, argument) in [
            ("log", "net1", json!({"deviceID": "0000:03:02.3"})),
            ("last", "net1", Value::Null),
            ("dummy", "net2", json!({"deviceID": "0000:03:02.3"})),
        ] {
            let found = recorder::config(&format!("{plugin} {command} {interface}"));
            assert_eq!(found["deviceID"], "0000:03:02.3", "{found}");
            assert_eq!(found["pciBusID"], "0000:03:02.3", "{found}");
            assert_eq!(found["runtimeConfig"], argument, "{found}");
        }
        let of_default = recorder::config(&format!("default {command} eth0"));
        assert_eq!(of_default.get("deviceID"), None);
        assert_eq!(of_default.get("runtimeConfig"), None);
    }
}

#[test]
fn cni_args_of_pod_precede_those_of_nad() {
    let Some(node) = node() else { return };
    node.define(
        "shop/args",
        &json!({"cniVersion": "1.0.0", "plugins": [
            {"type": "dummy", "args": {"cni": {"role": "web", "zone": "a"}}},
        ]}),
    );
    let networks = json!([
        {"name": "args", "cni-args": {"role": "db", "org.example.x": [1]}}, {"name": "args"},
    ]);
    let pod = node.pod("web");
    let config = recorder::default_network("default", &json!({}));
    let add = node.call("ADD", &pod, Some(&networks.to_string()), config);
    add.succeed().unwrap();
    let args = |call: &str| recorder::config(call)["args"].clone();
    let merged = json!({"cni": {"role": "db", "zone": "a", "org.example.x": [1]}});
    assert_eq!(args("dummy ADD net1"), merged);
    let of_nad = json!({"cni": {"role": "web", "zone": "a"}});
    assert_eq!(args("dummy ADD net2"), of_nad);
    assert_eq!(args("default ADD eth0"), Value::Null);
}

#[test]
fn cni_args_are_refused_where_only_a_digest_permits_the_nad() {
    let Some(node) = node() else { return };
    let config = json!({"cniVersion": "1.0.0", "type": "log", "args": {"cni": {"role": "web"}}});
    node.define_by_digest("shop/net", &config);
    let pod = node.pod("web");
    let with_args = json!([{"name": "net", "cni-args": {"role": "db"}}]);
    let error = refused(&node, &pod, &with_args);
    let expected =
        "netqos does not know the keys of plugin log; permit the configuration by its digest";
    assert!(error.contains(expected), "{error}");
    let without = recorder::default_network("default", &json!({}));
    let add = node.call("ADD", &pod, Some("net"), without);
    add.succeed().unwrap();
}

#[test]
fn request_that_no_plugin_declares_fails_the_pod() {
    let Some(node) = node() else { return };
    let network = |capabilities: Value| {
        let plugin = json!({"type": "log", "capabilities": capabilities});
        json!({"cniVersion": "1.0.0", "plugins": [plugin]})
    };
    // One that is declared false is not declared.
    let false_ones =
        json!({"mac": false, "infinibandGUID": false, "portMappings": false, "ips": false});
    node.define_by_digest("shop/none", &network(false_ones));
    let all = json!({"mac": true, "infinibandGUID": true, "portMappings": true, "ips": true});
    node.define_by_digest("shop/all", &network(all));
    let pod = node.pod("web");
    let port = json!([{"hostPort": 90, "containerPort": 9090}]);
    for (key, value, name, argument) in [
        (
            "mac",
            json!("02:00:00:00:00:07"),
            "mac",
            r#""02:00:00:00:00:07""#,
        ),
        (
            "infiniband-guid",
            json!("00:11:22:33:44:55:66:77"),
            "infinibandGUID",
            r#""00:11:22:33:44:55:66:77""#,
        ),
        ("ips", json!(["10.1.0.5"]), "ips", r#"["10.1.0.5"]"#),
        ("portMappings", port, "portMappings", r#"[{"#),
    ] {
        let request = |nad: &str| json!([{"name": nad, key: value}]);
        let error = refused(&node, &pod, &request("none"));
        let expected =
            format!("NetworkAttachmentDefinition shop/none: the pod requests {name} {argument}");
        assert!(error.contains(&expected), "{error}");
        let expected = "no plugin of the configuration has that capability";
        assert!(error.contains(expected), "{error}");
        let more = recorder::default_network("default", &json!({}));
        for command in ["ADD", "DEL"] {
            let networks = request("all").to_string();
            let call = node.call(command, &pod, Some(&networks), more.clone());
            call.succeed().unwrap();
        }
        let found = runtime_config("log ADD net1");
        let expected = argument.trim_end_matches('{');
        assert!(found[name].to_string().starts_with(expected), "{found}");
    }
}

/// Plugins are called as of 0.3.1.
#[test]
fn nad_of_no_version_or_an_old_one_is_attached() {
    let Some(node) = MultinetNode::new() else {
        return;
    };
    let pod = node.pod("web");
    let before = node.inventory();
    for version in [None, Some("0.1.0"), Some("0.2.0")] {
        let mut config = json!({"type": "bridge", "bridge": "data0",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}});
        if let Some(version) = version {
            config["cniVersion"] = version.into();
        }
        node.define("shop/old", &config);
        let add = node.call("ADD", &pod, Some("old"), json!({}));
        add.succeed().unwrap();
        let shown = node.in_pod(&pod, "ip address show net1");
        assert!(shown.contains("10.88.0."), "{version:?}: {shown}");
        node.del(&pod);
        assert_eq!(node.inventory(), before, "{version:?}");
    }
}
