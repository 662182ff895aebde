//! A real API server takes NetworkAttachmentDefinitions only in namespaces with the label.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use netqos_kubernetes::ApiServer;
use serde_json::{Value, json};

use super::chart;
use super::server::{create, eventually, refused, resource};

const KIND: &str = "NetworkAttachmentDefinition";
const OWNERS: [&str; 2] = ["a", "b"];

fn nads(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let mut resource = resource(KIND, "k8s.cni.cncf.io/v1");
    resource.plural = "network-attachment-definitions".to_owned();
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn owner(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": true})
}

fn nad(name: &str) -> DynamicObject {
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": {"a": "1"},
            "annotations": {"k8s.v1.cni.cncf.io/resourceName": "example.com/nic"},
            "finalizers": ["example.com/one", "example.com/two"],
            "ownerReferences": OWNERS.map(owner),
        },
        "spec": {"config": "{}"},
    });
    serde_json::from_value(object).unwrap()
}

fn message(name: &str) -> String {
    format!(
        "network-attachment-definitions.k8s.cni.cncf.io \"{name}\" is forbidden: ValidatingAdmissionPolicy \
         'netqos-network-definitions' with binding 'netqos-network-definitions' denied request: namespace games may not \
         hold NetworkAttachmentDefinitions; an administrator permits it by: kubectl label namespace games \
         netqos.io/network-attachment-definitions=allowed"
    )
}

#[tokio::test]
async fn nad_is_taken_only_in_labelled_namespaces_and_can_always_be_deleted() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().unwrap();
    let values = json!({"multinet": {"enabled": true, "restrictDefinitions": true}});
    let objects = chart().objects(&values).unwrap();
    create(
        &client,
        &objects["CustomResourceDefinition/network-attachment-definitions.k8s.cni.cncf.io"],
    )
    .await;
    for (name, labels) in [
        (
            "games",
            json!({"netqos.io/network-attachment-definitions": "denied"}),
        ),
        ("plain", json!({})),
        (
            "storage",
            json!({"netqos.io/network-attachment-definitions": "allowed"}),
        ),
    ] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        });
        create(&client, &namespace).await;
    }
    let post = PostParams::default();
    let (games, plain, storage) = (
        nads(&client, "games"),
        nads(&client, "plain"),
        nads(&client, "storage"),
    );
    // One is there before the policy.
    eventually("the CRD is not served", async || {
        games.create(&post, &nad("old")).await.ok()
    })
    .await;
    for kind in [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        create(
            &client,
            &objects[&format!("{kind}/netqos-network-definitions")],
        )
        .await;
    }
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the policy has no effect", async || {
        games.create(&dry, &nad("new")).await.err()
    })
    .await;

    assert_eq!(
        refused(games.create(&post, &nad("new")).await),
        message("new")
    );
    let in_plain = refused(plain.create(&post, &nad("new")).await);
    assert!(
        in_plain.contains("kubectl label namespace plain "),
        "{in_plain}"
    );
    storage.create(&post, &nad("new")).await.unwrap();

    let config = json!({"spec": {"config": "{\"type\": \"ptp\"}"}});
    let parameters = PatchParams::default();
    let stranger = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "a", "uid": "a"});
    for change in [
        config.clone(),
        json!({"spec": null}),
        json!({"metadata": {"labels": {"a": "2"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "example.com/other"}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"finalizers": ["example.com/one", "example.com/three"]}}),
        json!({"metadata": {"ownerReferences": [owner("a"), owner("c")]}}),
        json!({"metadata": {"ownerReferences": [stranger]}}),
        json!({"metadata": {"finalizers": null}, "spec": {"config": "{\"type\": \"ptp\"}"}}),
    ] {
        let answer = games
            .patch("old", &parameters, &Patch::Merge(&change))
            .await;
        assert_eq!(refused(answer), message("old"), "{change}");
    }
    storage
        .patch("new", &parameters, &Patch::Merge(&config))
        .await
        .unwrap();

    // What deletes it, or its owners.
    games
        .delete("old", &DeleteParams::foreground())
        .await
        .unwrap();
    let mut unblocked = owner("a");
    unblocked["blockOwnerDeletion"] = false.into();
    for change in [
        json!({"metadata": {"ownerReferences": [unblocked, owner("b")]}}),
        json!({"metadata": {"ownerReferences": [owner("b")]}}),
        json!({"metadata": {"finalizers": ["example.com/two"]}}),
        json!({"metadata": {"ownerReferences": null}}),
        json!({"metadata": {"finalizers": null}}),
    ] {
        let answer = games
            .patch("old", &parameters, &Patch::Merge(&change))
            .await;
        answer.unwrap_or_else(|error| panic!("{change}: {error}"));
    }
    assert!(games.get_opt("old").await.unwrap().is_none());

    // The administrator does as the message says.
    let namespaces: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("Namespace", "v1"));
    let label =
        json!({"metadata": {"labels": {"netqos.io/network-attachment-definitions": "allowed"}}});
    namespaces
        .patch("games", &parameters, &Patch::Merge(&label))
        .await
        .unwrap();
    eventually("the label has no effect", async || {
        games.create(&post, &nad("new")).await.ok()
    })
    .await;
}
