//! Resources that definitions make.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchParams};
use netqos_k8s::{BandwidthProfile, NetworkQoS, definitions};
use serde_json::{Value, json};

use crate::setting::*;

fn parameters() -> PostParams {
    PostParams::default()
}

pub async fn what_breaks_the_schema_is_refused_with_its_field(setting: &Setting<'_>) {
    let spec = json!({
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "share": {"type": "number", "exclusiveMinimum": true, "minimum": 0},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "port": {"x-kubernetes-int-or-string": true},
            "on": {"type": "boolean"},
            "either": {
                "type": "object",
                "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
                "oneOf": [{"required": ["p"]}, {"required": ["q"]}],
            },
        },
    });
    let api = setting.widgets(spec).await;
    let good = json!({
        "kind": "a", "count": 9, "share": 0.5, "name": "abc", "list": ["x"], "map": {"k": 1},
        "port": "http", "on": true, "either": {"p": "1"},
    });
    create(&api, &mk_widget(&api, "good", good)).await;
    for (spec, field) in [
        (json!({}), "spec.kind"),
        (json!({"kind": "c"}), "spec.kind"),
        (json!({"kind": "a", "count": 10}), "spec.count"),
        (json!({"kind": "a", "count": "1"}), "spec.count"),
        (json!({"kind": "a", "count": 1.5}), "spec.count"),
        (json!({"kind": "a", "share": 0}), "spec.share"),
        (json!({"kind": "a", "name": "A"}), "spec.name"),
        (json!({"kind": "a", "name": "abcdef"}), "spec.name"),
        (json!({"kind": "a", "list": ["x", "y", "z"]}), "spec.list"),
        (json!({"kind": "a", "list": [1]}), "spec.list[0]"),
        (json!({"kind": "a", "map": {"k": "v"}}), "spec.map"),
        (json!({"kind": "a", "port": 1.5}), "spec.port"),
        (json!({"kind": "a", "on": "yes"}), "spec.on"),
        (
            json!({"kind": "a", "either": {"p": "1", "q": "2"}}),
            "spec.either",
        ),
    ] {
        let status = refusal(
            api.create(&parameters(), &mk_widget(&api, "bad", spec))
                .await,
        );
        assert_eq!((status.code, &*status.reason), (422, "Invalid"), "{field}");
        let found = fields(&status);
        assert!(found.iter().any(|one| one.starts_with(field)), "{field}: {found:?}");
    }
}

pub async fn what_breaks_a_rule_is_refused_with_its_field(setting: &Setting<'_>) {
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "!has(self.burst) || has(self.rate)", "message": "burst needs rate"},
        ],
        "properties": {
            "rate": {"type": "integer"},
            "burst": {"type": "integer"},
            "cidr": {
                "type": "string",
                "maxLength": 50,
                "x-kubernetes-validations": [{"rule": "isCIDR(self)", "message": "no CIDR"}],
            },
        },
    });
    let api = setting.widgets(spec).await;
    let good = json!({"rate": 1, "burst": 2, "cidr": "10.0.0.0/8"});
    create(&api, &mk_widget(&api, "good", good)).await;
    let bad = mk_widget(&api, "bad", json!({"burst": 2, "cidr": "10"}));
    let status = refusal(api.create(&parameters(), &bad).await);
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(fields(&status), ["spec", "spec.cidr"]);
    assert!(status.message.contains("burst needs rate"));
}

pub async fn a_rule_sees_what_was_before(setting: &Setting<'_>) {
    let spec = json!({
        "type": "object",
        "properties": {"fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "may not change"}],
        }},
    });
    let api = setting.widgets(spec).await;
    let mut object = create(&api, &mk_widget(&api, "w", json!({"fixed": "a"}))).await;
    object.data["spec"]["fixed"] = json!("b");
    let status = refusal(api.replace("w", &parameters(), &object).await);
    assert_eq!(fields(&status), ["spec.fixed"]);
}

fn with_defaults() -> Value {
    json!({
        "type": "object",
        "default": {},
        "properties": {
            "mode": {"type": "string", "default": "on"},
            "inner": {"type": "object", "properties": {"x": {"type": "integer", "default": 7}}},
            "maybe": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

pub async fn unknown_fields_are_dropped_and_defaults_filled_in(setting: &Setting<'_>) {
    let api = setting.widgets(with_defaults()).await;
    let spec = json!({
        "inner": {"typo": 1}, "typo": 2, "mode": null, "maybe": null, "free": {"any": "thing"},
    });
    let object = create(&api, &mk_widget(&api, "w", spec)).await;
    assert_eq!(
        object.data["spec"],
        json!({"mode": "on", "inner": {"x": 7}, "maybe": null, "free": {"any": "thing"}})
    );
    let mut empty = mk_widget(&api, "empty", json!(null));
    empty.data = json!({});
    assert_eq!(
        create(&api, &empty).await.data["spec"],
        json!({"mode": "on"})
    );
}

pub async fn strict_validation_refuses_unknown_fields(setting: &Setting<'_>) {
    let api = setting.widgets(with_defaults()).await;
    let strictly = async |path: String, object: Value| {
        let request = http::Request::post(format!("{path}?fieldValidation=Strict"))
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        refusal(setting.client.request::<Value>(request).await)
    };
    let typo = mk_widget(&api, "w", json!({"inner": {"typo": 1}}));
    let status = strictly(api.resource_url().to_owned(), json(&typo)).await;
    assert_eq!((status.code, &*status.reason), (400, "BadRequest"));
    assert!(status.message.contains("unknown field \"spec.inner.typo\""));
    let path = format!("/api/v1/namespaces/{}/configmaps", setting.namespace);
    let typo = json!({"metadata": {"name": "one"}, "dota": {"a": "1"}});
    let status = strictly(path, typo).await;
    assert!(
        status.message.contains("unknown field \"dota\""),
        "{status:?}"
    );
}

pub async fn a_definition_that_goes_takes_its_objects_along(setting: &Setting<'_>) {
    let api = setting.widgets(anything()).await;
    let object = create(&api, &mk_widget(&api, "w", json!({}))).await;
    let from = version_of(&object);
    let stream = api.watch(&WatchParams::default(), &from).await.unwrap();
    let (group, _) = group_and_version(&api);
    let definitions: Api<CustomResourceDefinition> = Api::all(setting.client.clone());
    let name = format!("widgets.{group}");
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let told = next_events(&mut std::pin::pin!(stream), 1).await;
    assert_eq!(told, ["DELETED w"]);
    for _ in 0..100 {
        let gone = definitions.get_opt(&name).await.unwrap().is_none();
        if gone && api.list(&ListParams::default()).await.is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let status = refusal(api.list(&ListParams::default()).await);
    assert_eq!(status.code, 404);
}

pub async fn each_version_is_served_as_itself(setting: &Setting<'_>) {
    let versions = json!([
        version("v1beta1", false, anything()),
        version("v1", true, anything())
    ]);
    let api = setting.define(versions, "v1beta1").await;
    let (group, _) = group_and_version(&api);
    let stable = setting.widgets_in(&group, "v1");
    let old = create(&api, &mk_widget(&api, "w", json!({"a": 1}))).await;
    let new = stable.get("w").await.unwrap();
    let said = |object: &kube::api::DynamicObject| object.types.clone().unwrap().api_version;
    assert_eq!(said(&old), format!("{group}/v1beta1"));
    assert_eq!(said(&new), format!("{group}/v1"));
    assert_eq!((new.uid(), &new.data), (old.uid(), &old.data));
    let status = refusal(
        api.create(&parameters(), &mk_widget(&stable, "x", json!({})))
            .await,
    );
    assert_eq!(status.code, 400);
}

pub async fn the_definition_of_networkqos_is_served(setting: &Setting<'_>) {
    setting.serve(&netqos_k8s::crd().unwrap()).await;
    let api: Api<NetworkQoS> = setting.api();
    let policy = |name: &str, spec: Value| -> NetworkQoS {
        object(json!({
            "apiVersion": "k8s.ovn.org/v1alpha1",
            "kind": "NetworkQoS",
            "metadata": {"name": name},
            "spec": spec,
        }))
    };
    let rule = json!({"dscp": 10, "bandwidth": {"rate": 1000, "burst": 100}});
    let good = policy("good", json!({"priority": 1, "egress": [rule]}));
    let good = create(&api, &good).await;
    assert_eq!(good.metadata.generation, Some(1));
    let bad = policy("bad", json!({"priority": 101, "egress": [{"bandwidth": {"burst": 1}}]}));
    let status = refusal(api.create(&parameters(), &bad).await);
    assert_eq!(status.code, 422);
    assert!(fields(&status).contains(&"spec.priority".to_owned()));
    let bad = policy("bad", json!({"priority": 1, "egress": [{"bandwidth": {"burst": 1}}]}));
    let status = refusal(api.create(&parameters(), &bad).await);
    assert_eq!(status.code, 422, "{status:?}");
}

pub async fn defaults_of_our_definitions_are_filled_in(setting: &Setting<'_>) {
    let mut definitions = definitions().into_iter();
    let profiles = definitions.find(|it| it.name().starts_with("bandwidthprofiles."));
    setting.serve(&profiles.unwrap().crd().unwrap()).await;
    let api: Api<BandwidthProfile> = setting.api();
    let profile = object(json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "BandwidthProfile",
        "metadata": {"name": "ten"},
        "spec": {"egress": {"rate": "10M"}},
    }));
    let spec = create(&api, &profile).await.spec;
    assert_eq!((spec.priority, spec.pod_selector), (Some(0), Some(Default::default())));
}
