//! Objects on a real API server.

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// The time until the API server serves a CRD, and until a policy has an effect.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn resource(kind: &str, version: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

pub(super) async fn create(client: &Client, object: &Value) {
    let resource = resource(
        object["kind"].as_str().unwrap(),
        object["apiVersion"].as_str().unwrap(),
    );
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let object = serde_json::from_value(object.clone()).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

/// Tries until there is a result.
pub(super) async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(result) = attempt().await {
            return result;
        }
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The message of a refusal.
#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(answer: kube::Result<T>) -> String {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message.clone(),
        other => panic!("{other:?}"),
    }
}
