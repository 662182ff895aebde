//! Admission policies: what a write is held to without a webhook.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::setting::{Setting, create, object};

/// Until a policy is in force, or is no more: a server takes its time to learn of one.
const PATIENCE: Duration = Duration::from_secs(60);
/// What API servers say of a service account's token that is bound to a pod, since 1.32.
const NODE: &str = "authentication.kubernetes.io/node-name";
const AGENT: &str = "system:serviceaccount:home:agent";

/// A policy about config maps of the setting's namespace, and its binding.
async fn bind(setting: &Setting<'_>, spec: Value) {
    let own = json!({"kubernetes.io/metadata.name": setting.namespace});
    let mut spec = spec;
    spec["matchConstraints"] = json!({
        "namespaceSelector": {"matchLabels": own},
        "resourceRules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }],
    });
    let metadata = json!({"name": setting.namespace});
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(setting.client.clone());
    create(
        &policies,
        &object(json!({"metadata": metadata, "spec": spec})),
    )
    .await;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(setting.client.clone());
    let spec = json!({"policyName": setting.namespace, "validationActions": ["Deny"]});
    create(
        &bindings,
        &object(json!({"metadata": metadata, "spec": spec})),
    )
    .await;
}

/// Applies a config map on behalf of somebody who may do everything, and whose token says these
/// nodes. Gives back code and message.
async fn apply(
    setting: &Setting<'_>,
    name: &str,
    user: &str,
    nodes: &[&str],
    data: &str,
) -> (u16, String) {
    let namespace = &setting.namespace;
    let path =
        format!("/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=a&force=true");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data},
    });
    let mut request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .header("impersonate-user", user)
        .header("impersonate-group", "system:masters");
    for node in nodes {
        let header = format!("impersonate-extra-{}", NODE.replace('/', "%2f"));
        request = request.header(header, *node);
    }
    let body = kube::client::Body::from(serde_json::to_vec(&map).unwrap());
    let response = setting
        .client
        .send(request.body(body).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let message = body["message"].as_str().unwrap_or_default();
    (code, message.to_owned())
}

/// Applies it until the answer has this code, with other data each time.
async fn until(setting: &Setting<'_>, name: &str, user: &str, nodes: &[&str], code: u16) -> String {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        let said = apply(setting, name, user, nodes, &format!("try {tries}")).await;
        if said.0 == code {
            return said.1;
        }
        assert!(began.elapsed() < PATIENCE, "{said:?}");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn a_policy_holds_who_writes_to_what_its_token_says(setting: &Setting<'_>) {
    let says = format!(
        "has(request.userInfo.extra) && '{NODE}' in request.userInfo.extra && \
         request.userInfo.extra['{NODE}'].exists(node, node == object.metadata.name)"
    );
    bind(
        setting,
        json!({
            "matchConditions": [{
                "name": "is-the-agent",
                "expression": format!("request.userInfo.username == '{AGENT}'"),
            }],
            "validations": [{"expression": says, "message": "not its own", "reason": "Forbidden"}],
        }),
    )
    .await;
    let message = until(setting, "node2", AGENT, &["node1"], 403).await;
    let name = &setting.namespace;
    let right = format!(
        "configmaps \"node2\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding \
         '{name}' denied request: not its own"
    );
    assert_eq!(message, right);
    for (name, user, nodes, code) in [
        ("node1", AGENT, &["node1"][..], 201),
        // And what is there already.
        ("node1", AGENT, &["node2"], 403),
        ("node1", AGENT, &["node1"], 200),
        // Nothing is said of its node.
        ("node1", AGENT, &[], 403),
        // Whoever else it is.
        ("node3", "system:serviceaccount:home:other", &["node1"], 201),
    ] {
        let said = apply(setting, name, user, nodes, &format!("{code} {nodes:?}")).await;
        assert_eq!(said.0, code, "{name} by {user} of {nodes:?}: {said:?}");
    }
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(setting.client.clone());
    let parameters = DeleteParams::default();
    bindings
        .delete(&setting.namespace, &parameters)
        .await
        .unwrap();
    until(setting, "node2", AGENT, &["node1"], 201).await;
}

pub async fn a_policy_that_cannot_be_evaluated_denies_unless_it_says_otherwise(
    setting: &Setting<'_>,
) {
    // There is no such entry: an error, and neither true nor false.
    let validations = json!([{"expression": "object.data['b'] == 'c'"}]);
    bind(setting, json!({"validations": validations})).await;
    until(setting, "one", AGENT, &[], 422).await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(setting.client.clone());
    let ignores = json!({"spec": {"failurePolicy": "Ignore"}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&ignores));
    let patched = policies.patch(&setting.namespace, &parameters, &patch);
    patched.await.unwrap();
    until(setting, "one", AGENT, &[], 201).await;
}

pub async fn a_binding_that_warns_hides_none_that_denies(setting: &Setting<'_>) {
    let validations = json!([{"expression": "false", "message": "never"}]);
    bind(setting, json!({"validations": validations})).await;
    until(setting, "one", AGENT, &[], 422).await;
    // Its name comes before that of the other one.
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(setting.client.clone());
    let name = format!("a-{}", setting.namespace);
    let spec = json!({"policyName": setting.namespace, "validationActions": ["Warn"]});
    let warns = object(json!({"metadata": {"name": name}, "spec": spec}));
    create(&bindings, &warns).await;
    // As long as a server takes to learn of it.
    for round in 0..20 {
        let said = apply(setting, "one", AGENT, &[], &format!("round {round}")).await;
        assert_eq!(said.0, 422, "{said:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What only warns denies nothing.
    let parameters = DeleteParams::default();
    let deleted = bindings.delete(&setting.namespace, &parameters).await;
    deleted.unwrap();
    until(setting, "one", AGENT, &[], 201).await;
}
