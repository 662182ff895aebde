//! What a pod is of another system.

use serde_json::Value;

use crate::Homes;
use crate::homes::is_in;

/// By which OVN-Kubernetes is told to enforce NetworkQoS: in an environment, and as a flag.
const VARIABLE: &str = "OVN_NETWORK_QOS_ENABLE";
const FLAG: &str = "--enable-network-qos";
/// The first version of Calico that limits pods: major and minor.
const CALICO_LIMITS_FROM: (u32, u32) = (3, 30);

/// A pod of another system, on the node that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// OVN-Kubernetes of a node.
    OvnKubernetes {
        /// Whether it is told to enforce NetworkQoS. `None`: the pod does not say; a ConfigMap may.
        network_qos: Option<bool>,
    },
    /// Calico of a node.
    Calico {
        /// Whether it is of a version that limits pods. `None`: its image does not say which it is.
        limits: Option<bool>,
    },
    /// koordlet.
    Koordlet,
    /// Koordinator's manager, which serves the whole cluster.
    KoordManager,
}

impl Neighbour {
    /// What a Pod is, where others live there: `None` too where a DaemonSet has not made it, or, that of
    /// a manager, a ReplicaSet.
    pub fn of_pod(pod: &Value, homes: &Homes) -> Option<Self> {
        // Every pod of a cluster is asked.
        Self::said(pod).filter(|it| it.is_at_home(pod, homes) && is_of_a(it.maker(), pod))
    }

    const fn maker(self) -> &'static str {
        match self {
            Self::OvnKubernetes { .. } | Self::Calico { .. } | Self::Koordlet => "DaemonSet",
            Self::KoordManager => "ReplicaSet",
        }
    }

    /// What the Pods of a DaemonSet are.
    pub fn of_daemon_set(set: &Value, homes: &Homes) -> Option<Self> {
        let said = set.pointer("/spec/template").and_then(Self::said);
        said.filter(|it| it.is_at_home(set, homes))
    }

    /// What something with labels and containers says it is.
    fn said(pod: &Value) -> Option<Self> {
        let label = |name: &str| pod.get("metadata")?.get("labels")?.get(name)?.as_str();
        if label("koord-app") == Some("koord-manager") {
            return Some(Self::KoordManager);
        }
        let is_ovn = label("app").is_some_and(|app| app.starts_with("ovnkube-node"));
        let is_calico = matches!(label("k8s-app"), Some("calico-node" | "canal"));
        if !is_ovn && !is_calico && label("koord-app") != Some("koordlet") {
            return None;
        }
        if pod.pointer("/spec/hostNetwork")?.as_bool() != Some(true) {
            return None;
        }
        Some(match (is_ovn, is_calico) {
            (true, _) => Self::OvnKubernetes {
                network_qos: network_qos(pod),
            },
            (_, true) => Self::Calico {
                limits: calico_version(pod).map(|version| version >= CALICO_LIMITS_FROM),
            },
            _ => Self::Koordlet,
        })
    }

    fn is_at_home(self, object: &Value, homes: &Homes) -> bool {
        let homes = match self {
            Self::OvnKubernetes { .. } => &homes.ovn_kubernetes,
            Self::Calico { .. } => &homes.calico,
            Self::Koordlet | Self::KoordManager => &homes.koordinator,
        };
        is_in(object, homes)
    }
}

/// Whether a DaemonSet, or a ReplicaSet, controls a pod.
fn is_of_a(kind: &str, pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners.any(|owner| {
        let text = |field: &str| owner.get(field).and_then(Value::as_str);
        text("kind") == Some(kind)
            && text("apiVersion").is_some_and(|it| it.starts_with("apps/"))
            && owner.get("controller") == Some(&Value::Bool(true))
    })
}

/// The major and minor version of Calico, by the tag of its container's image. Other editions count otherwise.
fn calico_version(pod: &Value) -> Option<(u32, u32)> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let text = |container: &Value, field: &str| Some(container.get(field)?.as_str()?.to_owned());
    let mut images = { containers.into_iter().flatten() }
        .filter(|it| text(it, "name").as_deref() == Some("calico-node"))
        .filter_map(|it| text(it, "image"));
    let image = images.next()?;
    let (image, _) = image.split_once('@').unwrap_or((&image, ""));
    let (repository, tag) = image.rsplit_once(':')?;
    if !repository.contains("calico") || repository.contains("tigera") {
        return None;
    }
    let mut numbers = tag.strip_prefix('v')?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// What the containers of a pod of OVN-Kubernetes say of NetworkQoS; one that says yes counts.
fn network_qos(pod: &Value) -> Option<bool> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let said = containers.into_iter().flatten().filter_map(of_container);
    said.max()
}

fn of_container(container: &Value) -> Option<bool> {
    let list = |name: &str| container.get(name).and_then(Value::as_array);
    let variables = list("env").into_iter().flatten();
    let by_variable = variables
        .filter(|it| it.get("name").and_then(Value::as_str) == Some(VARIABLE))
        .filter_map(|it| Some(it.get("value")?.as_str()? == "true"));
    let words = ["command", "args"].into_iter().filter_map(list).flatten();
    // A shell's script is one word with many in it.
    let words = words.filter_map(Value::as_str);
    let words = words.flat_map(str::split_whitespace);
    let by_flag = words.filter_map(|word| match word.strip_prefix(FLAG)? {
        "" | "=true" => Some(true),
        "=false" => Some(false),
        _ => None,
    });
    by_variable.chain(by_flag).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ovn(container: Value) -> Option<Neighbour> {
        Neighbour::of_pod(
            &pod("ovn-kubernetes", "app", "ovnkube-node", container),
            &Homes::default(),
        )
    }

    fn pod(namespace: &str, label: &str, value: &str, container: Value) -> Value {
        json!({
            "metadata": {
                "namespace": namespace, "labels": {label: value},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": value, "uid": "1",
                    "controller": true
                }]
            },
            "spec": {"hostNetwork": true, "containers": [{"name": "northd"}, container]}
        })
    }

    #[test]
    fn ovn_kubernetes_says_by_a_variable_or_a_flag_whether_it_enforces_network_qos() {
        let env = |value: &str| json!({"env": [{"name": VARIABLE, "value": value}]});
        let from_elsewhere = json!({"env": [{"name": VARIABLE, "valueFrom": {}}]});
        let script =
            "exec /usr/bin/ovnkube --init-node ${K8S_NODE} --enable-network-qos \\\n --v=4";
        for (container, network_qos) in [
            (env("true"), Some(true)),
            (env("false"), Some(false)),
            (env(""), Some(false)),
            (from_elsewhere, None),
            (json!({"command": ["/bin/bash", "-c", script]}), Some(true)),
            (json!({"args": ["--enable-network-qos=false"]}), Some(false)),
            (json!({"args": ["--enable-network-qos-of-others"]}), None),
            (json!({"args": 7, "env": "none"}), None),
        ] {
            let is = Some(Neighbour::OvnKubernetes { network_qos });
            assert_eq!(ovn(container.clone()), is, "{container}");
        }
    }

    #[test]
    fn calico_says_by_the_tag_of_its_image_whether_it_limits() {
        let sets = [("calico-system", "calico-node"), ("kube-system", "canal")];
        for (image, limits) in [
            ("quay.io/calico/node:v3.30.0", Some(true)),
            ("calico/node:v3.29.5", Some(false)),
            ("rancher/mirrored-calico-node:v3.31.2-1", Some(true)),
            ("registry:5000/calico/node:v4.0.0@sha256:00", Some(true)),
            ("registry:5000/calico/node@sha256:00", None),
            ("calico/node:master", None),
            ("calico/node", None),
            ("rancher/hardened-calico:v3.29.2-build20250306", Some(false)),
            ("tigera/cnx-node:v3.21.0", None),
        ] {
            let container = json!({"name": "calico-node", "image": image});
            for (namespace, app) in sets {
                let node = pod(namespace, "k8s-app", app, container.clone());
                let is = Neighbour::of_pod(&node, &Homes::default());
                assert_eq!(is, Some(Neighbour::Calico { limits }), "{image}");
            }
        }
    }

    /// Who may create pods in a namespace of their own changes nothing.
    #[test]
    fn a_pod_that_only_says_what_it_is_is_nobody() {
        let homes = Homes::default();
        let env = json!({"env": [{"name": VARIABLE, "value": "true"}]});
        for (home, label, value) in [
            ("ovn-kubernetes", "app", "ovnkube-node-dpu"),
            ("openshift-ovn-kubernetes", "app", "ovnkube-node"),
            ("koordinator-system", "koord-app", "koordlet"),
            ("calico-system", "k8s-app", "calico-node"),
        ] {
            let genuine = pod(home, label, value, env.clone());
            assert!(Neighbour::of_pod(&genuine, &homes).is_some(), "{genuine}");
            let owner = "/metadata/ownerReferences/0";
            for (path, said) in [
                ("/metadata/namespace", json!("games")),
                ("/metadata/namespace", json!("")),
                ("/metadata/namespace", Value::Null),
                ("/spec/hostNetwork", json!(false)),
                ("/spec/hostNetwork", Value::Null),
                (owner, json!({})),
                (&format!("{owner}/controller"), json!(false)),
                (&format!("{owner}/kind"), json!("ReplicaSet")),
                (&format!("{owner}/apiVersion"), json!("games.io/v1")),
            ] {
                let mut forged = genuine.clone();
                *forged.pointer_mut(path).unwrap() = said;
                assert_eq!(Neighbour::of_pod(&forged, &homes), None, "{forged}");
            }
        }
        // One lives in no home of another's.
        let stray = pod("koordinator-system", "app", "ovnkube-node", env.clone());
        assert_eq!(Neighbour::of_pod(&stray, &homes), None);
        let elsewhere = Homes {
            ovn_kubernetes: vec!["net".to_owned(), String::new()],
            ..homes
        };
        let of = |namespace| pod(namespace, "app", "ovnkube-node", env.clone());
        assert!(Neighbour::of_pod(&of("net"), &elsewhere).is_some());
        for namespace in ["ovn-kubernetes", ""] {
            assert_eq!(Neighbour::of_pod(&of(namespace), &elsewhere), None);
        }
    }

    #[test]
    fn koordinators_manager_is_a_pod_of_a_deployment_in_its_namespace() {
        let homes = Homes::default();
        let mut manager = pod(
            "koordinator-system",
            "koord-app",
            "koord-manager",
            json!({}),
        );
        assert_eq!(Neighbour::of_pod(&manager, &homes), None, "a DaemonSet's");
        manager["spec"]["hostNetwork"] = Value::Null;
        manager["metadata"]["ownerReferences"][0]["kind"] = json!("ReplicaSet");
        let is = Some(Neighbour::KoordManager);
        assert_eq!(Neighbour::of_pod(&manager, &homes), is);
        manager["metadata"]["namespace"] = json!("games");
        assert_eq!(Neighbour::of_pod(&manager, &homes), None);
    }

    #[test]
    fn a_daemon_set_is_what_its_pods_are() {
        let homes = Homes::default();
        let set = |namespace: &str| {
            json!({
                "metadata": {"namespace": namespace},
                "spec": {"template": {
                    "metadata": {"labels": {"koord-app": "koordlet"}},
                    "spec": {"hostNetwork": true}
                }}
            })
        };
        let is = Neighbour::of_daemon_set(&set("koordinator-system"), &homes);
        assert_eq!(is, Some(Neighbour::Koordlet));
        assert_eq!(Neighbour::of_daemon_set(&set("games"), &homes), None);
    }

    #[test]
    fn other_pods_are_nobody() {
        let homes = Homes::default();
        for (label, value) in [("app", json!("web")), ("app", json!(7))] {
            let mut other = pod("ovn-kubernetes", label, "", json!({}));
            other["metadata"]["labels"][label] = value;
            assert_eq!(Neighbour::of_pod(&other, &homes), None, "{other}");
        }
        assert_eq!(Neighbour::of_pod(&json!(7), &homes), None);
    }
}
