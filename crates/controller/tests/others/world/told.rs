//! What nodes, and others, say, and what is said of policies then.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::{HOME, World};

impl World {
    /// The policy `p` of the pod `a`, which the agent of `node1` says is in force.
    pub(crate) fn put_in_force(&self) {
        self.create_pod("a", "web", "node1", "10.0.0.1");
        self.create_policy("p", "web", "db");
        self.report("node1", &[("p", 1)], &json!([]));
    }

    /// The node `node1` says that these are in force on it, in the words of a report.
    pub(crate) fn report_as(&self, policies: &Value) {
        self.apply_report("node1", None, policies, &json!([]));
    }

    /// A node says what is in force on it.
    pub(crate) fn report(&self, node: &str, policies: &[(&str, i64)], problems: &Value) {
        self.apply_report(node, None, &self.in_force(policies), problems);
    }

    /// The agent of a node says what is in force on it, and which pod it runs in.
    pub(crate) fn report_of_pod(&self, node: &str, pod: Option<&str>, policies: &[(&str, i64)]) {
        self.apply_report(node, pod, &self.in_force(policies), &json!([]));
    }

    fn in_force(&self, policies: &[(&str, i64)]) -> Value {
        let policies = policies.iter().map(|(name, generation)| {
            json!({"namespace": self.namespace, "name": name, "generation": generation})
        });
        policies.collect()
    }

    fn apply_report(&self, node: &str, pod: Option<&str>, policies: &Value, problems: &Value) {
        let mut report = json!({
            "apiVersion": "netqos.io/v1alpha1",
            "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node},
            "agentVersion": "0.1.0",
            "policies": policies,
            "problems": problems,
        });
        if let Some(pod) = pod {
            report["agentPod"] = format!("{HOME}/{pod}").into();
        }
        let api = self.api("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
        let parameters = PatchParams::apply("agent").force();
        let patch = Patch::Apply(&report);
        let applied = api.patch(node, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    /// Somebody else gives a policy a condition.
    pub(crate) fn apply_condition(&self, name: &str, manager: &str, type_: &str) {
        let status = json!({"conditions": [{
            "type": type_, "status": "True", "reason": "Because", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]});
        self.apply_status(name, manager, &status);
    }

    /// Somebody else says this of a policy, whoever said something else.
    pub(crate) fn apply_status(&self, name: &str, manager: &str, status: &Value) {
        let (api_version, kind, namespace) = self.policies();
        let api = self.api(api_version, kind, namespace);
        let status = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status
        });
        let parameters = PatchParams::apply(manager).force();
        let patch = Patch::Apply(&status);
        let applied = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    /// A condition of a policy: status, reason and message.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> Option<(String, String, String)> {
        let policy = self.get(self.policies(), name)?;
        let conditions = policy["status"]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|it| it["type"] == type_)?;
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition has this status and reason. Gives back its message.
    pub(crate) fn wait_for(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        let mut message = String::new();
        let mut is = None;
        self.eventually(&format!("{name} is not {type_}={status} {reason}"), || {
            is = self.condition(name, type_);
            is.as_ref().is_some_and(|(is_status, is_reason, said)| {
                message.clone_from(said);
                is_status == status && is_reason == reason
            })
        });
        message
    }

    /// Waits for an event of a reason about an object of a kind, and gives back one.
    pub(crate) fn wait_for_event(&self, kind: &str, reason: &str) -> DynamicObject {
        let what = format!("no event {reason} about a {kind}");
        self.eventually(&what, || !self.events(kind, reason).is_empty());
        self.events(kind, reason).remove(0)
    }

    /// The events of a reason about an object of a kind.
    pub(crate) fn events(&self, kind: &str, reason: &str) -> Vec<DynamicObject> {
        let events = self.list(("events.k8s.io/v1", "Event", &self.namespace));
        let about = events.into_iter();
        about
            .filter(|it| it.data["regarding"]["kind"] == kind && it.data["reason"] == reason)
            .collect()
    }
}
