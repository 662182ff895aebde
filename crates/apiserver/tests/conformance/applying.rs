//! Server-side apply.

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::setting::*;

fn spec() -> Value {
    json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "array", "items": {"type": "string"}},
            "set": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "string"},
            },
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "x": {"type": "integer"},
                        "y": {"type": "integer"},
                    },
                },
            },
        },
    })
}

fn wanted(api: &Api<DynamicObject>, mut part: Value) -> Patch<Value> {
    let (group, version) = group_and_version(api);
    part["apiVersion"] = format!("{group}/{version}").into();
    part["kind"] = "Widget".into();
    part["metadata"]["name"] = "w".into();
    Patch::Apply(part)
}

async fn try_apply(
    api: &Api<DynamicObject>,
    manager: &str,
    part: Value,
) -> kube::Result<DynamicObject> {
    let parameters = PatchParams::apply(manager);
    api.patch("w", &parameters, &wanted(api, part)).await
}

async fn apply(api: &Api<DynamicObject>, manager: &str, spec: Value) -> Value {
    let object = try_apply(api, manager, json!({"spec": spec})).await;
    object.unwrap().data["spec"].take()
}

pub async fn two_managers_of_one_list_merge_by_key(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(
        &api,
        "one",
        json!({"keyed": [{"name": "a", "x": 1}], "set": ["p"]}),
    )
    .await;
    let both = apply(
        &api,
        "two",
        json!({"keyed": [{"name": "b", "x": 2}, {"name": "a", "y": 3}], "set": ["q"]}),
    )
    .await;
    assert_eq!(
        both,
        json!({
            "keyed": [{"name": "a", "x": 1, "y": 3}, {"name": "b", "x": 2}],
            "set": ["p", "q"],
        })
    );
    // What the second does not say any more goes, and nothing else.
    let one = apply(&api, "two", json!({"keyed": [{"name": "b", "x": 2}]})).await;
    assert_eq!(
        one,
        json!({"keyed": [{"name": "a", "x": 1}, {"name": "b", "x": 2}], "set": ["p"]})
    );
    // A list without keys is of one piece.
    apply(&api, "one", json!({"whole": ["p"]})).await;
    let status = refusal(try_apply(&api, "two", json!({"spec": {"whole": ["q"]}})).await);
    assert_eq!(fields(&status), [".spec.whole"]);
}

pub async fn a_field_of_another_manager_is_a_conflict_unless_forced(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(
        &api,
        "one",
        json!({"a": 1, "keyed": [{"name": "k", "x": 1}]}),
    )
    .await;
    let other = json!({"spec": {"a": 2, "keyed": [{"name": "k", "x": 2}]}});
    let status = refusal(try_apply(&api, "two", other.clone()).await);
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    assert_eq!(fields(&status), [".spec.a", ".spec.keyed[name=\"k\"].x"]);
    let causes = status.details.unwrap().causes;
    assert!(causes.iter().all(|cause| {
        cause.reason == "FieldManagerConflict" && cause.message.contains("\"one\"")
    }));
    assert_eq!(api.get("w").await.unwrap().data["spec"]["a"], 1);
    let parameters = PatchParams::apply("two").force();
    let forced = api.patch("w", &parameters, &wanted(&api, other)).await;
    assert_eq!(forced.unwrap().data["spec"]["a"], 2);
    // Now it is the other's.
    let status = refusal(try_apply(&api, "one", json!({"spec": {"a": 3}})).await);
    assert_eq!(fields(&status), [".spec.a"]);
}

pub async fn what_a_manager_applies_no_more_goes(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(
        &api,
        "one",
        json!({"a": 1, "b": 2, "map": {"p": "1", "q": "2"}}),
    )
    .await;
    let rest = apply(&api, "one", json!({"a": 1, "map": {"q": "2"}})).await;
    assert_eq!(rest, json!({"a": 1, "map": {"q": "2"}}));
}

pub async fn what_two_managers_apply_goes_with_the_last(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(&api, "one", json!({"a": 1, "b": 1})).await;
    apply(&api, "two", json!({"a": 1})).await;
    let shared = apply(&api, "one", json!({"b": 1})).await;
    assert_eq!(shared, json!({"a": 1, "b": 1}));
    let rest = apply(&api, "two", json!({})).await;
    assert_eq!(rest, json!({"b": 1}));
}

pub async fn applying_the_status_leaves_the_rest(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(&api, "user", json!({"a": 1})).await;
    for (manager, kind) in [("agent-1", "Ready-n1"), ("agent-2", "Ready-n2")] {
        let part = json!({
            "spec": {"a": 7},
            "status": {"conditions": [{"type": kind, "status": "True"}]},
        });
        let parameters = PatchParams::apply(manager);
        let patch = wanted(&api, part);
        api.patch_status("w", &parameters, &patch).await.unwrap();
    }
    let object = api.get("w").await.unwrap();
    assert_eq!(object.metadata.generation, Some(1));
    assert_eq!(
        object.data,
        json!({
            "spec": {"a": 1},
            "status": {"conditions": [
                {"type": "Ready-n1", "status": "True"},
                {"type": "Ready-n2", "status": "True"},
            ]},
        })
    );
    let subresource = |manager: &str| {
        let entries = object.managed_fields().iter();
        let mut entries = entries.filter(|entry| entry.manager.as_deref() == Some(manager));
        entries.next().unwrap().subresource.clone()
    };
    assert_eq!(subresource("agent-1").as_deref(), Some("status"));
    assert_eq!(subresource("user"), None);
    // And an apply of the object says nothing about the status.
    let part = json!({"spec": {"a": 1}, "status": {"seen": 7}});
    let object = try_apply(&api, "user", part).await.unwrap();
    assert_eq!(object.data["status"].get("seen"), None);
}

pub async fn applying_creates_what_is_not_there(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    let part = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"a": 1}});
    let object = try_apply(&api, "one", part).await.unwrap();
    assert!(object.uid().is_some());
    assert_eq!(object.metadata.generation, Some(1));
    let owners = object.managed_fields();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].operation.as_deref(), Some("Apply"));
    assert_eq!(
        json(&owners[0].fields_v1),
        json!({"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:a": {}}})
    );
    let part = wanted(&api, json!({"status": {"seen": 1}}));
    let parameters = PatchParams::apply("one");
    let status = refusal(api.patch_status("none", &parameters, &part).await);
    assert!(status.code == 404 || status.code == 400);
    // Who it is has to be said.
    let status = refusal(api.patch("w", &PatchParams::default(), &part).await);
    assert_eq!(status.code, 422);
}

pub async fn applying_the_same_again_changes_nothing(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    let part = json!({"spec": {"a": 1, "keyed": [{"name": "k", "x": 1}]}});
    let first = try_apply(&api, "one", part.clone()).await.unwrap();
    let second = try_apply(&api, "one", part).await.unwrap();
    assert_eq!(version_of(&first), version_of(&second));
}

pub async fn an_update_takes_a_field_over(setting: &Setting<'_>) {
    let api = setting.widgets(spec()).await;
    apply(&api, "one", json!({"a": 1, "b": 1})).await;
    let mut object = api.get("w").await.unwrap();
    object.data["spec"]["a"] = json!(2);
    let parameters = PostParams {
        field_manager: Some("editor".into()),
        ..PostParams::default()
    };
    api.replace("w", &parameters, &object).await.unwrap();
    let status = refusal(try_apply(&api, "one", json!({"spec": {"a": 3}})).await);
    assert_eq!(status.code, 409);
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1);
    assert!(causes[0].message.contains("\"editor\""), "{causes:?}");
    // With the value that it has, both own it.
    let same = apply(&api, "one", json!({"a": 2})).await;
    assert_eq!(same, json!({"a": 2}));
}
