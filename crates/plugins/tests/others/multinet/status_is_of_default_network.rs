//! STATUS: without a default network no pod can start.

use std::fs;
use std::path::Path;

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::fixture::{BIN, MultinetNode, PLUGINS, start, write_script};

fn status(node: &MultinetNode, pod: &Pod, more: Value) -> Result<Value, (u64, String)> {
    let mut config = json!({"cniVersion": "1.1.0", "pluginDirs": [BIN, PLUGINS]});
    let more = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(more);
    let call = node.call("STATUS", pod, None, config);
    call.succeed().map_err(|_| call.fail().unwrap())
}

#[test]
fn status_fails_without_a_default_network() {
    let Some((node, pod)) = start() else { return };
    let lists = Path::new("/run/lists");
    fs::create_dir_all(lists).unwrap();
    let list = |name: &str, kind: &str| {
        let plugins = json!([{"type": kind, "bridge": "pods0"}]);
        json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}).to_string()
    };
    let config = json!({"defaultNetwork": null, "confDir": lists});
    let own = list("ours", "netqos-multinet");
    fs::write(lists.join("00-netqos.conflist"), own).unwrap();
    let (code, error) = status(&node, &pod, config.clone()).unwrap_err();
    assert_eq!(code, 50, "{error}");
    assert!(error.contains("no pod can start"), "{error}");
    // The runtime tries again to start the pod.
    let add = node.call("ADD", &pod, None, config.clone());
    let (code, error) = add.fail().unwrap();
    assert_eq!(code, 11, "{error}");
    fs::write(lists.join("10-pods.conflist"), list("pods", "bridge")).unwrap();
    status(&node, &pod, config.clone()).unwrap();
    // A list that cannot be read, before it.
    fs::write(lists.join("05-broken.conflist"), "{").unwrap();
    let (code, error) = status(&node, &pod, config).unwrap_err();
    assert_eq!(code, 50, "{error}");
    assert!(error.contains("05-broken.conflist"), "{error}");
}

#[test]
fn status_is_what_plugins_of_default_network_answer() {
    let Some((node, pod)) = start() else { return };
    let before = node.inventory();
    let script = "#!/bin/sh\n[ $CNI_COMMAND = STATUS ] || exit 1\n[ ! -e /run/answer ] || { cat /run/answer; exit 1; }\n";
    write_script("uplink", script);
    let list = |plugin: &str| {
        let plugins = json!([{"type": plugin}]);
        json!({"defaultNetwork": {"cniVersion": "1.1.0", "name": "pods", "plugins": plugins}})
    };
    status(&node, &pod, list("uplink")).unwrap();
    for code in [50, 51] {
        let answer = json!({"cniVersion": "1.1.0", "code": code, "msg": "the uplink is down"});
        fs::write("/run/answer", answer.to_string()).unwrap();
        let error = status(&node, &pod, list("uplink")).unwrap_err();
        assert_eq!(error, (code, "the uplink is down".to_owned()));
    }
    let (code, error) = status(&node, &pod, list("missing")).unwrap_err();
    assert_eq!(code, 50, "{error}");
    assert!(
        error.contains(r#"failed to find plugin "missing""#),
        "{error}"
    );
    assert_eq!(node.inventory(), before);
}
