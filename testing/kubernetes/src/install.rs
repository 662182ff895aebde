//! netqos as it is installed: its CRDs, and the accounts, roles and admission policies of `deploy/kustomize`.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, discovery};
use serde_json::json;

/// The time until the API server has taken notice of everything.
const PATIENCE: Duration = Duration::from_secs(60);
/// The namespace of netqos.
const NAMESPACE: &str = "netqos-system";
/// The objects that need neither an image nor a node.
const MANIFESTS: [&str; 5] = [
    include_str!("../../../deploy/kustomize/base/namespace.yaml"),
    include_str!("../../../deploy/kustomize/base/agent-rbac.yaml"),
    include_str!("../../../deploy/kustomize/base/agent-policy.yaml"),
    include_str!("../../../deploy/kustomize/base/controller-rbac.yaml"),
    include_str!("../../../deploy/kustomize/components/multinet/multinet-policy.yaml"),
];

/// A ServiceAccount of netqos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account<'a> {
    /// The controller's.
    Controller,
    /// The agent's, on this node.
    Agent {
        /// The node's name. The Node exists.
        node: &'a str,
    },
}

impl Account<'_> {
    /// Requests a token, as a kubelet does for a pod. That of an agent is bound to its Node, and names it to the
    /// API server.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or has no such Node.
    pub async fn token(self, client: &Client) -> anyhow::Result<String> {
        let (name, bound) = match self {
            Self::Controller => ("netqos-controller", None),
            Self::Agent { node } => {
                let nodes: Api<Node> = Api::all(client.clone());
                let uid = nodes.get(node).await?.metadata.uid;
                let bound = BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Node".to_owned()),
                    name: Some(node.to_owned()),
                    uid,
                };
                ("netqos-agent", Some(bound))
            }
        };
        let request = TokenRequest {
            spec: TokenRequestSpec {
                bound_object_ref: bound,
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        let parameters = PostParams::default();
        let answer = accounts.create_token_request(name, &parameters, &request);
        let answer = answer.await.with_context(|| format!("token of {name}"))?;
        let status = answer.status.context("a TokenRequest without status")?;
        Ok(status.token)
    }
}

/// Creates all, and waits until objects of each CRD can be listed.
///
/// # Errors
/// Returns an error if the API server refuses an object, or does not serve a CRD in time.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in netqos_k8s::definitions() {
        let crd = definition.crd()?;
        let created = crds.create(&PostParams::default(), &crd).await;
        created.with_context(|| format!("the API server refuses {}", definition.name()))?;
    }
    for manifest in MANIFESTS {
        for object in serde_saphyr::from_multiple::<DynamicObject>(manifest)? {
            create(client, &object).await?;
        }
    }
    let end = Instant::now() + PATIENCE;
    for definition in netqos_k8s::definitions() {
        let crd = definition.crd()?.spec;
        let kind = GroupVersionKind::gvk(&crd.group, definition.version(), &crd.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &crd.names.plural);
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        while let Err(error) = objects.list(&ListParams::default().limit(1)).await {
            anyhow::ensure!(
                Instant::now() < end,
                "{} is not served: {error}",
                definition.name()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    while !is_policy_active(client).await? {
        anyhow::ensure!(Instant::now() < end, "the policy of reports has no effect");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Returns true once an agent whose token names no node is refused by the policy. kube-apiserver takes notice of
/// policies, and of roles, with a delay.
async fn is_policy_active(client: &Client) -> anyhow::Result<bool> {
    let report = json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "NetworkQoSNodeReport",
        "metadata": {"name": "no-node"},
        "agentVersion": "0.1.0",
        "policies": [],
        "problems": [],
    });
    let path = "/apis/netqos.io/v1alpha1/networkqosnodereports?dryRun=All";
    let account = format!("system:serviceaccount:{NAMESPACE}:netqos-agent");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .header("impersonate-user", account)
        .body(serde_json::to_vec(&report)?)?;
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(status.message.contains("ValidatingAdmissionPolicy"))
        }
        Ok(_) => Ok(false),
        Err(error) => Err(error).context("cannot ask for the policy of reports"),
    }
}

async fn create(client: &Client, object: &DynamicObject) -> anyhow::Result<()> {
    let types = object.types.as_ref().context("an object without kind")?;
    let (resource, _) = discovery::pinned_kind(client, &types.try_into()?).await?;
    let objects: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let created = objects.create(&PostParams::default(), object).await;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    created.with_context(|| format!("the API server refuses {} {name}", types.kind))?;
    Ok(())
}
