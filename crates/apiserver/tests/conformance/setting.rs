//! What a behaviour is tried in.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::Status;
use kube::{Client, Resource};
use netqos_apiserver::{Cluster, RealCluster};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a behaviour may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster, and a namespace in it that is the behaviour's alone.
pub struct Setting<'c> {
    pub cluster: &'c Cluster,
    pub client: Client,
    pub namespace: String,
    definitions: std::sync::Mutex<Vec<String>>,
}

/// Tries one behaviour on this crate's server.
pub fn on_the_fixture(behaviour: impl AsyncFn(&Setting<'_>)) {
    runtime().block_on(async {
        let cluster = Cluster::fixture().unwrap();
        let setting = Setting::new(&cluster).await;
        let tried = tokio::time::timeout(PATIENCE, behaviour(&setting)).await;
        tried.expect("it takes too long");
    });
}

/// Tries all behaviours on a real server, if there is one.
pub fn on_a_real_server(all: impl AsyncFn(&mut Suite)) {
    runtime().block_on(async {
        let Some(real) = RealCluster::start_if_named().await.unwrap() else {
            return;
        };
        let mut suite = Suite {
            cluster: Cluster::Real(real),
            tried: 0,
            failed: Vec::new(),
        };
        all(&mut suite).await;
        eprintln!("{} behaviours tried on a real API server", suite.tried);
        assert!(suite.failed.is_empty(), "failed: {:#?}", suite.failed);
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// All behaviours on one cluster.
pub struct Suite {
    cluster: Cluster,
    tried: usize,
    failed: Vec<&'static str>,
}

impl Suite {
    /// Tries one, and goes on when it fails.
    pub async fn run(&mut self, name: &'static str, behaviour: impl AsyncFn(&Setting<'_>)) {
        let setting = Setting::new(&self.cluster).await;
        let tried = AssertUnwindSafe(behaviour(&setting)).catch_unwind();
        let tried = tokio::time::timeout(PATIENCE, tried).await;
        setting.clean_up().await;
        self.tried += 1;
        if !matches!(tried, Ok(Ok(()))) {
            self.failed.push(name);
        }
    }
}

impl<'c> Setting<'c> {
    async fn new(cluster: &'c Cluster) -> Self {
        Self {
            cluster,
            client: cluster.client("conformance").await.unwrap(),
            namespace: cluster.namespace("conformance").await.unwrap(),
            definitions: Default::default(),
        }
    }

    async fn clean_up(self) {
        let parameters = DeleteParams::default();
        for name in self.definitions.into_inner().unwrap() {
            let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            definitions.delete(&name, &parameters).await.ok();
        }
        // Of the few behaviours that have them, under this name.
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        webhooks.delete(&self.namespace, &parameters).await.ok();
        let webhooks: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        webhooks.delete(&self.namespace, &parameters).await.ok();
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        policies.delete(&self.namespace, &parameters).await.ok();
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        bindings.delete(&self.namespace, &parameters).await.ok();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &parameters).await.ok();
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    pub fn config_maps(&self) -> Api<ConfigMap> {
        self.api()
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Has a resource `widgets` served, in a group of its own, whose `spec` is as given, with a
    /// status whose conditions are told apart by their type.
    pub async fn widgets(&self, spec: Value) -> Api<DynamicObject> {
        self.define(json!([version("v1", true, spec)]), "v1").await
    }

    /// As [`widgets`](Self::widgets), in these versions; the client speaks one of them.
    pub async fn define(&self, versions: Value, spoken: &str) -> Api<DynamicObject> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = format!("g{number}-{}.example.com", self.namespace);
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group,
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
                "scope": "Namespaced",
                "versions": versions,
            },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        self.serve(&definition).await;
        self.widgets_in(&group, spoken)
    }

    /// Serves a definition as long as the behaviour is tried.
    pub async fn serve(&self, definition: &CustomResourceDefinition) {
        self.cluster.define(definition).await.unwrap();
        let name = definition.metadata.name.clone().unwrap();
        self.definitions.lock().unwrap().push(name);
    }

    /// The widgets of a group.
    pub fn widgets_in(&self, group: &str, version: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, "Widget");
        let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }
}

/// A version of the definition of widgets.
pub fn version(name: &str, storage: bool, spec: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": spec,
                "status": {
                    "type": "object",
                    "properties": {
                        "seen": {"type": "integer"},
                        "conditions": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": {
                                "type": "object",
                                "required": ["type"],
                                "properties": {
                                    "type": {"type": "string"},
                                    "status": {"type": "string"},
                                    "reason": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        }},
    })
}

/// A `spec` with whatever is in it.
pub fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A widget.
pub fn mk_widget(api: &Api<DynamicObject>, name: &str, spec: Value) -> DynamicObject {
    let (group, version) = group_and_version(api);
    object(json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }))
}

/// The group and version of an API, by its path.
pub fn group_and_version(api: &Api<DynamicObject>) -> (String, String) {
    let mut parts = api.resource_url().split('/').skip(2);
    let mut next = || parts.next().unwrap().to_owned();
    (next(), next())
}

/// A pod that a server takes, in the words of its author.
pub fn mk_pod(name: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "registry.example/a"}]},
    });
    merge(&mut pod, more);
    object(pod)
}

pub fn mk_config_map(name: &str, labels: Value, data: Value) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": labels}, "data": data}))
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

pub fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn json<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap()
}

pub async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), object).await.unwrap()
}

/// What a server said in place of doing it.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("a refusal is expected, not {other:?}"),
    }
}

/// The fields of the causes of a refusal, sorted.
pub fn fields(status: &Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut fields: Vec<String> = causes.map(|cause| cause.field.clone()).collect();
    fields.sort();
    fields
}

/// The `resourceVersion` of an object.
pub fn version_of(object: &impl kube::ResourceExt) -> String {
    object.resource_version().unwrap()
}

/// The events of a watch until so many have come, as `TYPE name`; bookmarks are left out.
pub async fn events<K>(
    api: &Api<K>,
    parameters: &WatchParams,
    version: &str,
    count: usize,
) -> Vec<String>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Resource + Serialize,
{
    let stream = api.watch(parameters, version).await.unwrap();
    next_events(&mut pin!(stream), count).await
}

/// The next events of a watch, as `TYPE name`; bookmarks are left out.
pub async fn next_events<K: Resource>(
    stream: &mut (impl Stream<Item = kube::Result<WatchEvent<K>>> + Unpin),
    count: usize,
) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), stream.next());
        let Ok(Some(event)) = next.await else { break };
        let (kind, object) = match event.unwrap() {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => {
                events.push(format!("ERROR {}", status.code));
                continue;
            }
        };
        events.push(format!("{kind} {}", object.meta().name.as_deref().unwrap()));
    }
    events
}
