//! Watches.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use crate::setting::*;

async fn label(api: &Api<ConfigMap>, name: &str, labels: Value) {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let parameters = PatchParams::default();
    api.patch(name, &parameters, &patch).await.unwrap();
}

/// The version of the present state of a namespace.
async fn now(api: &Api<ConfigMap>) -> String {
    let list = api.list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap()
}

pub async fn a_watch_tells_what_happens_after_its_version(setting: &Setting<'_>) {
    let api = setting.config_maps();
    create(&api, &mk_config_map("before", json!({}), json!({}))).await;
    let from = now(&api).await;
    create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    label(&api, "one", json!({"a": "b"})).await;
    let last = api.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(last.is_right(), "gone at once");
    let expected = ["ADDED one", "MODIFIED one", "DELETED one"];
    let parameters = WatchParams::default();
    assert_eq!(events(&api, &parameters, &from, 3).await, expected);
    // The end of an object has a version of its own.
    let stream = api.watch(&parameters, &from).await.unwrap();
    let told: Vec<_> = stream.take(3).map(Result::unwrap).collect().await;
    let mut versions: Vec<u64> = Vec::new();
    for event in told {
        match event {
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => versions.push(version_of(&object).parse().unwrap()),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        versions.is_sorted_by(|one, next| one < next),
        "{versions:?}"
    );
}

pub async fn a_watch_from_nowhere_begins_with_what_is_there(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let ours = WatchParams::default().labels("ours");
    create(&api, &mk_config_map("one", json!({"ours": ""}), json!({}))).await;
    create(&api, &mk_config_map("two", json!({"ours": ""}), json!({}))).await;
    label(&api, "one", json!({"a": "b"})).await;
    // What is gone is not there.
    create(&api, &mk_config_map("gone", json!({"ours": ""}), json!({}))).await;
    api.delete("gone", &DeleteParams::default()).await.unwrap();
    create(&api, &mk_config_map("three", json!({"ours": ""}), json!({}))).await;
    for from in ["0", ""] {
        let mut found = events(&api, &ours, from, 3).await;
        found.sort();
        assert_eq!(found, ["ADDED one", "ADDED three", "ADDED two"]);
    }
}

pub async fn what_moves_into_a_selector_is_added_and_out_of_it_deleted(setting: &Setting<'_>) {
    let api = setting.config_maps();
    create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    let from = now(&api).await;
    label(&api, "one", json!({"tier": "web"})).await;
    label(&api, "one", json!({"more": "labels"})).await;
    label(&api, "one", json!({"tier": "db"})).await;
    label(&api, "one", json!({"more": null})).await;
    label(&api, "one", json!({"tier": "web"})).await;
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let selected = WatchParams::default().labels("tier=web");
    let expected = [
        "ADDED one",
        "MODIFIED one",
        "DELETED one",
        "ADDED one",
        "DELETED one",
    ];
    assert_eq!(events(&api, &selected, &from, 5).await, expected);
    // By field, too: pods of a node.
    let pods = setting.pods();
    let pod = create(&pods, &mk_pod("p", json!({}))).await;
    let of_node = WatchParams::default().fields("spec.nodeName=n1");
    let stream = pods.watch(&of_node, &version_of(&pod)).await.unwrap();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"name": "n1"},
    });
    let path = format!("/api/v1/namespaces/{}/pods/p/binding", setting.namespace);
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .unwrap();
    setting.client.request_text(request).await.unwrap();
    assert_eq!(next_events(&mut pin!(stream), 1).await, ["ADDED p"]);
}

pub async fn every_write_is_one_event(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let mut object = create(&api, &mk_widget(&api, "w", json!({"a": 1}))).await;
    let from = version_of(&object);
    let stream = api.watch(&WatchParams::default(), &from).await.unwrap();
    let parameters = PostParams::default();
    object.data["status"] = json!({"seen": 1});
    let mut object = api.replace_status("w", &parameters, &object).await.unwrap();
    object.data["spec"]["a"] = json!(2);
    let object = api.replace("w", &parameters, &object).await.unwrap();
    // None for what changes nothing.
    api.replace("w", &parameters, &object).await.unwrap();
    api.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        next_events(&mut pin!(stream), 3).await,
        ["MODIFIED w", "MODIFIED w", "DELETED w"]
    );
}

pub async fn bookmarks_say_how_far_a_watch_got(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let from = now(&api).await;
    create(&api, &mk_config_map("one", json!({"other": ""}), json!({}))).await;
    let parameters = WatchParams::default().labels("ours").timeout(4);
    let begun = Instant::now();
    let stream = api.watch(&parameters, &from).await.unwrap();
    let told: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(begun.elapsed() < Duration::from_secs(15), "it ends in time");
    let WatchEvent::Bookmark(bookmark) = told.last().unwrap() else {
        panic!("{told:?}");
    };
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert!(number(&bookmark.metadata.resource_version) > number(&from));
    assert!(
        told.iter()
            .all(|one| matches!(one, WatchEvent::Bookmark(_)))
    );
    // Who does not ask for them gets none.
    let mut silent = parameters.clone().timeout(3);
    silent.bookmarks = false;
    let stream = api.watch(&silent, &from).await.unwrap();
    assert_eq!(stream.count().await, 0);
}

pub async fn a_streaming_list_ends_with_a_bookmark(setting: &Setting<'_>) {
    let api = setting.config_maps();
    for name in ["one", "two"] {
        create(&api, &mk_config_map(name, json!({"ours": ""}), json!({}))).await;
    }
    let parameters = WatchParams::default().labels("ours").initial_events();
    let stream = api.watch(&parameters, "").await.unwrap();
    let told: Vec<_> = stream.take(3).map(Result::unwrap).collect().await;
    let mut names = Vec::new();
    for event in &told[..2] {
        let WatchEvent::Added(object) = event else {
            panic!("{event:?}");
        };
        names.push(object.name_any());
    }
    names.sort();
    assert_eq!(names, ["one", "two"]);
    let WatchEvent::Bookmark(bookmark) = &told[2] else {
        panic!("{:?}", told[2]);
    };
    let annotations = &bookmark.metadata.annotations;
    let end = annotations.get("k8s.io/initial-events-end");
    assert_eq!(end.map(String::as_str), Some("true"));
}

pub async fn a_watch_of_metadata_tells_no_more(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let from = now(&api).await;
    let data = json!({"big": "x".repeat(1000)});
    let object = create(&api, &mk_config_map("one", json!({}), data)).await;
    let stream = api.watch_metadata(&WatchParams::default(), &from).await;
    let event = pin!(stream.unwrap()).next().await.unwrap().unwrap();
    let WatchEvent::Added(told) = event else {
        panic!("{event:?}");
    };
    assert_eq!(told.metadata, object.metadata);
    let path = format!("{}?watch=1&timeoutSeconds=1&resourceVersion={from}", api.resource_url());
    let media = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = http::Request::get(path)
        .header("accept", media)
        .body(Vec::new())
        .unwrap();
    let text = setting.client.request_text(request).await.unwrap();
    assert!(text.contains("\"one\"") && !text.contains("xxxx"), "{text}");
}
