//! A real API server takes the annotation network-status of pods only from those that attach them.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use netqos_kubernetes::ApiServer;
use serde_json::{Value, json};

use super::chart;
use super::server::{create, eventually, refused, resource};

const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const AGENT: &str = "system:serviceaccount:netqos-system:netqos-agent";
const MULTUS: &str = "system:serviceaccount:kube-system:multus";

fn pods(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "games", &resource("Pod", "v1"))
}

fn pod(name: &str, annotations: &Value) -> DynamicObject {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn annotation(value: Value) -> Value {
    json!({"metadata": {"annotations": {STATUS: value}}})
}

#[tokio::test]
async fn network_status_is_taken_from_agents_and_named_writers_alone() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "games"}});
    create(&client, &namespace).await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "games", &resource("ServiceAccount", "v1"));
    let account = serde_json::from_value(account).unwrap();
    // The controller that makes it does not run.
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let objects = chart()
        .objects(&json!({"multinet": {"enabled": true}}))
        .unwrap();
    for kind in [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        create(&client, &objects[&format!("{kind}/netqos-network-status")]).await;
    }
    let tenant = pods(&client);
    let (post, patch) = (PostParams::default(), PatchParams::default());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let forged = pod("forged", &json!({STATUS: "[]"}));
    let why = eventually("the policy has no effect", async || {
        tenant.create(&dry, &forged).await.err()
    })
    .await;
    let why = refused(Err::<(), _>(why));
    let expected = format!("may not write the annotation {STATUS} of pods: netqos-agent writes it");
    assert!(why.contains(&expected), "{why}");

    let plain = pod("a", &json!({"app": "a"}));
    tenant.create(&post, &plain).await.unwrap();
    let merge = |value| Patch::Merge(annotation(value));
    let refuse = async |of: &Api<DynamicObject>| {
        let of_pod = refused(of.patch("a", &patch, &merge(json!("[]"))).await);
        let of_status = refused(of.patch_status("a", &patch, &merge(json!("[]"))).await);
        assert!(of_pod.contains(&expected) && of_status.contains(&expected));
    };
    refuse(&tenant).await;
    for user in [AGENT, MULTUS] {
        let written = format!("[{{\"name\": \"{user}\"}}]");
        let writer = pods(&server.client_as(user).unwrap());
        let answer = writer
            .patch_status("a", &patch, &merge(json!(written)))
            .await;
        answer.unwrap();
        refuse(&tenant).await;
        // All else of the pod may change.
        let other = Patch::Merge(json!({"metadata": {"annotations": {"app": user}}}));
        let changed = tenant.patch("a", &patch, &other).await.unwrap();
        assert_eq!(changed.metadata.annotations.unwrap()[STATUS], written);
    }
    let removed = tenant
        .patch("a", &patch, &merge(Value::Null))
        .await
        .unwrap();
    assert!(!removed.metadata.annotations.unwrap().contains_key(STATUS));

    // The older key, which is read where the new one is missing.
    let old = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks-status": "[]"}}});
    let by_old_key = tenant.patch("a", &patch, &Patch::Merge(old)).await;
    assert!(refused(by_old_key).contains(&expected));

    // By the annotations of its binding to a node.
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "a", "annotations": {STATUS: "[]"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node1"},
    });
    let bound: kube::Result<Value> = tenant
        .create_subresource("binding", "a", &post, &binding)
        .await;
    assert!(refused(bound).contains(&expected));
    tenant
        .delete("a", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
}
