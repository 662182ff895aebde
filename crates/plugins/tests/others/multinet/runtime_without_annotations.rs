//! Runtimes that do not pass the annotations of pods: the agent's files about them count.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use netqos_api::multinet::PodFile;
use netqos_testkit::{Call, Pod};
use serde_json::{Value, json};

use super::fixture::{MultinetNode, start};

const DIRECTORY: &str = "/run/netqos/multinet-pods";
/// The UID that the calls of the fixture name.
const UID: &str = "u";

/// Writes the file of a pod as the agent does.
fn write(pod: &Pod, uid: &str, annotations: Value) {
    let file =
        json!({"namespace": "shop", "name": pod.name(), "uid": uid, "annotations": annotations});
    write_file(pod, &file);
}

fn write_file(pod: &Pod, file: &Value) {
    fs::create_dir_all(DIRECTORY).unwrap();
    let fresh = Path::new(DIRECTORY).join("fresh.new");
    fs::write(&fresh, file.to_string()).unwrap();
    fs::rename(fresh, path(pod)).unwrap();
}

fn path(pod: &Pod) -> String {
    format!("{DIRECTORY}/{}.json", PodFile::document("shop", pod.name()))
}

/// A call of a runtime that does not know the capability.
fn call(node: &MultinetNode, command: &str, pod: &Pod) -> Call {
    node.call(command, pod, None, json!({"runtimeConfig": {}}))
}

fn interfaces(node: &MultinetNode, pod: &Pod) -> Vec<String> {
    let links = node.in_pod(pod, "ip -o link show");
    let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
    links
        .lines()
        .filter_map(name)
        .filter(|it| it != "lo")
        .collect()
}

#[test]
fn pod_without_annotation_starts_while_agent_is_away() {
    let Some((node, pod)) = start() else { return };
    node.hide_agent();
    write(&pod, UID, json!({}));
    call(&node, "ADD", &pod).succeed().unwrap();
    assert_eq!(interfaces(&node, &pod), ["eth0"]);
    call(&node, "DEL", &pod).succeed().unwrap();
    // A static pod: the runtime knows it by the hash of its manifest.
    let file = json!({"namespace": "shop", "name": "web", "uid": "of-object", "configHash": UID, "annotations": {}});
    write_file(&pod, &file);
    call(&node, "ADD", &pod).succeed().unwrap();
    call(&node, "DEL", &pod).succeed().unwrap();
}

#[test]
fn pod_whose_runtime_passes_that_it_has_no_annotation_needs_no_file() {
    let Some((node, pod)) = start() else { return };
    node.hide_agent();
    for passed in [json!({}), Value::Null] {
        let more = json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": passed}});
        node.call("ADD", &pod, None, more).succeed().unwrap();
        call(&node, "DEL", &pod).succeed().unwrap();
    }
    // Not a pod without networks.
    for passed in [
        json!("lan"),
        json!({"k8s.v1.cni.cncf.io/networks": ["lan"]}),
    ] {
        let more = json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": passed}});
        let (code, message) = node.call("ADD", &pod, None, more).fail().unwrap();
        assert_eq!(code, 7, "{message}");
        assert!(message.contains("is not a map of texts"), "{message}");
    }
}

#[test]
fn pod_is_on_the_networks_of_a_file_that_comes_later() {
    let Some((node, pod)) = start() else { return };
    // Of a pod that had the name before.
    write(&pod, "old", json!({}));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            write(&pod, UID, json!({"networks": "lan"}));
        });
        call(&node, "ADD", &pod).succeed().unwrap();
    });
    assert_eq!(interfaces(&node, &pod), ["eth0", "net1"]);
    call(&node, "DEL", &pod).succeed().unwrap();
}

#[test]
fn pod_without_file_is_to_be_tried_again_and_leaves_nothing() {
    let Some((node, pod)) = start() else { return };
    write(&pod, "old", json!({}));
    let before = node.inventory();
    let (code, message) = call(&node, "ADD", &pod).fail().unwrap();
    assert_eq!(code, 11, "{message}");
    assert!(message.contains("those of pod shop/web"), "{message}");
    // One that is not whole is none, and stays.
    fs::write(path(&pod), "{").unwrap();
    let (code, message) = call(&node, "ADD", &pod).fail().unwrap();
    assert_eq!(code, 11, "{message}");
    assert_eq!(node.inventory(), before);
}

#[test]
fn agent_answers_for_pod_with_long_annotations_or_without_uid() {
    let Some((node, pod)) = start() else { return };
    write(&pod, UID, Value::Null);
    let without_uid = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web";
    for call in [
        call(&node, "ADD", &pod),
        call(&node, "ADD", &pod).variable("CNI_ARGS", without_uid),
    ] {
        let (code, message) = call.fail().unwrap();
        assert_eq!(code, 11, "{message}");
        assert!(message.contains("the pod is not known yet"), "{message}");
        write(&pod, UID, json!({}));
    }
    assert_eq!(node.asked(), 2);
}
