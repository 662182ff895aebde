//! Admission webhooks, by URL.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::setting::{Setting, create, json as as_json, mk_config_map, object, refusal};
use crate::webhook::{Webhook, patch};

/// Until it is the behaviour's webhook that answers: a server takes its time to learn of one.
const PATIENCE: Duration = Duration::from_secs(30);

/// A configuration for the writes of config maps in the setting's namespace.
fn configuration(setting: &Setting<'_>, webhook: &Webhook, policy: &str) -> Value {
    let own = json!({"kubernetes.io/metadata.name": setting.namespace});
    json!({
        // By which the setting finds it when the behaviour is at its end.
        "metadata": {"name": setting.namespace},
        "webhooks": [{
            "name": "admit.netqos.example.com",
            "clientConfig": {"url": webhook.url, "caBundle": webhook.authorities},
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["configmaps"],
            }],
            "namespaceSelector": {"matchLabels": own},
            "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
            "failurePolicy": policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }],
    })
}

async fn validating(setting: &Setting<'_>, webhook: &Webhook, policy: &str) {
    let all: Api<ValidatingWebhookConfiguration> = Api::all(setting.client.clone());
    create(&all, &object(configuration(setting, webhook, policy))).await;
}

/// Writes without writing, until it is so.
async fn until(setting: &Setting<'_>, is_so: impl Fn(&kube::Result<ConfigMap>) -> bool) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let began = Instant::now();
    loop {
        let probe = mk_config_map("probe", json!({}), json!({}));
        let tried = setting.config_maps().create(&dry, &probe).await;
        if is_so(&tried) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{tried:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn a_webhook_that_refuses_is_the_answer(setting: &Setting<'_>) {
    let webhook = Webhook::start(|request| {
        let name = request["name"].as_str().unwrap_or("");
        let code = if name == "odd" { json!(200) } else { json!(403) };
        let status = json!({"code": code, "reason": "Forbidden", "message": "not by me"});
        json!({"allowed": name == "fine", "status": status})
    });
    let webhook = webhook.await;
    validating(setting, &webhook, "Fail").await;
    until(setting, |tried| matches!(tried, Err(kube::Error::Api(status)) if status.code == 403)).await;
    let maps = setting.config_maps();
    let post = PostParams::default();
    let map = |name: &str| mk_config_map(name, json!({}), json!({}));
    let status = refusal(maps.create(&post, &map("bad")).await);
    let says = "admission webhook \"admit.netqos.example.com\" denied the request: not by me";
    assert_eq!((status.code, &*status.reason, &*status.message), (403, "Forbidden", says));
    // A refusal that says success is a bad request.
    assert_eq!(refusal(maps.create(&post, &map("odd")).await).code, 400);
    assert!(maps.get_opt("bad").await.unwrap().is_none());
    // What its selectors leave out it is not asked about.
    let free = mk_config_map("free", json!({"free": "yes"}), json!({}));
    create(&maps, &free).await;
    // It is asked of each write, with what was there before.
    let mut fine = create(&maps, &map("fine")).await;
    fine.data = Some([("a".to_owned(), "b".to_owned())].into());
    maps.replace("fine", &post, &fine).await.unwrap();
    maps.delete("fine", &DeleteParams::default()).await.unwrap();
    let asked = webhook.asked.lock().unwrap().clone();
    let of_fine = asked.iter().filter(|it| it["name"] == "fine");
    let of_fine: Vec<_> = of_fine
        .map(|it| {
            let data = |object: &str| it[object]["data"]["a"].as_str().map(str::to_owned);
            let is = |object: &str| it[object].is_object();
            let operation = it["operation"].as_str().unwrap().to_owned();
            (operation, is("object"), data("object"), is("oldObject"), data("oldObject"))
        })
        .collect();
    let b = || Some("b".to_owned());
    assert_eq!(
        of_fine,
        [
            ("CREATE".to_owned(), true, None, false, None),
            ("UPDATE".to_owned(), true, b(), true, None),
            ("DELETE".to_owned(), false, None, true, b()),
        ]
    );
    let first = asked.iter().find(|it| it["name"] == "fine").unwrap();
    assert_eq!(first["namespace"], setting.namespace.as_str());
    assert_eq!(first["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(first["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert!(asked.iter().all(|it| it["name"] != "free"));
    webhook.stop().await;
}

pub async fn what_a_webhook_changes_is_kept(setting: &Setting<'_>) {
    let webhook = Webhook::start(|_| {
        patch(&json!([
            {"op": "add", "path": "/data/added", "value": "by the webhook"},
            {"op": "replace", "path": "/data/there", "value": "otherwise"},
        ]))
    });
    let webhook = webhook.await;
    let all: Api<MutatingWebhookConfiguration> = Api::all(setting.client.clone());
    create(&all, &object(configuration(setting, &webhook, "Ignore"))).await;
    let maps = setting.config_maps();
    let map = mk_config_map("a", json!({}), json!({"there": "before"}));
    let began = Instant::now();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    while maps.create(&dry, &map).await.unwrap().data == map.data {
        assert!(began.elapsed() < PATIENCE, "it is not asked");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    create(&maps, &map).await;
    let kept = maps.get("a").await.unwrap();
    let right = json!({"added": "by the webhook", "there": "otherwise"});
    assert_eq!(as_json(&kept)["data"], right);
    webhook.stop().await;
}

pub async fn what_a_webhook_warns_of_is_passed_on(setting: &Setting<'_>) {
    let webhook = Webhook::start(|_| json!({"allowed": true, "warnings": ["mind \"this\"", "and that"]}));
    let webhook = webhook.await;
    validating(setting, &webhook, "Ignore").await;
    let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", setting.namespace);
    let map = mk_config_map("a", json!({}), json!({}));
    let mut map = as_json(&map);
    map["apiVersion"] = "v1".into();
    map["kind"] = "ConfigMap".into();
    let began = Instant::now();
    loop {
        let request = http::Request::post(&path)
            .header("content-type", "application/json")
            .body(kube::client::Body::from(map.to_string().into_bytes()))
            .unwrap();
        let response = setting.client.send(request).await.unwrap();
        assert_eq!(response.status(), 201);
        let warnings = response.headers().get_all("warning").into_iter();
        let warnings: Vec<_> = warnings.map(|it| it.to_str().unwrap().to_owned()).collect();
        if !warnings.is_empty() {
            assert_eq!(warnings, ["299 - \"mind \\\"this\\\"\"", "299 - \"and that\""]);
            break;
        }
        assert!(began.elapsed() < PATIENCE, "it is not asked");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    webhook.stop().await;
}

pub async fn who_does_not_answer_is_passed_over_where_he_says_so(setting: &Setting<'_>) {
    let webhook = Webhook::start(|_| json!({"allowed": false}));
    let webhook = webhook.await;
    validating(setting, &webhook, "Fail").await;
    until(setting, |tried| {
        let says = "denied the request without explanation";
        matches!(tried, Err(kube::Error::Api(status)) if status.message.ends_with(says))
    })
    .await;
    webhook.stop().await;
    let maps = setting.config_maps();
    let map = mk_config_map("a", json!({}), json!({}));
    let status = refusal(maps.create(&PostParams::default(), &map).await);
    assert_eq!((status.code, &*status.reason), (500, "InternalError"));
    let says = "Internal error occurred: failed calling webhook \"admit.netqos.example.com\": \
                failed to call webhook: Post \"https://127.0.0.1:";
    assert!(status.message.starts_with(says), "{}", status.message);
    let all: Api<ValidatingWebhookConfiguration> = Api::all(setting.client.clone());
    let mut found = all.get(&setting.namespace).await.unwrap();
    for webhook in found.webhooks.iter_mut().flatten() {
        webhook.failure_policy = Some("Ignore".to_owned());
    }
    all.replace(&setting.namespace, &PostParams::default(), &found).await.unwrap();
    until(setting, Result::is_ok).await;
    create(&maps, &map).await;
}
