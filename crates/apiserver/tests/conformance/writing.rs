//! Creates and updates.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::setting::*;

fn parameters() -> PostParams {
    PostParams::default()
}

pub async fn a_new_object_gets_identity_time_and_version(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let one = create(&api, &mk_config_map("one", json!({}), json!({"a": "b"}))).await;
    let two = create(&api, &mk_config_map("two", json!({}), json!({"a": "b"}))).await;
    assert_eq!(one.namespace().as_deref(), Some(&*setting.namespace));
    assert!(one.creation_timestamp().is_some());
    let (first, second) = (one.uid().unwrap(), two.uid().unwrap());
    assert!(first.len() == 36 && first != second);
    let number = |object: &ConfigMap| version_of(object).parse::<u64>().unwrap();
    assert!(number(&one) < number(&two));
    assert_eq!(api.get("one").await.unwrap(), one);
    let managers: Vec<_> = one.managed_fields().to_vec();
    assert_eq!(managers.len(), 1);
    assert_eq!(managers[0].operation.as_deref(), Some("Update"));
    assert_eq!(json(&managers[0].fields_v1)["f:data"]["f:a"], json!({}));
}

pub async fn a_name_is_taken_once(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = mk_config_map("one", json!({}), json!({}));
    create(&api, &object).await;
    let status = refusal(api.create(&parameters(), &object).await);
    assert_eq!((status.code, &*status.reason), (409, "AlreadyExists"));
    let details = status.details.unwrap();
    assert_eq!((&*details.name, &*details.kind), ("one", "configmaps"));
}

pub async fn a_name_can_be_completed(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object: ConfigMap = object(json!({"metadata": {"generateName": "some-"}}));
    let (one, two) = (create(&api, &object).await, create(&api, &object).await);
    for made in [&one, &two] {
        let suffix = made.name_any();
        assert_eq!(suffix.strip_prefix("some-").unwrap().len(), 5);
    }
    assert_ne!(one.name_any(), two.name_any());
    let nameless = refusal(api.create(&parameters(), &ConfigMap::default()).await);
    assert_eq!((nameless.code, &*nameless.reason), (422, "Invalid"));
}

pub async fn a_stale_write_is_a_conflict(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let mut first = create(&api, &mk_config_map("one", json!({}), json!({"a": "1"}))).await;
    let mut second = first.clone();
    first.data.as_mut().unwrap().insert("a".into(), "2".into());
    let first = api.replace("one", &parameters(), &first).await.unwrap();
    second.data.as_mut().unwrap().insert("a".into(), "3".into());
    let status = refusal(api.replace("one", &parameters(), &second).await);
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    assert_eq!(api.get("one").await.unwrap(), first);
    // Without a version nothing is compared; of a definition's objects one is demanded.
    second.metadata.resource_version = None;
    api.replace("one", &parameters(), &second).await.unwrap();
    let widgets = setting.widgets(anything()).await;
    create(&widgets, &mk_widget(&widgets, "w", json!({"a": 1}))).await;
    let unread = mk_widget(&widgets, "w", json!({"a": 2}));
    let status = refusal(widgets.replace("w", &parameters(), &unread).await);
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(fields(&status), ["metadata.resourceVersion"]);
}

pub async fn a_write_that_changes_nothing_gives_no_new_version(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let one = create(&api, &mk_config_map("one", json!({"a": "b"}), json!({}))).await;
    let again = api.replace("one", &parameters(), &one).await.unwrap();
    assert_eq!(again, one);
    let pods = setting.pods();
    let pod = create(&pods, &mk_pod("p", json!({}))).await;
    let again = pods.replace("p", &parameters(), &pod).await.unwrap();
    assert_eq!(version_of(&again), version_of(&pod));
}

pub async fn what_is_not_there_is_not_found(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = mk_config_map("none", json!({}), json!({}));
    for result in [
        api.get("none").await,
        api.replace("none", &parameters(), &object).await,
    ] {
        let status = refusal(result);
        assert_eq!((status.code, &*status.reason), (404, "NotFound"));
        assert_eq!(status.details.unwrap().name, "none");
    }
    let nowhere: Api<ConfigMap> = Api::namespaced(setting.client.clone(), "no-such-namespace");
    let status = refusal(nowhere.create(&parameters(), &object).await);
    assert_eq!((status.code, &*status.reason), (404, "NotFound"));
    assert_eq!(status.details.unwrap().kind, "namespaces");
}

pub async fn the_generation_counts_what_is_wanted(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let mut object = create(&api, &mk_widget(&api, "w", json!({"a": 1}))).await;
    assert_eq!(object.metadata.generation, Some(1));
    object.labels_mut().insert("new".into(), "label".into());
    let mut object = api.replace("w", &parameters(), &object).await.unwrap();
    assert_eq!(object.metadata.generation, Some(1));
    object.data["status"] = json!({"seen": 1});
    let mut object = api
        .replace_status("w", &parameters(), &object)
        .await
        .unwrap();
    assert_eq!(object.metadata.generation, Some(1));
    object.data["spec"]["a"] = json!(2);
    let object = api.replace("w", &parameters(), &object).await.unwrap();
    assert_eq!(object.metadata.generation, Some(2));
}

pub async fn the_status_is_written_by_itself(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let mut object = mk_widget(&api, "w", json!({"a": 1}));
    object.data["status"] = json!({"seen": 1});
    let mut object = create(&api, &object).await;
    assert_eq!(object.data.get("status"), None);
    // A write of the status takes nothing else along.
    object.data = json!({"spec": {"a": 2}, "status": {"seen": 2}});
    object.labels_mut().insert("new".into(), "label".into());
    let mut object = api
        .replace_status("w", &parameters(), &object)
        .await
        .unwrap();
    assert_eq!(
        object.data,
        json!({"spec": {"a": 1}, "status": {"seen": 2}})
    );
    assert!(object.labels().is_empty());
    // And no other write takes the status along.
    object.data = json!({"spec": {"a": 3}, "status": {"seen": 3}});
    let object = api.replace("w", &parameters(), &object).await.unwrap();
    assert_eq!(
        object.data,
        json!({"spec": {"a": 3}, "status": {"seen": 2}})
    );
    let pods = setting.pods();
    let pod = mk_pod("p", json!({"status": {"phase": "Running"}}));
    let mut pod = create(&pods, &pod).await;
    let phase = |pod: &Pod| pod.status.as_ref().unwrap().phase.clone().unwrap();
    assert_eq!(phase(&pod), "Pending");
    pod.status.as_mut().unwrap().phase = Some("Running".into());
    let pod = pods.replace_status("p", &parameters(), &pod).await.unwrap();
    assert_eq!(phase(&pod), "Running");
}

pub async fn a_dry_run_writes_nothing(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let dry = PostParams {
        dry_run: true,
        ..parameters()
    };
    let object = mk_config_map("one", json!({}), json!({}));
    let made = api.create(&dry, &object).await.unwrap();
    assert!(made.uid().is_some());
    assert!(api.get_opt("one").await.unwrap().is_none());
}

pub async fn what_contradicts_its_path_is_refused(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let mut elsewhere = mk_config_map("one", json!({}), json!({}));
    elsewhere.metadata.namespace = Some("default".into());
    let status = refusal(api.create(&parameters(), &elsewhere).await);
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
    let mut one = create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    one.metadata.name = Some("two".into());
    let status = refusal(api.replace("one", &parameters(), &one).await);
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
    let mut old = mk_config_map("old", json!({}), json!({}));
    old.metadata.resource_version = Some("1".into());
    let status = refusal(api.create(&parameters(), &old).await);
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
}

pub async fn another_type_is_refused(setting: &Setting<'_>) {
    let path = format!("/api/v1/namespaces/{}/configmaps", setting.namespace);
    let body = json!({"metadata": {"name": "one"}, "data": {"a": 1}});
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let status = refusal(setting.client.request::<ConfigMap>(request).await);
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
}

pub async fn labels_have_a_form(setting: &Setting<'_>) {
    let api = setting.config_maps();
    for labels in [
        json!({"a": "b c"}),
        json!({"a": "x".repeat(64)}),
        json!({"a/b/c": ""}),
        json!({"A.example/b": ""}),
        json!({"-a": ""}),
    ] {
        let object = mk_config_map("one", labels, json!({}));
        let status = refusal(api.create(&parameters(), &object).await);
        assert_eq!((status.code, &*status.reason), (422, "Invalid"));
        assert_eq!(fields(&status), ["metadata.labels"]);
    }
    let bad = mk_config_map("No_Name", json!({}), json!({}));
    let status = refusal(api.create(&parameters(), &bad).await);
    assert_eq!(fields(&status), ["metadata.name"]);
}
