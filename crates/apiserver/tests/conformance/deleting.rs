//! Deletion.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::setting::*;

pub async fn a_finalizer_holds_an_object(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let mut object = mk_widget(&api, "w", json!({}));
    object.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    let object = create(&api, &object).await;
    let from = version_of(&object);
    let parameters = DeleteParams::default();
    let marked = api.delete("w", &parameters).await.unwrap();
    let marked = marked.left().expect("the object, which is still there");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(0));
    // Once more changes nothing.
    let again = api.delete("w", &parameters).await.unwrap().left().unwrap();
    assert_eq!(version_of(&again), version_of(&marked));
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("w", &PatchParams::default(), &release)
        .await
        .unwrap();
    assert!(api.get_opt("w").await.unwrap().is_none());
    let told = events(&api, &Default::default(), &from, 2).await;
    assert_eq!(told, ["MODIFIED w", "DELETED w"]);
}

pub async fn nothing_new_may_hold_what_is_going(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let mut object = mk_widget(&api, "w", json!({}));
    object.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    create(&api, &object).await;
    api.delete("w", &DeleteParams::default()).await.unwrap();
    let mut object = api.get("w").await.unwrap();
    object.finalizers_mut().push("example.com/late".into());
    let status = refusal(api.replace("w", &PostParams::default(), &object).await);
    assert_eq!(status.code, 422);
    assert_eq!(fields(&status), ["metadata.finalizers"]);
    object.finalizers_mut().clear();
    api.replace("w", &PostParams::default(), &object)
        .await
        .unwrap();
    assert!(api.get_opt("w").await.unwrap().is_none());
}

pub async fn preconditions_are_kept(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    let only = |uid: Option<String>, version: Option<String>| {
        let preconditions = Preconditions {
            uid,
            resource_version: version,
        };
        DeleteParams::default().preconditions(preconditions)
    };
    for parameters in [
        only(Some("another".into()), None),
        only(object.uid(), Some("1".into())),
    ] {
        let status = refusal(api.delete("one", &parameters).await);
        assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    }
    let parameters = only(object.uid(), object.resource_version());
    api.delete("one", &parameters).await.unwrap();
    let status = refusal(api.delete("one", &DeleteParams::default()).await);
    assert_eq!(status.code, 404);
}

pub async fn a_collection_is_deleted_by_selector(setting: &Setting<'_>) {
    let api = setting.config_maps();
    for (name, labels) in [
        ("a", json!({"go": ""})),
        ("b", json!({})),
        ("c", json!({"go": ""})),
    ] {
        create(&api, &mk_config_map(name, labels, json!({}))).await;
    }
    let which = ListParams::default().labels("go");
    let parameters = DeleteParams::default();
    api.delete_collection(&parameters, &which).await.unwrap();
    let left = api.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<String> = left.iter().map(|one| one.name_any()).collect();
    // A real cluster puts one of its own into each namespace.
    let ours = left.iter().filter(|name| *name != "kube-root-ca.crt");
    assert_eq!(ours.collect::<Vec<_>>(), ["b"]);
}

pub async fn a_pod_on_a_node_waits_for_its_kubelet(setting: &Setting<'_>) {
    let api = setting.pods();
    create(&api, &mk_pod("waiting", json!({}))).await;
    api.delete("waiting", &DeleteParams::default())
        .await
        .unwrap();
    assert!(api.get_opt("waiting").await.unwrap().is_none());
    create(&api, &mk_pod("placed", json!({"spec": {"nodeName": "n1"}}))).await;
    api.delete("placed", &DeleteParams::default())
        .await
        .unwrap();
    let pod = api.get("placed").await.unwrap();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
    let at_once = DeleteParams::default().grace_period(0);
    api.delete("placed", &at_once).await.unwrap();
    assert!(api.get_opt("placed").await.unwrap().is_none());
}
