//! The resources as an API server gets them.
//!
//! They are derived from the types and checked in as JSON, by `cargo xtask crds`: to derive them takes
//! most of the time of a short command, and to parse the JSON of one a hundredth of that. A test
//! compares the two.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use kube::{CustomResourceExt as _, Resource};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use serde_json::{Value, json};

use crate::{
    BandwidthProfile, NetworkAttachmentPolicy, NetworkQoS, NetworkQoSDefault, NetworkQoSNodeReport,
    NetworkQoSPeerSlice, NetworkQoSQuota, NodeSLO,
};

/// What `kubectl get netqos` shows: every kind of ours.
const CATEGORY: &str = "netqos";

/// The definition of a resource.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The file in `crates/k8s/src` that it is made from.
    source: &'static str,
    group: &'static str,
    kind: &'static str,
    /// As it is checked in.
    crd: &'static LazyLock<Value>,
    derive: fn() -> Value,
}

/// A definition and its checked-in JSON.
macro_rules! checked_in {
    ($source:literal, $group:literal, $kind:ident, $derive:expr) => {{
        static CRD: LazyLock<Value> = LazyLock::new(|| {
            let text = include_str!(concat!("crds/", stringify!($kind), ".json"));
            // A test reads each of them.
            serde_json::from_str(text).unwrap_or_default()
        });
        Definition {
            source: $source,
            group: $group,
            kind: stringify!($kind),
            crd: &CRD,
            derive: $derive,
        }
    }};
}

/// The definitions of all our resources.
///
/// What differs from what derive makes: no field is `nullable`. An API server drops `null` where a
/// field is not, so `to: null` is as good as no `to`; where it is, `null` would stay, and `has()`
/// in a rule would be true for it.
pub fn definitions() -> [Definition; 7] {
    [
        checked_in!("network_qos.rs", "k8s.ovn.org", NetworkQoS, || derived(
            &NetworkQoS::crd()
        )),
        checked_in!(
            "peer_slice.rs",
            "netqos.io",
            NetworkQoSPeerSlice,
            peer_slice
        ),
        checked_in!("quota.rs", "netqos.io", NetworkQoSQuota, || derived(
            &NetworkQoSQuota::crd()
        )),
        checked_in!("profile.rs", "netqos.io", BandwidthProfile, || derived(
            &BandwidthProfile::crd()
        )),
        checked_in!("default_policy.rs", "netqos.io", NetworkQoSDefault, || {
            derived(&NetworkQoSDefault::crd())
        }),
        checked_in!(
            "node_report.rs",
            "netqos.io",
            NetworkQoSNodeReport,
            node_report
        ),
        checked_in!(
            "attachment_policy.rs",
            "netqos.io",
            NetworkAttachmentPolicy,
            || derived(&NetworkAttachmentPolicy::crd())
        ),
    ]
}

/// The definition of [`NodeSLO`], for clusters that do not have Koordinator's. It is none of
/// [`definitions`]: whoever installs those must not overwrite Koordinator's own.
pub fn node_slo_definition() -> Definition {
    Definition {
        source: "node_slo.rs",
        group: "slo.koordinator.sh",
        kind: "NodeSLO",
        crd: &NODE_SLO,
        derive: node_slo,
    }
}

/// The `CustomResourceDefinition` of [`NetworkQoS`].
///
/// # Errors
/// None that a test would not have found: derive made something that is no definition.
pub fn crd() -> Result<CustomResourceDefinition, serde_json::Error> {
    Definition::network_qos().crd()
}

impl Definition {
    /// The definition that an object says to be of: by its group and kind, in whatever version.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let (group, _) = text("apiVersion")?.split_once('/')?;
        let kind = text("kind")?;
        let mut all = definitions().into_iter();
        all.find(|it| it.group == group && it.kind == kind)
    }

    /// The definition of [`NetworkQoS`].
    pub(crate) fn network_qos() -> Self {
        let [first, ..] = definitions();
        first
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// The group and version of its objects; each definition has one version.
    pub(crate) fn api_version(&self) -> String {
        let spec = &self.crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{}/{}",
            text(&spec["group"]),
            text(&spec["versions"][0]["name"])
        )
    }

    /// The name of its object: `PLURAL.GROUP`.
    pub fn name(&self) -> String {
        let name = self.crd["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }

    /// Its version: it has one.
    pub fn version(&self) -> &'static str {
        let crd: &'static Value = self.crd;
        let version = crd["spec"]["versions"][0]["name"].as_str();
        version.unwrap_or_default()
    }

    /// The schema of its version.
    pub fn schema(&self) -> &'static Value {
        let crd: &'static Value = self.crd;
        &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }

    /// The name of its file in `deploy/crds`: `GROUP_PLURAL.yaml`.
    pub fn file(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &self.crd["spec"];
        let plural = text(&spec["names"]["plural"]);
        format!("{}_{plural}.yaml", text(&spec["group"]))
    }

    /// The JSON to check in, derived from the types.
    pub fn json(&self) -> String {
        format!("{}\n", (self.derive)())
    }

    /// The name of its file of JSON, in `crates/k8s/src/crds`.
    pub fn json_file(&self) -> String {
        format!("{}.json", self.kind)
    }

    /// As YAML, for `kubectl apply`, derived from the types; the same text every time.
    ///
    /// # Errors
    /// None that a test would not have found: it cannot be written as YAML.
    pub fn yaml(&self) -> Result<String, serde_saphyr::ser_error::Error> {
        let source = self.source;
        let header = format!("# Generated by `cargo xtask crds` from crates/k8s/src/{source}.\n");
        Ok(header + &serde_saphyr::to_string(&(self.derive)())?)
    }

    /// As an API server gets it.
    ///
    /// # Errors
    /// None that a test would not have found: it is no definition.
    pub fn crd(&self) -> Result<CustomResourceDefinition, serde_json::Error> {
        serde_json::from_value(Value::clone(self.crd))
    }
}

static NODE_SLO: LazyLock<Value> = LazyLock::new(node_slo);

fn node_slo() -> Value {
    let mut crd = derived(&NodeSLO::crd());
    // As in Koordinator's, which has one without fields.
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({
        "description": "Nobody writes one.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    });
    crd
}

fn derived(crd: &CustomResourceDefinition) -> Value {
    // A definition is made of maps with text for keys, lists and scalars: it is JSON.
    let mut crd = serde_json::to_value(crd).unwrap_or_default();
    tidy(&mut crd);
    crd
}

fn peer_slice() -> Value {
    let network = json!({
        "name": "Network",
        "type": "string",
        "jsonPath": ".network",
        "description": "The network that the addresses are on",
    });
    plain::<NetworkQoSPeerSlice>("Namespaced", "nqosps", &[network])
}

fn node_report() -> Value {
    let agent = json!({
        "name": "Agent",
        "type": "string",
        "jsonPath": ".agentVersion",
        "description": "The version of the agent",
    });
    let problem = json!({
        "name": "Problem",
        "type": "string",
        "jsonPath": ".problems[0].reason",
        "description": "The first of what is not as it should be",
    });
    plain::<NetworkQoSNodeReport>("Cluster", "nqosnr", &[agent, problem])
}

/// The definition of a resource without a `spec`, of which derive makes none.
fn plain<K>(scope: &str, short_name: &str, columns: &[Value]) -> Value
where
    K: Resource<DynamicType = ()> + JsonSchema,
{
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<K>().to_value();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("title");
    }
    let age = json!({
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
    });
    let columns: Vec<&Value> = columns.iter().chain([&age]).collect();
    let (group, plural, kind) = (K::group(&()), K::plural(&()), K::kind(&()));
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": [short_name],
                "categories": [CATEGORY],
            },
            "scope": scope,
            "versions": [{
                "name": K::version(&()),
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": columns,
            }],
        },
    });
    tidy(&mut crd);
    crd
}

/// Takes `nullable` away, writes whole numbers without a fraction, and descriptions in one line.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| !(name == "nullable" && value.is_boolean()));
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0);
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        _ => {}
    }
}
