//! What an API server is told: what it is to ask, and where.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Options;

/// The path of the validating webhooks.
pub const VALIDATE: &str = "/validate";
/// The path of the mutating one.
pub const MUTATE: &str = "/mutate";

/// How long an API server waits for an answer, in seconds. It takes a millisecond; what is lost in
/// waiting longer is the time of whoever writes.
const PATIENCE: i32 = 3;

/// The webhooks about pods and what makes them: by themselves they warn, and refuse nothing.
pub const OF_ANNOTATIONS: [&str; 3] = [PODS, WORKLOADS, CRON_JOBS];
/// The webhook about NetworkAttachmentDefinitions. It only warns.
pub const OF_NETWORKS: &str = "networks.netqos.io";
const PODS: &str = "pods.netqos.io";
const WORKLOADS: &str = "workloads.netqos.io";
const CRON_JOBS: &str = "cronjobs.netqos.io";

/// How an API server gets there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By the Service that the options name.
    Service,
    /// By a URL such as `https://127.0.0.1:9443`, for an API server outside of the cluster.
    Url(String),
}

/// The configuration of the validating webhooks, without `caBundle`, which the webhook itself fills
/// in.
///
/// # Errors
/// None that a test would not have found: it is not of its type.
pub fn validating(
    options: &Options,
    reach: &Reach,
) -> Result<ValidatingWebhookConfiguration, serde_json::Error> {
    let annotated = "has(META) && (\
                     has(META.annotations) && META.annotations.exists(key, \
                     key.startsWith('kubernetes.io/') && key.contains('gress') || key.startsWith('netqos.io/') || \
                     key == 'koordinator.sh/networkQOS') || \
                     has(META.labels) && META.labels.exists(key, key.contains('gress') && \
                     (key.startsWith('kubernetes.io/') || key.startsWith('netqos.io/')) || \
                     key == 'koordinator.sh/qosClass' && \
                     !(META.labels[key] in ['', 'SYSTEM', 'LSE', 'LSR', 'LS', 'BE'])))";
    let annotated = |path: &str| annotated.replace("META", path);
    let about = |name, rules| webhook(options, reach, VALIDATE, name, rules);
    let pods = about(PODS, json!([rule("", "v1", &["pods"])]));
    let apps = ["daemonsets", "deployments", "replicasets", "statefulsets"];
    let of_pods = json!([
        rule("apps", "v1", &apps),
        rule("batch", "v1", &["jobs"]),
        rule("", "v1", &["replicationcontrollers"]),
    ]);
    let workloads = about(WORKLOADS, of_pods);
    let cron_jobs = about(CRON_JOBS, json!([rule("batch", "v1", &["cronjobs"])]));
    let of_netqos = [
        "bandwidthprofiles",
        "networkqosdefaults",
        "networkqosquotas",
    ];
    let ours = json!([
        rule("k8s.ovn.org", "v1alpha1", &["networkqoses"]),
        rule("netqos.io", "v1alpha1", &of_netqos),
    ]);
    let ours = about("objects.netqos.io", ours);
    // A pod that asks for nothing is made without a question.
    let pods = on(pods, "asks-for-bandwidth", &annotated("object.metadata"));
    // A ReplicationController need not have a template.
    let of_template = annotated("object.spec.template.metadata");
    let own = annotated("object.metadata");
    let of_template = format!("has(object.spec.template) && {of_template} || {own}");
    let workloads = on(workloads, "asks-for-bandwidth", &of_template);
    let of_jobs = annotated("object.spec.jobTemplate.spec.template.metadata");
    let of_jobs = format!("{of_jobs} || {own}");
    let cron_jobs = on(cron_jobs, "asks-for-bandwidth", &of_jobs);
    typed(
        "ValidatingWebhookConfiguration",
        options,
        json!([
            pods,
            workloads,
            cron_jobs,
            ours,
            slo_config(options, reach),
            node_slos(options, reach),
            networks(options, reach)
        ]),
    )
}

/// About one ConfigMap. A server that knows no match conditions asks about the others of its namespace,
/// too.
fn slo_config(options: &Options, reach: &Reach) -> Value {
    let rules = json!([rule("", "v1", &["configmaps"])]);
    let config = webhook(options, reach, VALIDATE, "slo-config.netqos.io", rules);
    let is_it = format!("object.metadata.name == '{}'", options.slo_config);
    let mut config = on(config, "is-the-configuration", &is_it);
    config["namespaceSelector"] = json!({
        "matchLabels": {"kubernetes.io/metadata.name": options.koordinator},
    });
    config
}

/// About NetworkAttachmentDefinitions, which are executed as root on nodes as far as policies permit it.
fn networks(options: &Options, reach: &Reach) -> Value {
    let networks = rule("k8s.cni.cncf.io", "v1", &["network-attachment-definitions"]);
    webhook(options, reach, VALIDATE, OF_NETWORKS, json!([networks]))
}

/// About NodeSLO objects that people write. Koordinator's manager writes much else into them, which
/// must not be lost for what it says of the network; and what netqos' controller writes is right.
fn node_slos(options: &Options, reach: &Reach) -> Value {
    let rules = json!([rule("slo.koordinator.sh", "v1alpha1", &["nodeslos"])]);
    let slos = webhook(options, reach, VALIDATE, "node-slos.netqos.io", rules);
    let by_people = format!(
        "!request.userInfo.username.startsWith('system:serviceaccount:{}:') && \
         request.userInfo.username != 'system:serviceaccount:{}:netqos-controller'",
        options.koordinator, options.namespace
    );
    on(slos, "is-written-by-people", &by_people)
}

/// The configuration of the mutating webhook, likewise.
///
/// # Errors
/// As [`validating`].
pub fn mutating(
    options: &Options,
    reach: &Reach,
) -> Result<MutatingWebhookConfiguration, serde_json::Error> {
    let rules = json!([rule("k8s.ovn.org", "v1alpha1", &["networkqoses"])]);
    let defaults = webhook(options, reach, MUTATE, "defaults.netqos.io", rules);
    let defaults = on(defaults, "has-no-priority", "!has(object.spec.priority)");
    typed("MutatingWebhookConfiguration", options, json!([defaults]))
}

fn rule(group: &str, version: &str, resources: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "scope": "*",
    })
}

fn webhook(options: &Options, reach: &Reach, path: &str, name: &str, rules: Value) -> Value {
    let client = match reach {
        Reach::Url(url) => json!({"url": format!("{url}{path}")}),
        Reach::Service => json!({"service": {
            "namespace": options.namespace, "name": options.service, "path": path, "port": 443,
        }}),
    };
    json!({
        "name": name,
        "clientConfig": client,
        "rules": rules,
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": PATIENCE,
    })
}

/// The same, asked only where this is true.
fn on(mut webhook: Value, name: &str, expression: &str) -> Value {
    webhook["matchConditions"] = json!([{"name": name, "expression": expression}]);
    webhook
}

fn typed<T: DeserializeOwned>(
    kind: &str,
    options: &Options,
    webhooks: Value,
) -> Result<T, serde_json::Error> {
    serde_json::from_value(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": options.configurations,
            "labels": {"app.kubernetes.io/part-of": "netqos"},
        },
        "webhooks": webhooks,
    }))
}
