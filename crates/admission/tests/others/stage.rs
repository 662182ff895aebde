//! An API server with our definitions, and webhooks that it asks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::Status;
use netqos_admission::{Options, Reach, Webhook, mutating, validating};
use netqos_faults::{Account, Cluster};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What takes longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The namespace of the webhook.
pub const OWN: &str = "netqos-system";
/// That of everybody else.
pub const GAMES: &str = "games";

/// A cluster, and how its webhook is run.
pub struct Stage {
    pub cluster: Cluster,
    pub client: Client,
    pub options: Options,
}

/// A webhook that runs.
pub struct Running {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What a server said to a write.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

impl Stage {
    /// With our definitions and both namespaces, and no webhook yet.
    pub async fn new() -> Self {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let games = serde_json::from_value(json!({"metadata": {"name": GAMES}})).unwrap();
        namespaces
            .create(&PostParams::default(), &games)
            .await
            .unwrap();
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            namespace: OWN.to_owned(),
            names: vec!["127.0.0.1".to_owned()],
            look_every: Duration::from_millis(300),
            settle: Duration::from_millis(500),
            ..Options::default()
        };
        Self {
            cluster,
            client,
            options,
        }
    }

    /// With the webhook, which the API server asks.
    pub async fn asked() -> (Self, Running) {
        let stage = Self::new().await;
        let webhook = stage.start().await;
        stage.ask(&webhook).await;
        (stage, webhook)
    }

    /// Starts the webhook.
    pub async fn start(&self) -> Running {
        let client = self.cluster.client_of(Account::Controller).await;
        self.start_as(client.unwrap()).await
    }

    /// Starts the webhook with this client.
    pub async fn start_as(&self, client: Client) -> Running {
        let webhook = Webhook::bind(self.options.clone()).await.unwrap();
        let address = webhook.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = webhook.serve(client, async {
            stopped.await.ok();
        });
        let task = tokio::spawn(async { served.await.unwrap() });
        Running {
            address,
            stop,
            task,
        }
    }

    /// Has the API server ask this webhook by its URL, and waits until it does.
    pub async fn ask(&self, running: &Running) {
        let reach = Reach::Url(format!("https://{}", running.address));
        let parameters = PostParams::default();
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        all.create(&parameters, &validating(&self.options, &reach).unwrap())
            .await
            .unwrap();
        let all: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        all.create(&parameters, &mutating(&self.options, &reach).unwrap())
            .await
            .unwrap();
        self.wait_until_it_answers().await;
    }

    /// Has the API server ask nobody any more.
    pub async fn forget(&self) {
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let name = &self.options.configurations;
        all.delete(name, &DeleteParams::default()).await.unwrap();
        let all: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        all.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Takes the authorities out of the validating configuration, as `helm upgrade` does.
    pub async fn remove_authorities(&self) {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/netqos";
        let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
        let media = "application/json-patch+json";
        let said = self.send("PATCH", path, media, &remove).await;
        assert_eq!(said.status, 200, "{said:?}");
    }

    /// Tries, without writing anything, until a bad annotation is warned of.
    pub async fn wait_until_it_answers(&self) {
        let pod = pod("probe", json!({"kubernetes.io/egress-bandwidth": "x"}));
        let path = "/api/v1/namespaces/games/pods?dryRun=All";
        let began = Instant::now();
        while self.post(path, &pod).await.warnings.is_empty() {
            assert!(began.elapsed() < PATIENCE, "it does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn post(&self, path: &str, object: &Value) -> Said {
        self.send("POST", path, "application/json", object).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Said {
        self.send("PATCH", path, "application/merge-patch+json", patch)
            .await
    }

    pub async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Said {
        let request = kube::client::Body::from(serde_json::to_vec(body).unwrap());
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(request)
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let warnings = response.headers().get_all("warning").into_iter();
        let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let (status, warnings) = (response.status().as_u16(), warnings.collect());
        let body = response.into_body().collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        Said {
            status,
            warnings,
            body,
        }
    }

    /// Creates an object of one of our kinds.
    pub async fn create(&self, kind: &str, namespace: &str, name: &str, spec: Value) -> Said {
        let (version, plural) = match kind {
            "NetworkQoS" => ("k8s.ovn.org/v1alpha1", "networkqoses"),
            "NetworkQoSQuota" => ("netqos.io/v1alpha1", "networkqosquotas"),
            _ => ("netqos.io/v1alpha1", "bandwidthprofiles"),
        };
        let path = match namespace {
            "" => format!("/apis/{version}/{plural}"),
            namespace => format!("/apis/{version}/namespaces/{namespace}/{plural}"),
        };
        let metadata = json!({"name": name});
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        self.post(&path, &object).await
    }

    /// The same, again and again, without writing, until what is said is so: watches take their
    /// time.
    pub async fn said(&self, object: &Value, plural: &str, is_so: impl Fn(&Said) -> bool) -> Said {
        let path = format!("/apis/k8s.ovn.org/v1alpha1/namespaces/games/{plural}?dryRun=All");
        let began = Instant::now();
        loop {
            let said = self.post(&path, object).await;
            if is_so(&said) {
                return said;
            }
            assert!(began.elapsed() < PATIENCE, "{said:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The certificate in the Secret.
    pub async fn certificate(&self) -> String {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), OWN);
        let secret = secrets.get(&self.options.secret).await.unwrap();
        String::from_utf8(secret.data.unwrap()["tls.crt"].0.clone()).unwrap()
    }
}

impl Running {
    /// Ends it, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.expect("it does not end").unwrap();
    }
}

impl Said {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or("")
    }

    /// The fields of the causes.
    pub fn fields(&self) -> Vec<String> {
        let status: Status = serde_json::from_value(self.body.clone()).unwrap();
        let causes = status
            .details
            .into_iter()
            .flat_map(|details| details.causes);
        causes.map(|cause| cause.field).collect()
    }
}

/// A pod with these annotations.
pub fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]},
    })
}

/// A policy of this priority that marks everything so.
pub fn policy(name: &str, priority: i64, dscp: i64) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": name, "namespace": GAMES},
        "spec": {"priority": priority, "egress": [{"dscp": dscp}]},
    })
}
