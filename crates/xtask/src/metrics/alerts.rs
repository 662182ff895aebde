//! What somebody is to be woken for, or told of in the morning. Each has a part of docs/operate.md
//! under its name.

use anyhow::Context as _;
use serde_json::json;

use self::Severity::{Critical, Info, Warning};
use super::{Registry, literally, query};

/// Who hears of it.
#[derive(Clone, Copy, Debug)]
enum Severity {
    /// Now: what was promised does not hold.
    Critical,
    /// In the morning.
    Warning,
    /// Whoever wrote the objects.
    Info,
}

/// An alert.
#[derive(Debug)]
pub struct Alert {
    /// Its name, and the heading of its part of docs/operate.md.
    pub name: &'static str,
    severity: Severity,
    query: &'static str,
    /// For how long it has to be so, as Prometheus writes it.
    lasts: &'static str,
    summary: &'static str,
    description: &'static str,
}

/// What stands for that place until the template has it.
const RUNBOOKS: &str = "RUNBOOKS";

/// All of them.
pub const ALERTS: [Alert; 12] = [
    Alert {
        name: "NetqosNotEnforced",
        severity: Critical,
        query: r#"sum by (node) (netqos_endpoints{state="failing"}) > 0"#,
        lasts: "10m",
        summary: "Limits or rules of pods are not in force on {{ $labels.node }}",
        description: "{{ $value }} interfaces of pods are not limited or marked as their objects say. \
                      `netqos status` on the node names them, and why.",
    },
    Alert {
        name: "NetqosKernelFeatureMissing",
        severity: Warning,
        query: r#"sum by (node) (netqos_problems{reason="KernelFeatureMissing"}) > 0"#,
        lasts: "10m",
        summary: "The kernel of {{ $labels.node }} lacks what rules or limits need",
        description: "Something is enforced in another way than was asked for, or not at all. \
                      `netqos status` on the node says what is missing for what.",
    },
    Alert {
        name: "NetqosAgentDown",
        severity: Critical,
        query: r#"up{job="netqos-agent"} == 0"#,
        lasts: "10m",
        summary: "The agent of {{ $labels.node }} does not answer",
        description: "What was in force stays in force. New pods have no rules, and changes have no \
                      effect there, until an agent runs.",
    },
    Alert {
        name: "NetqosAgentMissing",
        severity: Critical,
        query: "max by (namespace) (kube_daemonset_status_desired_number_scheduled{daemonset=\"netqos-agent\"} \
                - kube_daemonset_status_number_ready{daemonset=\"netqos-agent\"}) > 0",
        lasts: "15m",
        summary: "{{ $value }} nodes have no agent that is ready",
        description: "What was in force there stays in force. New pods have no rules, and changes have no \
                      effect, until an agent runs. `kubectl netqos check` names the nodes.",
    },
    Alert {
        name: "NetqosAgentNotReady",
        severity: Critical,
        query: "min by (node, check) (netqos_ready) == 0",
        lasts: "10m",
        summary: "The agent of {{ $labels.node }} is not ready: {{ $labels.check }}",
        description: "It has not heard all that it needs, and changes nothing until it has. \
                      /readyz?verbose says what it waits for.",
    },
    Alert {
        name: "NetqosApiUnavailable",
        severity: Warning,
        query: r#"max by (node) (netqos_problems{reason="ApiUnavailable"}) > 0"#,
        lasts: "15m",
        summary: "The agent of {{ $labels.node }} does not reach the API server",
        description: "What was known stays in force. Changes of objects, and pods that come, are not \
                      heard of. The agent's log has the reason.",
    },
    Alert {
        name: "NetqosLineNotShared",
        severity: Critical,
        query: r#"min by (node, line) (netqos_line_shared) == 0"#,
        lasts: "10m",
        summary: "{{ $labels.line }} of {{ $labels.node }} is not shared as its objects say",
        description: "When it is full, latency-sensitive pods may wait behind best-effort ones. \
                      `netqos status` on the node says why.",
    },
    Alert {
        name: "NetqosHookContested",
        severity: Warning,
        query: r#"sum by (node) (netqos_problems{reason=~"HookContested|HookReplaced"}) > 0"#,
        lasts: "10m",
        summary: "Another program takes netqos' place at interfaces of {{ $labels.node }}",
        description: "It comes before netqos and sees packets of rules with a rate twice, or keeps packets from the rules. \
                      `netqos status` names the interfaces.",
    },
    Alert {
        name: "NetqosQueueDropsHigh",
        severity: Warning,
        query: "sum by (namespace, pod, direction, rule) (rate(netqos_pod_dropped_packets_total[5m])) \
                / (sum by (namespace, pod, direction, rule) (rate(netqos_pod_packets_total[5m])) \
                + sum by (namespace, pod, direction, rule) (rate(netqos_pod_dropped_packets_total[5m]))) \
                > 0.1",
        lasts: "15m",
        summary: "A tenth of what {{ $labels.namespace }}/{{ $labels.pod }} moves is dropped",
        description: "{{ $value | humanizePercentage }} of its {{ $labels.direction }} packets are over \
                      the rate of {{ with $labels.rule }}the rule {{ . }}{{ else }}its own limit{{ end }}. \
                      TCP keeps to a rate with less; this is a sender that does not slow down, or a \
                      rate that is too low.",
    },
    Alert {
        name: "NetqosInvalidObjects",
        severity: Info,
        query: "max by (node) (netqos_invalid_objects) > 0",
        lasts: "30m",
        summary: "Objects are not followed as they are, as seen from {{ $labels.node }}",
        description: "{{ $value }} objects cannot be read, or break a rule. What they said before stays in \
                      force, or nothing of them is. The agent's log and `netqos status` name them, and the \
                      field.",
    },
    Alert {
        name: "NetqosSloConfigWrong",
        severity: Info,
        query: "max by (namespace, reason) \
                (netqos_controller_slo_config_problems{reason!=\"SLOConfigWarned\"}) > 0",
        lasts: "30m",
        summary: "slo-controller-config says what cannot be followed: {{ $labels.reason }}",
        description: "Lines are shared as it last said what can be. The controller's log, and the events \
                      of the ConfigMap, name the key and the node strategy.",
    },
    Alert {
        name: "NetqosControllerWithoutLeader",
        severity: Warning,
        query: "sum by (namespace) (netqos_controller_leader) == 0 \
                or time() - max by (namespace) (kube_lease_renew_time{lease=\"netqos-controller\"}) > 60",
        lasts: "5m",
        summary: "No controller of netqos leads",
        description: "What is in force stays in force. Peers that come and go, and the status of \
                      objects, are not brought up to date.",
    },
];

/// Holds every query to the registry.
///
/// # Errors
/// One asks for what is not served.
pub fn check(registry: &Registry) -> anyhow::Result<()> {
    ALERTS.iter().try_for_each(|alert| {
        query::check(registry, alert.query).with_context(|| format!("alert {}", alert.name))
    })
}

/// What Prometheus reads by itself (`rule_files`), where nobody has its operator.
///
/// # Errors
/// It cannot be written as YAML.
pub fn rule_file() -> anyhow::Result<String> {
    let groups = groups("docs/operate.md")?;
    Ok(format!("# Made by `cargo xtask metrics`.\n{groups}"))
}

/// The PrometheusRule, as a template of the chart.
///
/// # Errors
/// It cannot be written as YAML.
pub fn template() -> anyhow::Result<String> {
    let groups = literally(&groups(RUNBOOKS)?);
    let groups = groups.replace(RUNBOOKS, "{{ .Values.monitoring.runbooks }}");
    let groups: String = groups.lines().map(|line| format!("  {line}\n")).collect();
    Ok(format!(
        "{{{{- /* Made by `cargo xtask metrics`: crates/xtask/src/metrics/alerts.rs. */ -}}}}\n\
         {{{{- if and .Values.monitoring.enabled .Values.monitoring.operator }}}}\n\
         apiVersion: monitoring.coreos.com/v1\n\
         kind: PrometheusRule\n\
         metadata:\n  \
           name: netqos\n  \
           namespace: {{{{ .Release.Namespace }}}}\n  \
           labels:\n    \
             {{{{- include \"netqos.labels\" . | nindent 4 }}}}\n    \
             {{{{- with .Values.monitoring.labels }}}}\n    \
             {{{{- toYaml . | nindent 4 }}}}\n    \
             {{{{- end }}}}\n\
         spec:\n{groups}{{{{- end }}}}\n"
    ))
}

/// The rules, with where the parts of docs/operate.md are read.
fn groups(runbooks: &str) -> anyhow::Result<String> {
    let rules: Vec<_> = ALERTS
        .iter()
        .map(|alert| {
            let severity = match alert.severity {
                Critical => "critical",
                Warning => "warning",
                Info => "info",
            };
            json!({
                "alert": alert.name,
                "expr": alert.query,
                "for": alert.lasts,
                "labels": {"severity": severity},
                "annotations": {
                    "summary": alert.summary,
                    "description": alert.description,
                    "runbook_url": format!("{runbooks}#{}", alert.name.to_lowercase()),
                },
            })
        })
        .collect();
    let groups = json!({"groups": [{"name": "netqos", "rules": rules}]});
    Ok(serde_saphyr::to_string(&groups)?)
}
