//! The made-up cluster of `cargo xtask bench-index`, as objects of an API server, of the size that
//! objects are of.

use netqos_core::objects::Pod;
use serde_json::{Value, json};

use crate::bench::index::{PODS_PER_NAMESPACE, application, namespace_name, pod};

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It was made.
    Pending,
    /// It has a node.
    Scheduled,
    /// It has an address.
    Running,
    /// It is told to go.
    Going,
    /// Nothing of it runs any more.
    Ended,
}

/// A namespace.
pub fn namespace(number: u32) -> Value {
    let tier = if number.is_multiple_of(100) {
        "shared"
    } else {
        "own"
    };
    let name = namespace_name(number);
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": name, "uid": uid(2, number),
            "labels": {"tier": tier, "kubernetes.io/metadata.name": name}
        },
        "status": {"phase": "Active"}
    })
}

/// A node.
pub fn node(number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node_name(number), "uid": uid(3, number)}
    })
}

pub fn node_name(number: u32) -> String {
    format!("node-{number}")
}

/// The pod of this number that came after so many others of it, on one of so many nodes.
pub fn nth_pod(number: u32, before: u32, nodes: u32) -> Pod {
    let mut pod = pod(number, false);
    pod.node = Some(node_name(number % nodes).into());
    if before > 0 {
        let name = format!("{}-{before}", pod.id.name.name);
        pod.id.name = netqos_core::ObjectName::new(&pod.id.name.namespace, &name);
        pod.id.uid = format!("0a1b2c3d-{before:04x}-4000-8000-{number:012x}").into();
        let [_, a, b, c] = number.to_be_bytes();
        let one = [10 + (before % 100) as u8, a, b, c].into();
        for addresses in &mut pod.addresses {
            addresses.addresses = [one].into();
        }
    }
    pod
}

/// A pod's object: 5 kB, as those of real clusters.
pub fn pod_object(pod: &Pod, age: Age) -> Value {
    let settings: Vec<Value> = (0..25)
        .map(|it| json!({"name": format!("SETTING_{it}"), "value": "of the length that values are of"}))
        .collect();
    let address = pod.addresses.iter().flat_map(|it| &it.addresses).next();
    let address = address.map(ToString::to_string).unwrap_or_default();
    let (mut spec, mut status) = (
        json!({
            "containers": [{
                "name": "c", "image": "registry.example.com/shop/service:1.2.3", "env": settings,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
            }],
            "serviceAccountName": "default",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            ]
        }),
        json!({"phase": "Pending"}),
    );
    if age != Age::Pending {
        spec["nodeName"] = pod.node.as_deref().into();
    }
    if matches!(age, Age::Running | Age::Going | Age::Ended) {
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let conditions = conditions.map(|name| {
            json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let state = match age {
            Age::Ended => {
                json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}})
            }
            _ => json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        };
        status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": conditions,
            "containerStatuses": [{
                "name": "c", "image": "registry.example.com/shop/service:1.2.3",
                "imageID": "registry.example.com/shop/service@sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
                "ready": age == Age::Running, "restartCount": 0, "state": state
            }]
        });
        if age == Age::Ended {
            status["phase"] = "Succeeded".into();
        }
    }
    let manager = |name: &str| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:env": {}, "f:image": {}, "f:livenessProbe": {}, "f:resources": {}
            }}}, "f:status": {"f:conditions": {}, "f:podIP": {}, "f:phase": {}}}
        })
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": &*pod.id.name.name, "namespace": &*pod.id.name.namespace,
            "uid": &*pod.id.uid, "labels": pod.labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-7d4b9c6f5",
                "uid": uid(4, 1), "controller": true, "blockOwnerDeletion": true
            }],
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [manager("kube-controller-manager"), manager("kubelet")]
        },
        "spec": spec,
        "status": status
    });
    if matches!(age, Age::Going | Age::Ended) {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    }
    object
}

/// A policy: [`index::policy`](crate::bench::index::policy) as somebody writes it.
pub fn policy_object(number: u32, namespaces: u32) -> Value {
    let namespace = number % namespaces;
    let app = |number: u32| json!({"matchLabels": {"app.kubernetes.io/name": application(number)}});
    let other = namespace_name((namespace + 1) % namespaces);
    let to = [
        json!([]),
        json!([{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]),
        json!([{"podSelector": app(number + 1)}, {"podSelector": app(number + 2)}]),
        json!([{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": other}},
            "podSelector": app(number)
        }]),
        json!([{"namespaceSelector": {"matchLabels": {"tier": "shared"}}}]),
        json!([{"podSelector": {}}]),
    ];
    let egress = to.into_iter().zip(1..).map(|(to, mark)| {
        let mut classifier = json!({"ports": [{"protocol": "TCP", "port": 443}]});
        if to != json!([]) {
            classifier["to"] = to;
        }
        json!({"dscp": mark, "classifier": classifier})
    });
    let selector = match number % 5 {
        0 => json!({}),
        _ => app(number / namespaces),
    };
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {
            "name": format!("qos-{number}"), "namespace": namespace_name(namespace),
            "uid": uid(5, number), "generation": 1
        },
        "spec": {
            "priority": number % 100,
            "podSelector": selector,
            "egress": egress.collect::<Vec<_>>()
        }
    })
}

/// What a node's agent says: all policies of the namespaces that its pods are in.
pub fn report(node: u32, nodes: u32, pods: u32, policies: u32) -> Value {
    let namespaces = (pods / PODS_PER_NAMESPACE).max(1);
    let here = (node..pods).step_by(nodes as usize);
    let mut its: Vec<u32> = here.map(|pod| pod / PODS_PER_NAMESPACE).collect();
    its.dedup();
    let of_namespace = |namespace: u32| (namespace..policies).step_by(namespaces as usize);
    let in_force = its.into_iter().flat_map(|namespace| {
        of_namespace(namespace).map(move |number| {
            json!({
                "namespace": namespace_name(namespace), "name": format!("qos-{number}"),
                "generation": 1
            })
        })
    });
    json!({
        "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkQoSNodeReport",
        "metadata": {"name": node_name(node), "uid": uid(6, node)},
        "agentVersion": env!("CARGO_PKG_VERSION"),
        "policies": in_force.collect::<Vec<_>>(),
        "problems": []
    })
}

fn uid(kind: u32, number: u32) -> String {
    format!("0a1b2c3d-{kind:04x}-4000-9000-{number:012x}")
}

#[cfg(test)]
mod tests {
    use netqos_k8s::{Object, object_from_value};

    use super::*;
    use crate::bench::index::policy;

    #[test]
    fn what_is_measured_by_way_of_a_server_is_what_is_measured_without() {
        for number in [0, 1, 99, 4_711] {
            let read = object_from_value(&policy_object(number, 20)).unwrap();
            assert_eq!(read, Object::Policy(policy(number, 20)), "policy {number}");
            for before in [0, 3] {
                let pod = nth_pod(number, before, 7);
                let object = pod_object(&pod, Age::Running);
                let Object::Pod(read, problems, ..) = object_from_value(&object).unwrap() else {
                    panic!("{number} is no pod");
                };
                let mut read = *read;
                // That of the default network, which the pod that is measured alone leaves out.
                for of_network in &mut read.addresses {
                    assert_eq!(of_network.interface.take().as_deref(), Some("eth0"));
                }
                assert_eq!((read, problems.len()), (pod, 0));
            }
        }
    }

    #[test]
    fn a_pod_has_no_address_before_it_runs_and_none_that_counts_once_it_has_ended() {
        let pod = nth_pod(1, 0, 7);
        let read = |age| match object_from_value(&pod_object(&pod, age)).unwrap() {
            Object::Pod(read, ..) => *read,
            other => panic!("{other:?}"),
        };
        assert!(read(Age::Scheduled).addresses.is_empty());
        assert!(!read(Age::Going).finished);
        assert!(read(Age::Ended).finished);
        let size = pod_object(&pod, Age::Running).to_string().len();
        assert!((4_000..6_000).contains(&size), "{size}");
    }
}
