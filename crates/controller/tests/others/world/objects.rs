//! Objects of the API server.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use netqos_faults::without_rules;
use netqos_k8s::Definition;
use serde_json::{Value, json};

use super::{HOME, World};

impl World {
    pub(super) fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "NetworkQoS" {
            resource.plural = "networkqoses".to_owned();
        }
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) fn create(&self, api_version: &str, kind: &str, namespace: &str, object: Value) {
        let api = self.api(api_version, kind, namespace);
        let mut object = object;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = self
            .runtime
            .block_on(api.create(&PostParams::default(), &object));
        match created {
            // Of a cluster that was there before.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other.unwrap()),
        }
    }

    /// Writes an object that its definition refuses, as one before it let it pass.
    pub(crate) fn write_past_rules(&self, object: Value) {
        let definition = Definition::of(&object).unwrap().crd().unwrap();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let written = self.cluster.write_past_rules(&definition, &object);
        self.runtime.block_on(written).unwrap();
    }

    /// A definition that takes whatever objects say, in place of ours of a kind, which it gives back.
    pub(crate) fn define_without_rules(&self, kind: &str) -> Value {
        let all = netqos_k8s::definitions().into_iter();
        let mut crds = all.map(|definition| definition.crd().unwrap());
        let ours = crds.find(|crd| crd.spec.names.kind == kind).unwrap();
        self.define(&serde_json::to_value(without_rules(&ours)).unwrap());
        serde_json::to_value(ours).unwrap()
    }

    pub(crate) fn merge(&self, of: (&str, &str, &str), name: &str, patch: &Value) {
        let api = self.api(of.0, of.1, of.2);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = api.patch(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    /// Applies an object in the name of a manager, without force.
    pub(crate) fn apply(
        &self,
        of: (&str, &str, &str),
        name: &str,
        manager: &str,
        object: &Value,
    ) -> kube::Result<DynamicObject> {
        let api = self.api(of.0, of.1, of.2);
        let (parameters, patch) = (PatchParams::apply(manager), Patch::Apply(object));
        self.runtime.block_on(api.patch(name, &parameters, &patch))
    }

    pub(crate) fn delete(&self, of: (&str, &str, &str), name: &str) {
        let api = self.api(of.0, of.1, of.2);
        let parameters = DeleteParams::default().grace_period(0);
        let deleted = api.delete(name, &parameters);
        self.runtime.block_on(deleted).unwrap();
    }

    pub(crate) fn get(&self, of: (&str, &str, &str), name: &str) -> Option<Value> {
        let api = self.api(of.0, of.1, of.2);
        let got = self.runtime.block_on(api.get_opt(name)).unwrap();
        got.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) fn list(&self, of: (&str, &str, &str)) -> Vec<DynamicObject> {
        let api = self.api(of.0, of.1, of.2);
        let listed = self.runtime.block_on(api.list(&ListParams::default()));
        listed.unwrap().items
    }

    /// A pod that runs on a node and has this address.
    pub(crate) fn create_pod(&self, name: &str, app: &str, node: &str, address: &str) {
        let namespace = self.namespace.clone();
        self.create(
            "v1",
            "Pod",
            &namespace,
            json!({
                "metadata": {"name": name, "labels": {"app": app}},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            }),
        );
        let api = self.api("v1", "Pod", &namespace);
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}]
        }});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
        let patched = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    /// A pod of an agent's DaemonSet, ready or not; or one that takes everything away.
    pub(crate) fn agent_pod(&self, name: &str, node: &str, is_ready: bool, leaves: bool) {
        let mut labels = json!({
            "app.kubernetes.io/name": "netqos", "app.kubernetes.io/component": "agent"
        });
        if leaves {
            labels["netqos.io/leaving"] = "true".into();
        }
        self.create(
            "v1",
            "Pod",
            HOME,
            json!({
                "metadata": {"name": name, "labels": labels},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            }),
        );
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = json!({"status": {"phase": "Running", "conditions": [{
            "type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": now
        }]}});
        let api = self.api("v1", "Pod", HOME);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
        let patched = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    pub(crate) fn delete_pod(&self, name: &str) {
        self.delete(("v1", "Pod", &self.namespace.clone()), name);
    }

    pub(crate) fn policies(&self) -> (&'static str, &'static str, &str) {
        ("k8s.ovn.org/v1alpha1", "NetworkQoS", &self.namespace)
    }

    /// A policy for the pods of the app `from`, about what they send to those of `to`.
    pub(crate) fn create_policy(&self, name: &str, from: &str, to: &str) {
        let (api_version, kind, namespace) = self.policies();
        self.create(
            api_version,
            kind,
            namespace,
            json!({
                "metadata": {"name": name},
                "spec": {
                    "priority": 10,
                    "podSelector": {"matchLabels": {"app": from}},
                    "egress": [{
                        "dscp": 10,
                        "classifier": {"to": [{"podSelector": {"matchLabels": {"app": to}}}]}
                    }]
                }
            }),
        );
    }
}
