//! What may be chosen at an installation: the types from which the chart's `values.schema.json` and
//! `values.yaml` are made. The text beside a field is what an administrator reads.

// No type of a field can be wrong here that is right in the schema: nothing is parsed by these.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// What may be chosen.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Values {
    /// The agents, one on each node.
    pub agent: Agent,
    /// The CNI plugin `bandwidth`, by which a pod is limited before its first packet.
    pub cni_plugin: CniPlugin,
    /// The controller.
    pub controller: Controller,
    /// What netqos enforces where others do, too: docs/coexistence.md.
    pub enforce: Enforce,
    /// What Helm hands to charts that are part of another. Nothing is read of it.
    pub global: Object,
    /// The image with all executables: made by `make image`, or from deploy/Containerfile.
    pub image: Image,
    /// Takes everything out of force on every node, as `netqos cleanup` does, and puts back the CNI
    /// plugin that was there. To be set before the release is removed: see docs/operate.md.
    pub leaving: bool,
    /// What Prometheus and Grafana are told.
    pub monitoring: Monitoring,
    /// Pods on several networks, which the CNI meta plugin netqos-multinet attaches.
    pub multinet: Multinet,
    /// How nodes' lines are divided between classes of pods: docs/node-slo.md.
    pub node_slo: NodeSlo,
    /// Removed: templates/removed.yaml says why, to whom a release still sets it.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "of the schema alone")]
    pub otlp: Value,
}

/// The agents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// Which nodes are preferred, as in a pod.
    pub affinity: Object,
    /// Who divides the node's lines among classes of pods, where neither the node's label
    /// netqos.io/class-backend nor netQOSPolicy says another. `tc` needs an image with ipset and iptables:
    /// docs/install.md.
    pub class_backend: ClassBackend,
    /// Which others a node's label or netQOSPolicy may choose: of `tc` and `terway-qos` those are mounted
    /// that they need of the node.
    pub class_backends: Vec<ClassBackend>,
    /// Where the container runtime remembers its CNI results (in `results` below).
    #[schemars(regex(pattern = "^/"))]
    pub cni_cache: String,
    /// Where a limit that no plugin has made queues what a pod sends: on the pod's own interface, or on
    /// an ifb of the node's.
    pub egress: Egress,
    /// Whether it may enter pods' network namespaces (SYS_ADMIN, SYS_PTRACE). Without it: docs/install.md.
    pub enter_pods: bool,
    /// More flags of netqos-agent.
    pub extra_args: Vec<String>,
    /// How programs are attached; `auto` is what is quickest.
    pub hook: Hook,
    /// The node's lines, by the names of their links; without any, the links of default routes.
    pub lines: Vec<String>,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace, or parts with levels.
    #[schemars(length(min = 1))]
    pub log_level: String,
    /// On how many nodes the agent may be away at once during an update.
    pub max_unavailable: Share,
    /// Which nodes have one: labels, besides kubernetes.io/os.
    pub node_selector: BTreeMap<String, String>,
    /// Whether API servers take from an agent the report of its own node alone, which they tell by its
    /// token (a ValidatingAdmissionPolicy). Off: who has the token of one agent can say that rules are in
    /// force on every node.
    pub own_report_only: bool,
    /// Annotations of its pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// Whether metrics name pods. Without their names, counters are sums.
    pub pod_labels: bool,
    /// The port of the node for probes and metrics.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Its priority: it has to come before the pods that it limits.
    pub priority_class_name: String,
    /// What it needs. The tables of rules, which the kernel keeps for it, count as its memory: a limit
    /// that is too low is a rule that cannot be put in force. So there is none.
    pub resources: Object,
    /// Which of the node's addresses answer with monitoring; without it only 127.0.0.1 does. On a
    /// cluster of IPv6 alone: "[::]".
    #[schemars(length(min = 1))]
    pub scrape_address: String,
    /// Which taints it bears. All: a node without an agent enforces no rules.
    pub tolerations: Vec<Object>,
}

/// The CNI plugin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CniPlugin {
    /// Where the node's CNI plugins are.
    #[schemars(regex(pattern = "^/"))]
    pub directory: String,
    /// Whether to put it in place of the node's own. What was there is kept beside it.
    pub install: bool,
}

/// The controller.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// Removed: see templates/removed.yaml.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "of the schema alone")]
    pub enabled: Value,
    /// More flags of netqos-controller.
    pub extra_args: Vec<String>,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace, or parts with levels.
    #[schemars(length(min = 1))]
    pub log_level: String,
    /// Which nodes may have one: labels, besides kubernetes.io/os.
    pub node_selector: BTreeMap<String, String>,
    /// Its priority.
    pub priority_class_name: String,
    /// How many there are. One leads; another is there to take over.
    #[schemars(range(min = 1))]
    pub replicas: u32,
    /// What it needs.
    pub resources: Object,
    /// Whether its webhook refuses pods with bad bandwidth annotations, in place of a warning.
    pub strict_annotations: bool,
    /// Which taints it bears.
    pub tolerations: Vec<Object>,
    /// How replicas are spread, besides that nodes without one are preferred: as in a pod.
    pub topology_spread_constraints: Vec<Object>,
    /// What becomes of an object about which no replica of the webhook answers: `Ignore` lets it pass,
    /// and `Fail` refuses it; a pod with bandwidth annotations only with strictAnnotations, since the
    /// webhook refuses none without (docs/admission.md).
    pub webhook_failure_policy: FailurePolicy,
    /// Removed: see templates/removed.yaml.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "of the schema alone")]
    pub zone_conditions: Value,
}

/// What is enforced.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enforce {
    /// Bandwidth annotations of pods: `auto` unless Cilium's bandwidth manager, Calico or OVN-Kubernetes does,
    /// `always`, `never`.
    pub annotations: When,
    /// The namespaces of Koordinator: a pod elsewhere is none of its, whatever its labels say.
    #[schemars(length(min = 1))]
    pub koordinator_namespaces: Vec<String>,
    /// NetworkQoS objects: `auto` unless OVN-Kubernetes does, `always`, `never`.
    pub network_qos: When,
    /// NodeSLO objects, which are written from Koordinator's ConfigMap: `auto` where its manager does not,
    /// `always`, `never`.
    pub node_slo: When,
    /// The namespaces of OVN-Kubernetes: a pod elsewhere is none of its, whatever its labels say.
    #[schemars(length(min = 1))]
    pub ovn_kubernetes_namespaces: Vec<String>,
}

/// The image.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// When a node fetches it.
    pub pull_policy: PullPolicy,
    /// Names of Secrets with which it is fetched, each as {"name": NAME}.
    pub pull_secrets: Vec<Object>,
    /// Where it is. No public registry has it: the default is the name that `make image` gives.
    #[schemars(length(min = 1))]
    pub repository: String,
    /// Which one; empty: the chart's appVersion.
    pub tag: String,
}

/// Monitoring.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Monitoring {
    /// Labels by which Grafana's sidecar finds the dashboard.
    pub dashboard_labels: BTreeMap<String, String>,
    /// Whether agents may be asked for metrics from elsewhere, and there are ServiceMonitors, a
    /// PrometheusRule and a ConfigMap with the dashboard.
    pub enabled: bool,
    /// How often Prometheus asks.
    #[schemars(regex(pattern = "^[0-9]+(ms|s|m)$"))]
    pub interval: String,
    /// Labels by which Prometheus finds what is for it.
    pub labels: BTreeMap<String, String>,
    /// Whether the definitions of the Prometheus operator are there. Without them there are no
    /// ServiceMonitors and no PrometheusRule: docs/install.md says what Prometheus is to be told.
    pub operator: bool,
    /// Where the parts of docs/operate.md are read: what stands before `#` in an alert's runbook_url.
    pub runbooks: String,
}

/// Pods on several networks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Multinet {
    /// The directory of the container runtime's CNI lists on nodes.
    #[schemars(regex(pattern = "^/"))]
    pub config_directory: String,
    /// The list of the default network on nodes, in place of the first one beside that of netqos-multinet.
    #[schemars(regex(pattern = "^(/.*)?$"))]
    pub default_network: String,
    /// Whether agents write to pods which networks they are on (`patch` of pods/status, which a
    /// ValidatingAdmissionPolicy confines to that annotation of pods of the agent's own node).
    pub enabled: bool,
    /// Whether netqos-multinet is installed on nodes, into cniPlugin.directory, with the list that calls it. Needs
    /// `enabled`. Beside Multus with another `listName` and `defaultNetwork`: docs/multinet.md.
    pub install: bool,
    /// Whether the definition of NetworkAttachmentDefinition is installed where there is none. It stays when the release
    /// goes.
    #[serde(rename = "installCRD")]
    pub install_crd: bool,
    /// The file of the list that calls netqos-multinet, in `configDirectory`. The runtime reads the first file by its name.
    #[schemars(regex(pattern = "^[^./][^/]*\\.conflist$"))]
    pub list_name: String,
    /// Whether API servers take NetworkAttachmentDefinitions only in namespaces with the label
    /// netqos.io/network-attachment-definitions=allowed (a ValidatingAdmissionPolicy).
    pub restrict_definitions: bool,
    /// Whether API servers take the annotation network-status of pods only from agents and `statusWriters` (a
    /// ValidatingAdmissionPolicy). Needs `enabled`.
    pub restrict_status: bool,
    /// The users that also write it, such as the account of a Multus that attaches pods of other nodes, or of a program
    /// that restores pods.
    #[schemars(inner(length(min = 1)))]
    pub status_writers: Vec<String>,
    /// The groups whose users also write it: by default that of a Multus with a certificate for each node.
    #[schemars(inner(length(min = 1)))]
    pub status_writer_groups: Vec<String>,
    /// Removed: see templates/removed.yaml.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "of the schema alone")]
    pub update_list: Value,
}

/// How nodes' lines are divided.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSlo {
    /// The ConfigMap that says it.
    pub config_map: ConfigMap,
    /// Whether netqos' definition of NodeSLO is installed. Only for clusters without Koordinator, which
    /// brings its own: Helm refuses to overwrite that. It stays when the release goes.
    pub install_definition: bool,
}

/// A ConfigMap.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMap {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its namespace. Need not be there.
    #[schemars(length(min = 1))]
    pub namespace: String,
}

/// How programs are attached.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum Hook {
    Auto,
    Clsact,
    Tcx,
}

/// Who divides lines.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum ClassBackend {
    Kernel,
    Tc,
    TerwayQos,
    None,
}

/// Where limits queue.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum Egress {
    Pod,
    Ifb,
}

/// When something is enforced.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum When {
    Auto,
    Always,
    Never,
}

/// How logs look.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum LogFormat {
    Text,
    Json,
}

/// What an API server does where a webhook does not answer.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// A number, or a part of all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "chosen in YAML")]
pub enum Share {
    Number(u32),
    Percent(#[schemars(regex(pattern = "^[0-9]+%$"))] String),
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            affinity: Object::new(),
            class_backend: ClassBackend::Kernel,
            class_backends: Vec::new(),
            cni_cache: "/var/lib/cni".to_owned(),
            egress: Egress::Pod,
            enter_pods: true,
            extra_args: Vec::new(),
            hook: Hook::Auto,
            lines: Vec::new(),
            log_format: LogFormat::Json,
            log_level: "info".to_owned(),
            max_unavailable: Share::Percent("10%".to_owned()),
            node_selector: BTreeMap::new(),
            own_report_only: true,
            pod_annotations: BTreeMap::new(),
            pod_labels: true,
            port: 9470,
            priority_class_name: "system-node-critical".to_owned(),
            resources: object(json!({"requests": {"cpu": "20m", "memory": "64Mi"}})),
            scrape_address: "0.0.0.0".to_owned(),
            tolerations: vec![object(json!({"operator": "Exists"}))],
        }
    }
}

impl Default for CniPlugin {
    fn default() -> Self {
        Self {
            directory: "/opt/cni/bin".to_owned(),
            install: false,
        }
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            enabled: Value::Null,
            extra_args: Vec::new(),
            log_format: LogFormat::Json,
            log_level: "info".to_owned(),
            node_selector: BTreeMap::new(),
            priority_class_name: "system-cluster-critical".to_owned(),
            replicas: 2,
            resources: object(json!({"requests": {"cpu": "50m", "memory": "128Mi"}})),
            strict_annotations: false,
            tolerations: Vec::new(),
            topology_spread_constraints: Vec::new(),
            webhook_failure_policy: FailurePolicy::Ignore,
            zone_conditions: Value::Null,
        }
    }
}

impl Default for Enforce {
    fn default() -> Self {
        let names = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        Self {
            annotations: When::Auto,
            koordinator_namespaces: names(&["koordinator-system"]),
            network_qos: When::Auto,
            node_slo: When::Auto,
            ovn_kubernetes_namespaces: names(&["ovn-kubernetes", "openshift-ovn-kubernetes"]),
        }
    }
}

impl Default for Image {
    fn default() -> Self {
        Self {
            pull_policy: PullPolicy::IfNotPresent,
            pull_secrets: Vec::new(),
            repository: "localhost/netqos".to_owned(),
            tag: String::new(),
        }
    }
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            dashboard_labels: BTreeMap::from([("grafana_dashboard".to_owned(), "1".to_owned())]),
            enabled: false,
            interval: "30s".to_owned(),
            labels: BTreeMap::new(),
            operator: true,
            runbooks: "docs/operate.md".to_owned(),
        }
    }
}

impl Default for Multinet {
    fn default() -> Self {
        Self {
            config_directory: "/etc/cni/net.d".to_owned(),
            default_network: String::new(),
            enabled: false,
            install: false,
            install_crd: true,
            list_name: "00-netqos.conflist".to_owned(),
            restrict_definitions: false,
            restrict_status: true,
            status_writers: vec!["system:serviceaccount:kube-system:multus".to_owned()],
            status_writer_groups: vec!["system:multus".to_owned()],
            update_list: Value::Null,
        }
    }
}

impl Default for NodeSlo {
    fn default() -> Self {
        Self {
            config_map: ConfigMap {
                name: "slo-controller-config".to_owned(),
                namespace: "koordinator-system".to_owned(),
            },
            install_definition: false,
        }
    }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
