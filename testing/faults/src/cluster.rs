//! A cluster for tests.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};

use netqos_kubernetes::{Account, Etcd, Lease};
use serde_json::json;

use crate::Front;

/// How long a definition may take to be served.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster for tests: kube-apiserver with etcd, without controllers, scheduler or nodes. It holds the CRDs,
/// accounts and roles of netqos, and else what a new one holds.
///
/// Faults, and a record of requests, are those of a [`Front`] before it.
pub struct Cluster(Lease);

impl Cluster {
    /// Takes one.
    ///
    /// # Errors
    /// Returns an error if it cannot be started: see [`Lease::take`].
    pub async fn start() -> anyhow::Result<Self> {
        Ok(Self(Lease::take().await?))
    }

    /// The version, such as `v1.37.2`.
    pub fn version(&self) -> &str {
        self.0.version()
    }

    /// A client of etcd, which takes objects past the checks of the API server.
    ///
    /// # Errors
    /// Returns an error if the calling thread's network namespace has no loopback.
    pub fn etcd(&mut self) -> anyhow::Result<Etcd> {
        self.0.etcd()
    }

    /// A server before this one, which has a record, and faults on demand.
    ///
    /// # Errors
    /// Returns an error if the calling thread's network namespace has no loopback.
    pub async fn front(&self) -> anyhow::Result<Front> {
        Ok(Front::before(self.config().await?)?)
    }

    /// Lets a client of the proxy act as an account of netqos, by a token of its own. Others act as an
    /// administrator.
    ///
    /// # Errors
    /// Returns an error if the API server issues no token: see [`Account::token`].
    pub async fn identify(
        &self,
        front: &Front,
        client: &str,
        account: Account<'_>,
    ) -> anyhow::Result<()> {
        front.identify(client, &account.token(&self.client().await?).await?)
    }

    /// A client that acts as an account of netqos. It does not repeat by itself what is refused.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub async fn client_of(&self, account: Account<'_>) -> anyhow::Result<kube::Client> {
        let mut config = self.config().await?;
        let token = account.token(&self.client().await?).await?;
        config.auth_info.token = Some(token.into());
        Ok(kube::Client::try_from(config)?)
    }

    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> String {
        self.0.kubeconfig()
    }

    /// A client of an administrator. It does not repeat by itself what is refused.
    ///
    /// # Errors
    /// Returns an error if no TLS configuration can be made.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        Ok(kube::Client::try_from(self.config().await?)?)
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false;
        Ok(config)
    }

    /// A new namespace, whose name begins so.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn namespace(&self, prefix: &str) -> anyhow::Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespace = namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        namespace.metadata.name.context("a namespace without name")
    }

    /// Whether the objects of a definition are listed, in all versions: the server takes a moment
    /// for that after it has said that the definition is established.
    async fn serves(&self, definition: &CustomResourceDefinition) -> anyhow::Result<bool> {
        let client = self.client().await?;
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let (group, name, plural) = (&spec.group, &version.name, &spec.names.plural);
            let path = format!("/apis/{group}/{name}/{plural}?limit=1");
            match client
                .request_text(http::Request::get(path).body(Vec::new())?)
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if [404, 503].contains(&status.code) => {
                    return Ok(false);
                }
                Err(why) => return Err(why.into()),
            }
        }
        Ok(true)
    }

    /// Writes an object, in place of the one of its name, that breaks the rules of its definition: by one
    /// that takes anything, as an older one may have, and that is served for as long as this takes.
    ///
    /// # Errors
    /// The server refuses it all the same, or does not serve a definition in half a minute.
    pub async fn write_past_rules(
        &self,
        definition: &CustomResourceDefinition,
        object: &DynamicObject,
    ) -> anyhow::Result<()> {
        self.define(&without_rules(definition)).await?;
        let types = object.types.as_ref().context("an object without kind")?;
        let resource =
            ApiResource::from_gvk_with_plural(&types.try_into()?, &definition.spec.names.plural);
        let client = self.client().await?;
        let objects: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let end = Instant::now() + PATIENCE;
        // The server goes by the definition before for a moment after it has taken another.
        while let Err(why) = write(&objects, object).await {
            anyhow::ensure!(Instant::now() < end, "it is refused: {why}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.define(definition).await
    }

    /// Deletes the CRDs of netqos, as before an installation.
    ///
    /// # Errors
    /// Returns an error if the server refuses it, or still has one after half a minute.
    pub async fn remove_crds(&self) -> anyhow::Result<()> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client().await?);
        let end = Instant::now() + PATIENCE;
        for name in netqos_k8s::definitions().map(|it| it.name()) {
            crds.delete(&name, &DeleteParams::default()).await?;
        }
        while let [crd, ..] = &crds.list(&ListParams::default()).await?.items[..] {
            anyhow::ensure!(
                Instant::now() < end,
                "{:?} is not deleted",
                crd.metadata.name
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Installs the CRD of NetworkAttachmentDefinitions, as Multus or the chart does.
    ///
    /// # Errors
    /// See [`define`](Self::define).
    pub async fn define_nads(&self) -> anyhow::Result<()> {
        let crd = json!({
            "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
            "spec": {
                "group": "k8s.cni.cncf.io",
                "scope": "Namespaced",
                "names": {
                    "plural": "network-attachment-definitions",
                    "singular": "network-attachment-definition",
                    "kind": "NetworkAttachmentDefinition",
                    "shortNames": ["net-attach-def", "nad"],
                },
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object", "properties": {"config": {"type": "string"}},
                    }},
                }}}],
            },
        });
        self.define(&serde_json::from_value(crd)?).await
    }

    /// Has a definition served, in place of the one of its name.
    ///
    /// # Errors
    /// The server refuses it, or does not serve it in half a minute.
    pub async fn define(&self, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client().await?);
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let parameters = PostParams::default();
        match definitions.get_opt(name).await? {
            None => drop(definitions.create(&parameters, definition).await?),
            // Those of netqos are there already.
            Some(old) if is_defined_by(&old, definition) => return Ok(()),
            Some(old) => {
                let mut new = definition.clone();
                new.metadata.resource_version = old.metadata.resource_version;
                definitions.replace(name, &parameters, &new).await?;
            }
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let conditions = definitions.get(name).await?.status;
            let conditions = conditions.and_then(|status| status.conditions);
            let mut conditions = conditions.into_iter().flatten();
            let is_established =
                conditions.any(|one| one.type_ == "Established" && one.status == "True");
            if is_established && self.serves(definition).await? {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < end, "{name} is not served");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns true if the server holds this definition, apart from what it fills in by itself.
fn is_defined_by(there: &CustomResourceDefinition, definition: &CustomResourceDefinition) -> bool {
    let versions = |crd: &CustomResourceDefinition| crd.spec.versions.clone();
    versions(there) == versions(definition)
}

/// A definition of the same objects that takes whatever they say.
pub fn without_rules(definition: &CustomResourceDefinition) -> CustomResourceDefinition {
    let anything = JSONSchemaProps {
        type_: Some("object".to_owned()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    let mut lax = definition.clone();
    for version in &mut lax.spec.versions {
        version.schema = Some(CustomResourceValidation {
            open_api_v3_schema: Some(anything.clone()),
        });
        // They are of fields that it knows no more.
        version.additional_printer_columns = None;
        version.selectable_fields = None;
    }
    lax
}

/// Writes an object, in place of the one of its name.
async fn write(objects: &Api<DynamicObject>, object: &DynamicObject) -> kube::Result<()> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let parameters = PostParams::default();
    match objects.get_opt(name).await? {
        None => objects.create(&parameters, object).await.map(drop),
        Some(there) => {
            let mut new = object.clone();
            new.metadata.resource_version = there.metadata.resource_version;
            new.metadata.uid = there.metadata.uid;
            objects.replace(name, &parameters, &new).await.map(drop)
        }
    }
}
