//! What pods and events have of their own.

use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, EvictParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::setting::*;

async fn post(client: &Client, path: String, body: Value) -> kube::Result<Value> {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    client.request(request).await
}

pub async fn a_pod_is_bound_once(setting: &Setting<'_>) {
    let api = setting.pods();
    create(&api, &mk_pod("p", json!({}))).await;
    let path = format!("/api/v1/namespaces/{}/pods/p/binding", setting.namespace);
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": node},
        })
    };
    let bound = post(&setting.client, path.clone(), binding("n1"))
        .await
        .unwrap();
    assert_eq!(bound["status"], "Success");
    let pod = api.get("p").await.unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    let conditions = pod.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|one| one.type_ == "PodScheduled" && one.status == "True")
    );
    let status = refusal(post(&setting.client, path, binding("n2")).await);
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    // No update moves it.
    let mut pod = api.get("p").await.unwrap();
    pod.spec.as_mut().unwrap().node_name = Some("n2".into());
    let status = refusal(api.replace("p", &PostParams::default(), &pod).await);
    assert_eq!(
        (status.code, fields(&status)),
        (422, vec!["spec".to_owned()])
    );
}

async fn running(api: &Api<Pod>, name: &str) {
    let more = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"nodeName": "n1"}});
    let mut pod = create(api, &mk_pod(name, more)).await;
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Running".into());
    status.conditions = object(json!([{"type": "Ready", "status": "True"}]));
    let parameters = PostParams::default();
    api.replace_status(name, &parameters, &pod).await.unwrap();
}

pub async fn an_eviction_asks_the_budget(setting: &Setting<'_>) {
    let api = setting.pods();
    let evict = async |name: &str| api.evict(name, &EvictParams::default()).await;
    running(&api, "free").await;
    evict("free").await.unwrap();
    let pod = api.get("free").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some());
    running(&api, "kept").await;
    let budgets: Api<PodDisruptionBudget> = setting.api();
    let budget = object(json!({
        "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }));
    let mut budget = create(&budgets, &budget).await;
    budget.status = object(json!({
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
    }));
    let parameters = PostParams::default();
    budgets
        .replace_status("one", &parameters, &budget)
        .await
        .unwrap();
    let status = refusal(evict("kept").await);
    assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"));
    let causes = status.details.unwrap().causes;
    assert_eq!(causes[0].reason, "DisruptionBudget");
    assert!(
        api.get("kept")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    assert_eq!(refusal(evict("none").await).code, 404);
    let second = object(json!({
        "metadata": {"name": "two"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }));
    create(&budgets, &second).await;
    assert_eq!(refusal(evict("kept").await).code, 500);
}

pub async fn the_events_of_both_groups_are_the_same(setting: &Setting<'_>) {
    let new: Api<Event> = setting.api();
    let core: Api<CoreEvent> = setting.api();
    let pod = json!({"kind": "Pod", "namespace": setting.namespace, "name": "p"});
    let event: Event = object(json!({
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "Limit",
        "reason": "InvalidBandwidth",
        "note": "what is wrong",
        "regarding": pod,
        "reportingController": "netqos.io/agent",
        "reportingInstance": "agent-1",
        "type": "Warning",
    }));
    let made = create(&new, &event).await;
    let read = core.get("e").await.unwrap();
    assert_eq!(read.metadata.uid, made.metadata.uid);
    assert_eq!(read.message.as_deref(), Some("what is wrong"));
    assert_eq!(read.involved_object.name.as_deref(), Some("p"));
    assert_eq!(read.reporting_component.as_deref(), Some("netqos.io/agent"));
    let of_pod = ListParams::default().fields("involvedObject.name=p,reason=InvalidBandwidth");
    assert_eq!(core.list(&of_pod).await.unwrap().items.len(), 1);
    let again = new.get("e").await.unwrap();
    assert_eq!(again.note.as_deref(), Some("what is wrong"));
    assert_eq!(again, made);
}
