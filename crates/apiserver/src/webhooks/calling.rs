//! Where a webhook is, and a call of it.

use std::time::Duration;

use http::{Request, Uri};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::state::State;

/// Where a webhook is.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// `https://127.0.0.1:9443`.
    origin: String,
    /// `/validate`.
    path: String,
    /// The name in its certificate, where it is not that of the origin.
    name: Option<String>,
    /// The authorities, as the configuration has them.
    authorities: Value,
}

impl Address {
    /// Reads a `clientConfig`. A Service is the first of its endpoints: there is no network of a
    /// cluster here.
    pub(super) fn of(state: &State, config: &Value) -> Result<Self, String> {
        let authorities = config["caBundle"].clone();
        if let Some(url) = config["url"].as_str() {
            let uri: Uri = url
                .parse()
                .map_err(|why| format!("{url:?} is no URL: {why}"))?;
            let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
                return Err(format!("{url:?} is no URL of HTTPS"));
            };
            return Ok(Self {
                origin: format!("https://{authority}"),
                path: uri
                    .path_and_query()
                    .map_or("/", |it| it.as_str())
                    .to_owned(),
                name: None,
                authorities,
            });
        }
        let text = |name: &str| config["service"][name].as_str().unwrap_or("").to_owned();
        let (namespace, service) = (text("namespace"), text("name"));
        let endpoint = endpoint(state, &namespace, &service)
            .ok_or_else(|| format!("no endpoints available for service {service:?}"))?;
        Ok(Self {
            origin: format!("https://{endpoint}"),
            path: match text("path") {
                path if path.is_empty() => "/".to_owned(),
                path => path,
            },
            name: Some(format!("{service}.{namespace}.svc")),
            authorities,
        })
    }
}

/// The first address and port of a Service's endpoints.
fn endpoint(state: &State, namespace: &str, service: &str) -> Option<String> {
    let slices = state
        .registry
        .get("discovery.k8s.io", "v1", "endpointslices")?;
    let mut found = state.store.objects(&slices.storage, Some(namespace));
    found.find_map(|stored| {
        let of = stored.labels.get("kubernetes.io/service-name")?;
        let slice = stored.value(&slices);
        let mut endpoints = slice["endpoints"].as_array()?.iter();
        let ready = endpoints.find(|one| one["conditions"]["ready"] != false)?;
        let address = ready["addresses"][0].as_str()?;
        let port = slice["ports"][0]["port"].as_u64()?;
        let address = match address.contains(':') {
            true => format!("[{address}]"),
            false => address.to_owned(),
        };
        (of == service).then(|| format!("{address}:{port}"))
    })
}

/// Asks a webhook.
///
/// # Errors
/// Why there is no answer, in words.
pub(super) async fn call(address: &Address, review: &Value, seconds: u64) -> Result<Value, String> {
    let patience = Duration::from_secs(seconds);
    let url = format!("{}{}?timeout={seconds}s", address.origin, address.path);
    let failed = |why: String| format!("failed to call webhook: Post {url:?}: {why}");
    match tokio::time::timeout(patience, ask(address, review, &url)).await {
        Ok(answer) => answer.map_err(|why| failed(format!("{why:#}"))),
        Err(_) => Err(failed("context deadline exceeded".to_owned())),
    }
}

async fn ask(address: &Address, review: &Value, url: &str) -> anyhow::Result<Value> {
    let mut cluster = json!({"server": address.origin});
    if address.authorities.is_string() {
        cluster["certificate-authority-data"] = address.authorities.clone();
    }
    if let Some(name) = &address.name {
        cluster["tls-server-name"] = name.clone().into();
    }
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": cluster}],
        "users": [{"name": "webhook", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "webhook"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.default_retry = false;
    config.proxy_url = None;
    let client = kube::Client::try_from(config)?;
    let path: Uri = url.parse()?;
    let path = path.path_and_query().map_or("/", |it| it.as_str());
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(review)?)?;
    Ok(client.request(request).await?)
}
