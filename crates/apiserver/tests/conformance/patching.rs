//! Patches.

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::setting::*;

fn parameters() -> PatchParams {
    PatchParams::default()
}

pub async fn merge_patches_merge(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = mk_config_map("one", json!({"a": "1", "b": "2"}), json!({"k": "v"}));
    create(&api, &object).await;
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "data": {"l": "w"}});
    let patched = api.patch("one", &parameters(), &Patch::Merge(patch)).await;
    let patched = patched.unwrap();
    assert_eq!(json(&patched.labels()), json!({"b": "2", "c": "3"}));
    assert_eq!(json(&patched.data), json!({"k": "v", "l": "w"}));
    let none = Patch::Merge(json!({}));
    assert_eq!(
        refusal(api.patch("none", &parameters(), &none).await).code,
        404
    );
    // The status has a patch of its own.
    let widgets = setting.widgets(anything()).await;
    create(&widgets, &mk_widget(&widgets, "w", json!({"a": 1}))).await;
    let patch = Patch::Merge(json!({"spec": {"a": 2}, "status": {"seen": 1}}));
    let patched = widgets.patch_status("w", &parameters(), &patch).await;
    assert_eq!(
        patched.unwrap().data,
        json!({"spec": {"a": 1}, "status": {"seen": 1}})
    );
}

pub async fn json_patches_are_all_or_nothing(setting: &Setting<'_>) {
    let api = setting.config_maps();
    create(&api, &mk_config_map("one", json!({}), json!({"k": "v"}))).await;
    let url = format!("/api/v1/namespaces/{}/configmaps/one", setting.namespace);
    let patch = async |operations: Value| {
        let request = http::Request::patch(&url)
            .header("content-type", "application/json-patch+json")
            .body(operations.to_string().into_bytes())
            .unwrap();
        setting.client.request::<Value>(request).await
    };
    let patched = patch(json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "add", "path": "/data/l", "value": "w"},
        {"op": "remove", "path": "/data/k"},
    ]))
    .await
    .unwrap();
    assert_eq!(patched["data"], json!({"l": "w"}));
    let status = refusal(
        patch(json!([
            {"op": "add", "path": "/data/m", "value": "x"},
            {"op": "test", "path": "/data/l", "value": "other"},
        ]))
        .await,
    );
    assert_eq!(status.code, 422);
    assert_eq!(json(&api.get("one").await.unwrap().data), json!({"l": "w"}));
}

pub async fn strategic_patches_know_the_keys_of_lists(setting: &Setting<'_>) {
    let api = setting.pods();
    create(&api, &mk_pod("p", json!({}))).await;
    let ready = |kind: &str, status: &str| {
        let condition = json!({"type": kind, "status": status});
        Patch::Strategic(json!({"status": {"conditions": [condition]}}))
    };
    for patch in [
        ready("one", "False"),
        ready("two", "False"),
        ready("one", "True"),
    ] {
        api.patch_status("p", &parameters(), &patch).await.unwrap();
    }
    let pod = api.get("p").await.unwrap();
    let conditions = pod.status.unwrap().conditions.unwrap();
    let mut told: Vec<_> = conditions
        .iter()
        .map(|one| format!("{}={}", one.type_, one.status))
        .collect();
    told.sort();
    assert_eq!(told, ["one=True", "two=False"]);
    // Of a definition's objects nothing of that kind is known.
    let widgets = setting.widgets(anything()).await;
    create(&widgets, &mk_widget(&widgets, "w", json!({}))).await;
    let patch = Patch::Strategic(json!({"spec": {"a": 1}}));
    let status = refusal(widgets.patch("w", &parameters(), &patch).await);
    assert_eq!(status.code, 415);
}

pub async fn a_patch_of_a_stale_version_is_a_conflict(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let old = create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    let patch = |version: String| {
        Patch::Merge(json!({
            "metadata": {"resourceVersion": version, "labels": {"a": version}},
        }))
    };
    let first = patch(version_of(&old));
    api.patch("one", &parameters(), &first).await.unwrap();
    let status = refusal(api.patch("one", &parameters(), &first).await);
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
}
