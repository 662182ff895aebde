//! What the objects of a cluster tell, for who may read them all: `netqos check`.

use std::collections::BTreeMap;

use netqos_api::koordinator::{BACKEND_LABEL, BackendKind, NodeSlo};
use serde_json::{Value, json};

use crate::homes::is_in;
use crate::{
    AtWork, Choice, Concern, Finding, Homes, Neighbour, System, is_written_by_ovn_kubernetes,
};

/// The definition of NetworkQoS, which OVN-Kubernetes installs, too.
const DEFINITION: &str = "networkqoses.k8s.ovn.org";
/// What netqos' definition has and OVN-Kubernetes' has not.
const OURS: [(&str, &str); 3] = [
    ("spec", "netAttachRefs"),
    ("status", "nodes"),
    ("status", "selectedPods"),
];

/// Objects of a cluster as an API server tells them, as many as could be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Objects<'o> {
    /// CustomResourceDefinitions.
    pub definitions: &'o [Value],
    /// DaemonSets of all namespaces.
    pub daemon_sets: &'o [Value],
    /// ConfigMaps: `cilium-config`, of all namespaces.
    pub config_maps: &'o [Value],
    /// NetworkQoS objects with their `metadata.managedFields`.
    pub policies: &'o [Value],
    /// NodeSLOs, of which each is of the node of its name.
    pub node_slos: &'o [Value],
    /// Nodes.
    pub nodes: &'o [Value],
}

impl Objects<'_> {
    /// What is at work in the cluster, as far as these tell.
    pub fn at_work(&self, homes: &Homes) -> AtWork {
        let mut at_work = AtWork {
            ovn_statuses: self.policies.iter().any(is_written_by_ovn_kubernetes),
            ..AtWork::default()
        };
        for set in self.daemon_sets {
            if let Some(neighbour) = Neighbour::of_daemon_set(set, homes) {
                at_work.meet(neighbour);
            }
            let is = |name: &str, homes: &[String]| {
                set.pointer("/metadata/name") == Some(&json!(name)) && is_in(set, homes)
            };
            at_work.koordlet |= is("koordlet", &homes.koordinator);
            at_work.terway_qos |= is("terway-qos", &homes.terway_qos);
        }
        at_work.koordlet_divides = at_work
            .koordlet
            .then(|| self.is_left_to_koordlet())
            .flatten();
        let config_maps = self.config_maps.iter();
        let mut of_cilium = config_maps.filter(|it| is_in(it, &homes.cilium));
        at_work.cilium_egress = of_cilium.any(has_bandwidth_manager);
        at_work
    }

    /// Whether lines are left to koordlet, on one node at least, where `netQOSPolicy` has it divide any.
    fn is_left_to_koordlet(&self) -> Option<bool> {
        let labels = self.nodes.iter().filter_map(|node| {
            let labels = node.pointer("/metadata/labels")?;
            let kind: BackendKind = labels.get(BACKEND_LABEL)?.as_str()?.parse().ok()?;
            Some((node.pointer("/metadata/name")?.as_str()?, kind))
        });
        let labels: BTreeMap<&str, BackendKind> = labels.collect();
        let left = self.node_slos.iter().filter_map(|slo| {
            let spec = NodeSlo::from_spec(slo.get("spec")?.as_object()?).ok()?;
            spec.policy.filter(|it| it.is_koordinators())?;
            let label = labels.get(slo.pointer("/metadata/name")?.as_str()?);
            Some(label.is_none_or(|it| *it == BackendKind::None))
        });
        left.max()
    }

    /// What is to be said of that, where this was chosen.
    pub fn findings(&self, choice: &Choice, homes: &Homes) -> Vec<Finding> {
        let mut findings = choice.findings(&self.at_work(homes));
        let of_ours = |it: &&Value| it.pointer("/metadata/name") == Some(&json!(DEFINITION));
        let definition = self.definitions.iter().find(of_ours);
        findings.extend(definition.and_then(of_definition));
        findings
    }
}

fn has_bandwidth_manager(config: &Value) -> bool {
    let named = |path: &str, text: &str| config.pointer(path) == Some(&json!(text));
    named("/metadata/name", "cilium-config") && named("/data/enable-bandwidth-manager", "true")
}

/// Whether the definition of NetworkQoS is another one than netqos'.
fn of_definition(definition: &Value) -> Option<Finding> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let schema = versions
        .iter()
        .find(|it| it.get("name") == Some(&json!("v1alpha1")))?
        .pointer("/schema/openAPIV3Schema")?;
    let lacking: Vec<String> = OURS
        .into_iter()
        .filter(|(part, field)| {
            let path = format!("/properties/{part}/properties/{field}");
            schema.pointer(&path).is_none()
        })
        .map(|(part, field)| format!("{part}.{field}"))
        .collect();
    if lacking.is_empty() {
        return None;
    }
    let message = format!(
        "the definition {DEFINITION} is not the one of netqos, but one as OVN-Kubernetes installs it: \
         without {}. netqos enforces what it has, and leaves out of the status what it lacks",
        lacking.join(", ")
    );
    let to_do = "where OVN-Kubernetes does not enforce NetworkQoS: kubectl apply --server-side \
                 --force-conflicts -k deploy/crds; where it does, leave it";
    Some(Finding::new(
        Concern::Definition,
        System::OvnKubernetes,
        false,
        &message,
        to_do,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(objects: &Objects<'_>) -> Vec<(Concern, System, bool)> {
        let findings = objects
            .findings(&Choice::default(), &Homes::default())
            .into_iter();
        findings
            .map(|it| (it.concern, it.system, it.is_left))
            .collect()
    }

    #[test]
    fn daemon_sets_and_a_config_map_tell_who_is_at_work() {
        let set = |namespace: &str, name: &str, labels: Value, env: Value| {
            json!({
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"template": {
                    "metadata": {"labels": labels},
                    "spec": {"hostNetwork": true, "containers": [{"env": env}]}
                }}
            })
        };
        let env = json!([{"name": "OVN_NETWORK_QOS_ENABLE", "value": "true"}]);
        let all_in = |ovn_kubernetes: &str, koordinator: &str, system: &str| {
            let labels = json!({"app": "ovnkube-node"});
            [
                set(ovn_kubernetes, "ovnkube-node", labels, env.clone()),
                set(koordinator, "koordlet", json!({}), json!([])),
                set(system, "terway-qos", json!({}), json!([])),
            ]
        };
        let config = |namespace: &str, value: &str| {
            json!({
                "metadata": {"name": "cilium-config", "namespace": namespace},
                "data": {"enable-bandwidth-manager": value}
            })
        };
        let sets = all_in("ovn-kubernetes", "koordinator-system", "kube-system");
        let on = [config("cilium", "true")];
        let objects = Objects {
            daemon_sets: &sets,
            config_maps: &on,
            ..Objects::default()
        };
        assert_eq!(
            said(&objects),
            [
                (Concern::NetworkQos, System::OvnKubernetes, true),
                (Concern::Annotations, System::OvnKubernetes, true),
                (Concern::Annotations, System::Cilium, true),
                (Concern::Beside, System::TerwayQos, false),
                (Concern::Beside, System::Koordlet, false),
            ]
        );
        let labels = json!({"k8s-app": "calico-node"});
        let calico = [set("calico-system", "calico-node", labels, json!([]))];
        let objects_of_calico = Objects {
            daemon_sets: &calico,
            ..Objects::default()
        };
        let left = (Concern::Annotations, System::Calico, true);
        assert_eq!(said(&objects_of_calico), [left]);
        let slos = ["a", "b"].map(|name| {
            json!({
                "metadata": {"name": name},
                "spec": {"resourceQOSStrategy": {"policies": {"netQOSPolicy": "terway-qos"}}}
            })
        });
        let node = |name: &str, backend: &str| json!({"metadata": {"name": name, "labels": {BACKEND_LABEL: backend}}});
        for (label_of_b, is_left) in [("none", true), ("cake", true), ("kernel", false)] {
            let nodes = [node("a", "terway-qos"), node("b", label_of_b)];
            let told = Objects {
                node_slos: &slos,
                nodes: &nodes,
                ..objects
            };
            let told = said(&told).pop();
            assert_eq!(told, Some((Concern::Lines, System::Koordlet, is_left)));
        }
        // The same names in a namespace of somebody else's.
        let theirs = all_in("games", "games", "games");
        for off in [[config("kube-system", "false")], [config("games", "true")]] {
            let objects = Objects {
                daemon_sets: &theirs,
                config_maps: &off,
                ..Objects::default()
            };
            assert_eq!(said(&objects), []);
        }
    }

    #[test]
    fn a_definition_that_lacks_what_netqos_has_is_told_of() {
        let definition = |properties: Value| {
            json!({
                "metadata": {"name": DEFINITION},
                "spec": {"versions": [{
                    "name": "v1alpha1",
                    "schema": {"openAPIV3Schema": {"properties": properties}}
                }]}
            })
        };
        let ours = [definition(json!({
            "spec": {"properties": {"netAttachRefs": {}}},
            "status": {"properties": {"nodes": {}, "selectedPods": {}}}
        }))];
        let objects = Objects {
            definitions: &ours,
            ..Objects::default()
        };
        assert_eq!(said(&objects), []);
        let theirs = [definition(json!({
            "spec": {"properties": {"networkSelectors": {}}},
            "status": {"properties": {"conditions": {}, "status": {}}}
        }))];
        let objects = Objects {
            definitions: &theirs,
            ..Objects::default()
        };
        let findings = objects.findings(&Choice::default(), &Homes::default());
        assert_eq!(findings.len(), 1, "{findings:?}");
        let message = &findings[0].message;
        assert!(
            message.contains("without spec.netAttachRefs, status.nodes, status.selectedPods"),
            "{message}"
        );
    }
}
