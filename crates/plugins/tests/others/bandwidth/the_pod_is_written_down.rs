//! Which pod an attachment is of is known as long as the attachment is there, with limits or without.

use std::fs;
use std::path::Path;

use netqos_netlink::Socket;
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::calls::{call, config, gc, limited, start, succeeded};

const FOLDER: &str = "/run/netqos/pods";
const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=games;K8S_POD_NAME=web;\
    K8S_POD_INFRA_CONTAINER_ID=a;K8S_POD_UID=36cee2dc";

/// A call by a runtime that says which pod it is.
fn named(command: &str, pod: &Pod, config: &Value) -> Call {
    call(command, pod, config).variable("CNI_ARGS", ARGS)
}

fn written() -> Vec<Value> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten();
    let texts = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    texts
        .map(|text| serde_json::from_slice(&text).unwrap())
        .collect()
}

#[test]
fn from_add_to_del_or_gc() {
    let Some((_node, pod)) = start() else { return };
    let end = Socket::open().unwrap().link_by_name(pod.host_link());
    let end = end.unwrap();
    let expected = json!({
        "attachment": {"network": "net", "container": "a", "interface": "eth0"},
        "netns": pod.netns(), "namespace": "games", "name": "web", "uid": "36cee2dc",
        "addresses": ["10.99.1.2"], "ends": {"pod": end.related, "host": end.index},
    });
    // Nothing is limited, and there is no record of a limit.
    let unlimited = config(&pod, json!({}));
    named("ADD", &pod, &unlimited).succeed().unwrap();
    assert_eq!(written(), std::slice::from_ref(&expected));
    assert!(!Path::new("/run/netqos/attachments").exists());
    named("DEL", &pod, &unlimited)
        .variable("CNI_NETNS", "")
        .succeed()
        .unwrap();
    assert_eq!(written(), [Value::Null; 0]);

    let limited = limited(&pod, json!({}));
    let mut by_annotations = expected;
    by_annotations["has_annotations"] = true.into();
    for _ in 0..2 {
        named("ADD", &pod, &limited).succeed().unwrap();
        assert_eq!(written(), std::slice::from_ref(&by_annotations));
    }
    gc("other", json!([]));
    gc("net", json!([{"containerID": "a", "ifname": "eth0"}]));
    assert_eq!(written(), [by_annotations]);
    gc("net", json!([]));
    assert_eq!(written(), [Value::Null; 0]);
    // Of a runtime that does not say which pod it is.
    call("ADD", &pod, &limited).succeed().unwrap();
    assert_eq!(written(), [Value::Null; 0]);
    named("DEL", &pod, &limited).succeed().unwrap();
}

/// A pod is not to wait for what only the agent reads.
#[test]
fn what_cannot_be_written_is_said_and_the_limit_is_in_force() {
    let Some((_node, pod)) = start() else { return };
    fs::create_dir_all("/run/netqos").unwrap();
    fs::write(FOLDER, "no folder").unwrap();
    let limited = limited(&pod, json!({}));
    let outcome = succeeded(&named("ADD", &pod, &limited));
    let said = "net/a/eth0: the agent is not told which pod it is";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    named("CHECK", &pod, &limited).succeed().unwrap();
    // Nor does it stay for that.
    let outcome = succeeded(&named("DEL", &pod, &limited));
    let said = "net/a/eth0: which pod it was stays written down";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}
