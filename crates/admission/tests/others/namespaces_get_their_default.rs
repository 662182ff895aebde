use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use netqos_admission::inject;
use netqos_faults::Account;
use netqos_k8s::{NetworkQoS, NetworkQoSDefault};
use serde_json::{Value, json};

use crate::stage::{Stage, run};

/// The objects of the cluster, by namespace and name: the mark of their first rule.
async fn marks(stage: &Stage) -> BTreeMap<String, i64> {
    let all: Api<NetworkQoS> = Api::all(stage.client.clone());
    let all = all
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .into_iter();
    all.map(|it| {
        let text = |text: Option<String>| text.unwrap();
        let name = format!("{}/{}", text(it.metadata.namespace), text(it.metadata.name));
        (name, it.spec.egress[0].dscp.unwrap())
    })
    .collect()
}

async fn become_so(stage: &Stage, right: &[(&str, i64)]) {
    let right: BTreeMap<String, i64> = right
        .iter()
        .map(|(name, mark)| ((*name).to_owned(), *mark))
        .collect();
    let began = Instant::now();
    loop {
        let now = marks(stage).await;
        if now == right {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{now:?}, not {right:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn default(name: &str, tier: &str, dscp: i64) -> NetworkQoSDefault {
    let object = json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "NetworkQoSDefault",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"tier": tier}},
            "template": {
                "metadata": {"annotations": {"netqos.io/mode": "shadow"}},
                "spec": {"priority": 1, "egress": [{"dscp": dscp}]},
            },
        },
    });
    serde_json::from_value(object).unwrap()
}

async fn label(stage: &Stage, namespace: &str, tier: Value) {
    let all: Api<Namespace> = Api::all(stage.client.clone());
    let patch = json!({"metadata": {"labels": {"tier": tier}}});
    let parameters = PatchParams::default();
    all.patch(namespace, &parameters, &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[test]
fn whatever_comes_first() {
    run(async {
        let stage = Stage::new().await;
        let (post, delete) = (PostParams::default(), DeleteParams::default());
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        for name in ["one", "two"] {
            let namespace = json!({"metadata": {"name": name, "labels": {"tier": "free"}}});
            let namespace = serde_json::from_value(namespace).unwrap();
            namespaces.create(&post, &namespace).await.unwrap();
        }
        let defaults: Api<NetworkQoSDefault> = Api::all(stage.client.clone());
        defaults
            .create(&post, &default("free", "free", 8))
            .await
            .unwrap();
        // Of one whose name is taken by somebody else nothing becomes there.
        let of_two: Api<NetworkQoS> = Api::namespaced(stage.client.clone(), "two");
        let mut others = default("other", "free", 40).object("two");
        others.metadata.labels = None;
        of_two.create(&post, &others).await.unwrap();

        let client = stage.cluster.client_of(Account::Controller).await.unwrap();
        let task = tokio::spawn(inject(client.clone(), std::future::pending()));
        become_so(
            &stage,
            &[("one/free", 8), ("two/free", 8), ("two/other", 40)],
        )
        .await;
        defaults
            .create(&post, &default("other", "free", 10))
            .await
            .unwrap();
        let all = [
            ("one/free", 8),
            ("one/other", 10),
            ("two/free", 8),
            ("two/other", 40),
        ];
        become_so(&stage, &all).await;
        // As the template says, whoever changes it.
        let of_one: Api<NetworkQoS> = Api::namespaced(stage.client.clone(), "one");
        let patch = json!({"metadata": {"annotations": {"mine": "yes", "netqos.io/mode": "enforce"}},
            "spec": {"egress": [{"dscp": 46}]}});
        let parameters = PatchParams::default();
        of_one
            .patch("free", &parameters, &Patch::Merge(&patch))
            .await
            .unwrap();
        become_so(&stage, &all).await;
        let annotations = of_one
            .get("free")
            .await
            .unwrap()
            .metadata
            .annotations
            .unwrap();
        let right = [("mine", "yes"), ("netqos.io/mode", "shadow")];
        let right = right.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(annotations, right.into());
        of_one.delete("free", &delete).await.unwrap();
        become_so(&stage, &all).await;
        // The template, and the labels of a namespace.
        let mut changed = defaults.get("free").await.unwrap();
        changed.spec.template.spec.egress[0].dscp = Some(9);
        defaults.replace("free", &post, &changed).await.unwrap();
        label(&stage, "two", Value::Null).await;
        become_so(
            &stage,
            &[("one/free", 9), ("one/other", 10), ("two/other", 40)],
        )
        .await;
        // While nobody is at work.
        task.abort();
        label(&stage, "two", json!("free")).await;
        namespaces.delete("one", &delete).await.unwrap();
        // As kube-controller-manager does, which does not run here.
        for name in ["free", "other"] {
            of_one.delete(name, &delete).await.unwrap();
        }
        defaults.delete("other", &delete).await.unwrap();
        let task = tokio::spawn(inject(client, std::future::pending()));
        become_so(&stage, &[("two/free", 9), ("two/other", 40)]).await;
        defaults.delete("free", &delete).await.unwrap();
        become_so(&stage, &[("two/other", 40)]).await;
        task.abort();
    });
}
