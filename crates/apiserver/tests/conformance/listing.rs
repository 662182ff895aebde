//! Lists.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, ObjectList, VersionMatch};
use serde_json::json;

use crate::setting::*;

fn names<K: kube::Resource>(objects: &[K]) -> Vec<&str> {
    let names = objects.iter().map(|object| object.meta().name.as_deref());
    names.map(Option::unwrap).collect()
}

pub async fn pages_are_of_one_state(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let label = json!({"paged": "yes"});
    for name in ["a", "b", "c", "d", "e"] {
        create(&api, &mk_config_map(name, label.clone(), json!({}))).await;
    }
    let parameters = ListParams::default().labels("paged").limit(2);
    let first = api.list(&parameters).await.unwrap();
    assert_eq!(names(&first.items), ["a", "b"]);
    // What happens between pages is not in them.
    api.delete("c", &DeleteParams::default()).await.unwrap();
    create(&api, &mk_config_map("ca", label, json!({}))).await;
    let token = first.metadata.continue_.clone().unwrap();
    let second = api.list(&parameters.clone().continue_token(&token)).await;
    let second = second.unwrap();
    assert_eq!(names(&second.items), ["c", "d"]);
    assert_eq!(
        second.metadata.resource_version,
        first.metadata.resource_version
    );
    let token = second.metadata.continue_.unwrap();
    let third = api.list(&parameters.clone().continue_token(&token)).await;
    let third = third.unwrap();
    assert_eq!(names(&third.items), ["e"]);
    assert_eq!(third.metadata.continue_.unwrap_or_default(), "");
    let whole = api
        .list(&ListParams::default().labels("paged"))
        .await
        .unwrap();
    assert_eq!(names(&whole.items), ["a", "b", "ca", "d", "e"]);
}

pub async fn a_list_of_any_state_has_no_pages(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let mut version = String::new();
    for name in ["a", "b", "c"] {
        let object = mk_config_map(name, json!({"cached": "yes"}), json!({}));
        version = version_of(&create(&api, &object).await);
    }
    // Whoever has been told of a state is told of none before it.
    let fresh = ListParams::default().labels("cached").at(&version);
    api.list(&fresh.matching(VersionMatch::NotOlderThan))
        .await
        .unwrap();
    // As no client asks by itself.
    let url = api.resource_url();
    let url = format!("{url}?labelSelector=cached&limit=2&resourceVersion=0");
    let request = http::Request::get(url).body(Vec::new()).unwrap();
    let list: ObjectList<ConfigMap> = setting.client.request(request).await.unwrap();
    assert_eq!(names(&list.items), ["a", "b", "c"]);
    assert_eq!(list.metadata.continue_.unwrap_or_default(), "");
}

pub async fn selectors_choose(setting: &Setting<'_>) {
    let api = setting.pods();
    for (name, labels, node) in [
        ("a", json!({"tier": "web"}), "n1"),
        ("b", json!({"tier": "db", "old": ""}), "n1"),
        ("c", json!({}), "n2"),
    ] {
        let more = json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}});
        create(&api, &mk_pod(name, more)).await;
    }
    let listed = async |labels: &str, fields: &str| {
        let parameters = ListParams::default().labels(labels).fields(fields);
        let list = api.list(&parameters).await.unwrap();
        list.items.iter().map(Pod::name_any).collect::<Vec<_>>()
    };
    for (labels, fields, expected) in [
        ("tier=web", "", &["a"][..]),
        ("tier in (web, db)", "", &["a", "b"]),
        ("tier notin (web)", "", &["b", "c"]),
        ("tier!=db", "", &["a", "c"]),
        ("tier,!old", "", &["a"]),
        ("!tier", "", &["c"]),
        ("", "spec.nodeName=n1", &["a", "b"]),
        ("", "spec.nodeName!=n1", &["c"]),
        ("", "metadata.name=b", &["b"]),
        ("", "status.phase=Pending,spec.nodeName=n2", &["c"]),
        ("", "status.phase=Running", &[]),
        ("tier=db", "spec.nodeName=n1", &["b"]),
    ] {
        assert_eq!(listed(labels, fields).await, expected, "{labels} {fields}");
    }
}

pub async fn a_field_that_cannot_be_selected_by_is_refused(setting: &Setting<'_>) {
    let parameters = ListParams::default().fields("spec.containers=a");
    let status = refusal(setting.pods().list(&parameters).await);
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
    let widgets = setting.widgets(anything()).await;
    let parameters = ListParams::default().fields("spec.a=1");
    let status = refusal(widgets.list(&parameters).await);
    assert_eq!(status.code, 400);
}

pub async fn metadata_alone_can_be_asked_for(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = mk_config_map("one", json!({"a": "b"}), json!({"big": "x".repeat(1000)}));
    let object = create(&api, &object).await;
    let got = api.get_metadata("one").await.unwrap();
    assert_eq!(got.metadata, object.metadata);
    let list = api
        .list_metadata(&ListParams::default().labels("a=b"))
        .await;
    let list = list.unwrap();
    assert_eq!(list.items[0].metadata, object.metadata);
    // And no more comes.
    let media = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let request = http::Request::get(api.resource_url())
        .header("accept", media)
        .body(Vec::new())
        .unwrap();
    let text = setting.client.request_text(request).await.unwrap();
    assert!(text.contains("\"one\"") && !text.contains("xxxx"), "{text}");
}

pub async fn a_version_of_the_future_is_refused(setting: &Setting<'_>) {
    let api = setting.config_maps();
    let object = create(&api, &mk_config_map("one", json!({}), json!({}))).await;
    let listed = async |version: &str| {
        let parameters = ListParams::default().at(version);
        api.list(&parameters).await
    };
    let at_least: Vec<ConfigMap> = listed(&version_of(&object)).await.unwrap().items;
    assert!(at_least.iter().any(|one| one.name_any() == "one"));
    listed("0").await.unwrap();
    let version: u64 = version_of(&object).parse().unwrap();
    let status = refusal(listed(&(version + 1_000_000).to_string()).await);
    assert_eq!((status.code, &*status.reason), (504, "Timeout"));
    assert_eq!(refusal(listed("new").await).code, 400);
}
