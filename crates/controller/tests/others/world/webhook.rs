//! The webhook, and who asks it.

use kube::Client;
use serde_json::{Value, json};

use super::{HOME, World};

const CONFIGURATION: (&str, &str, &str) = (
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "",
);

impl World {
    /// What the manifests install of the webhook, with nobody's authority in it yet.
    pub(crate) fn webhooks(&self) -> Value {
        let options = netqos_admission::Options::default();
        let reach = netqos_admission::Reach::Service;
        let configuration = netqos_admission::validating(&options, &reach).unwrap();
        serde_json::to_value(configuration).unwrap()
    }

    pub(crate) fn create_webhook_configurations(&self) {
        let (version, kind, namespace) = CONFIGURATION;
        self.create(version, kind, namespace, self.webhooks());
    }

    /// Waits until it is written down whom API servers are to believe (`caBundle`).
    pub(crate) fn wait_for_authority(&self) {
        self.eventually("no authority is published", || !self.authority().is_empty());
    }

    /// Whom they are to believe by now.
    fn authority(&self) -> String {
        let configuration = self.get(CONFIGURATION, "netqos").unwrap();
        let authority = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
        authority.as_str().unwrap_or_default().to_owned()
    }

    /// What the webhook at an address answers to who believes what is written down.
    pub(crate) fn ask_webhook(&self, address: &str, object: &Value) -> Result<Value, String> {
        self.ask_webhook_knowing(address, &self.authority(), object)
    }

    /// What the webhook at an address answers to a question about an object that is created: as an API
    /// server asks it, that knows these authorities (`caBundle`). Else why there is no answer.
    pub(crate) fn ask_webhook_knowing(
        &self,
        address: &str,
        authorities: &str,
        object: &Value,
    ) -> Result<Value, String> {
        let name = format!("netqos-webhook.{HOME}.svc");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
            "clusters": [{"name": "webhook", "cluster": {
                "server": format!("https://{address}"),
                "tls-server-name": name,
                "certificate-authority-data": authorities,
            }}],
            "users": [{"name": "webhook", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "webhook"}}],
        });
        let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
        let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some(both) => both,
            None => ("", object["apiVersion"].as_str().unwrap()),
        };
        let kind = json!({"group": group, "version": version, "kind": object["kind"]});
        let resource = object["kind"].as_str().unwrap().to_lowercase();
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "question", "kind": kind, "operation": "CREATE", "object": object,
                "resource": {"group": group, "version": version, "resource": resource},
                "name": object["metadata"]["name"], "namespace": self.namespace,
                "userInfo": {"username": "test"}, "dryRun": false, "options": null,
            }
        });
        let asked = async {
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
            let client = Client::try_from(config.await.unwrap()).unwrap();
            let request = axum::http::Request::post("/validate")
                .header("content-type", "application/json")
                .body(serde_json::to_vec(&review).unwrap());
            client.request::<Value>(request.unwrap()).await
        };
        let answer = self.runtime.block_on(asked);
        let answer = answer.map_err(|why| netqos_core::with_causes(&why))?;
        Ok(answer["response"].clone())
    }
}
