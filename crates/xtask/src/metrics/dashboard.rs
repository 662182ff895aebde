//! The dashboard for Grafana: what a node enforces, and what each pod and rule gets of it.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Registry, literally, query};

/// What a panel shows.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// The last value.
    Number,
    /// A course over time.
    Course,
    /// The last value of each series, by its labels.
    Table,
}

type Text = &'static str;
/// Queries, each with what names its series.
type Queries = &'static [(Text, Text)];

/// A panel: how much of a row of 24 it takes, and its queries.
struct Panel {
    title: Text,
    about: Text,
    shows: Shows,
    unit: Text,
    width: u32,
    queries: Queries,
}

/// A panel of courses over time.
const fn course(title: Text, about: Text, unit: Text, width: u32, queries: Queries) -> Panel {
    Panel {
        title,
        about,
        shows: Shows::Course,
        unit,
        width,
        queries,
    }
}

/// A panel of one number.
const fn number(title: Text, about: Text, queries: Queries) -> Panel {
    Panel {
        shows: Shows::Number,
        ..course(title, about, "short", 4, queries)
    }
}

/// A panel with a number for each series.
const fn table(title: Text, about: Text, width: u32, queries: Queries) -> Panel {
    Panel {
        shows: Shows::Table,
        ..course(title, about, "short", width, queries)
    }
}

/// Rows, from above.
const ROWS: [(&str, u32, &[Panel]); 5] = [
    (
        "Nodes",
        5,
        &[
            number(
                "Agents that are ready",
                "Those whose checks of /readyz are all passed.",
                &[(
                    r#"count(min by (node) (netqos_ready{node=~"$node"}) == 1) or vector(0)"#,
                    "ready",
                )],
            ),
            number(
                "Interfaces in force",
                "Interfaces of pods whose limits and rules are in force.",
                &[(
                    r#"sum(netqos_endpoints{node=~"$node", state="in_force"})"#,
                    "in force",
                )],
            ),
            number(
                "Interfaces failing",
                "Interfaces of pods that are not as their objects say.",
                &[(
                    r#"sum(netqos_endpoints{node=~"$node", state="failing"})"#,
                    "failing",
                )],
            ),
            course(
                "Problems by reason",
                "What is not as it should be now. `netqos status` has the words.",
                "short",
                12,
                &[(
                    r#"sum by (reason) (netqos_problems{node=~"$node"})"#,
                    "{{reason}}",
                )],
            ),
        ],
    ),
    (
        "Pods and rules",
        8,
        &[
            course(
                "Let through",
                "By rule, or with an empty rule by the limit of the interface, at layer 2.",
                "bps",
                12,
                &[(
                    r#"8 * sum by (namespace, pod, direction, rule) (rate(netqos_pod_bytes_total{node=~"$node", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval]))"#,
                    "{{namespace}}/{{pod}} {{direction}} {{rule}}",
                )],
            ),
            course(
                "Rates",
                "What interfaces, and pods of a rule together on a node, are held to.",
                "bps",
                12,
                &[(
                    r#"8 * max by (namespace, pod, direction, rule) (netqos_pod_rate_limit_bytes_per_second{node=~"$node", namespace=~"$namespace", pod=~"$pod"})"#,
                    "{{namespace}}/{{pod}} {{direction}} {{rule}}",
                )],
            ),
            course(
                "Dropped",
                "Packets over the rate.",
                "pps",
                12,
                &[(
                    r#"sum by (namespace, pod, direction, rule) (rate(netqos_pod_dropped_packets_total{node=~"$node", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval]))"#,
                    "{{namespace}}/{{pod}} {{direction}} {{rule}}",
                )],
            ),
            course(
                "Marked",
                "Packets that got a DSCP.",
                "pps",
                12,
                &[(
                    r#"sum by (namespace, pod, rule) (rate(netqos_pod_marked_packets_total{node=~"$node", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval]))"#,
                    "{{namespace}}/{{pod}} {{rule}}",
                )],
            ),
        ],
    ),
    (
        "Lines and classes",
        8,
        &[
            course(
                "Through each class",
                "What system, latency-sensitive and best-effort traffic takes of the nodes' lines, at \
                        layer 2.",
                "bps",
                12,
                &[(
                    r#"8 * sum by (node, line, direction, class) (rate(netqos_class_bytes_total{node=~"$node"}[$__rate_interval]))"#,
                    "{{node}} {{line}} {{direction}} {{class}}",
                )],
            ),
            course(
                "Guaranteed",
                "What each class gets when all want all of the line.",
                "bps",
                6,
                &[(
                    r#"8 * max by (node, line, direction, class) (netqos_line_guaranteed_bytes_per_second{node=~"$node"})"#,
                    "{{node}} {{line}} {{direction}} {{class}}",
                )],
            ),
            course(
                "Queues that were full",
                "Packets of a class that were dropped for that. TCP finds its rate by some.",
                "pps",
                6,
                &[(
                    r#"sum by (node, line, direction, class) (rate(netqos_class_dropped_packets_total{node=~"$node"}[$__rate_interval]))"#,
                    "{{node}} {{line}} {{direction}} {{class}}",
                )],
            ),
        ],
    ),
    (
        "Agents",
        8,
        &[
            course(
                "Time to make a change",
                "From an object's change to the kernel as it says.",
                "s",
                8,
                &[
                    (
                        r#"histogram_quantile(0.5, sum by (le) (rate(netqos_reconcile_duration_seconds_bucket{node=~"$node"}[$__rate_interval])))"#,
                        "half",
                    ),
                    (
                        r#"histogram_quantile(0.99, sum by (le) (rate(netqos_reconcile_duration_seconds_bucket{node=~"$node"}[$__rate_interval])))"#,
                        "99 %",
                    ),
                ],
            ),
            course(
                "Changes",
                "Writes of rules to the kernel, and limits that were set or lifted.",
                "ops",
                8,
                &[
                    (
                        r#"sum(rate(netqos_datapath_changes_total{node=~"$node"}[$__rate_interval]))"#,
                        "rules",
                    ),
                    (
                        r#"sum(rate(netqos_limit_changes_total{node=~"$node"}[$__rate_interval]))"#,
                        "limits",
                    ),
                ],
            ),
            course(
                "What had to be done again",
                "Tries after a failure, and programs that were put back.",
                "ops",
                8,
                &[
                    (
                        r#"sum by (node) (rate(netqos_retries_total{node=~"$node"}[$__rate_interval]))"#,
                        "{{node}} tried again",
                    ),
                    (
                        r#"sum by (node) (rate(netqos_hooks_restored_total{node=~"$node"}[$__rate_interval]))"#,
                        "{{node}} put back",
                    ),
                ],
            ),
        ],
    ),
    (
        "What runs",
        8,
        &[
            table(
                "Features that a kernel lacks",
                "Found by using them.",
                12,
                &[(
                    r#"count by (node, feature) (netqos_datapath_feature_info{node=~"$node", works="false"})"#,
                    "",
                )],
            ),
            table(
                "Versions",
                "How many nodes run which.",
                6,
                &[(
                    r#"count by (version) (netqos_build_info{node=~"$node"})"#,
                    "",
                )],
            ),
            table(
                "Objects",
                "As the agent that knows most knows them.",
                6,
                &[(r#"max by (kind) (netqos_objects{node=~"$node"})"#, "")],
            ),
        ],
    ),
];

/// What one may choose, and the metric with the label that says what there is.
const CHOICES: [(&str, &str); 3] = [
    ("node", "netqos_build_info"),
    ("namespace", "netqos_pod_packets_total"),
    (
        "pod",
        r#"netqos_pod_packets_total{namespace=~"$namespace"}"#,
    ),
];

/// Every query, with the panel or the variable that it is of, and without Grafana's own variables.
pub fn queries() -> Vec<(String, String)> {
    let panels = ROWS.iter().flat_map(|(_, _, panels)| panels.iter());
    let of_panels = panels.flat_map(|panel| {
        panel.queries.iter().map(move |(text, _)| {
            let text = text.replace("$__rate_interval", "5m");
            (format!("panel {:?}", panel.title), text)
        })
    });
    let of_choices = CHOICES.iter().map(|(label, metric)| {
        let text = format!("count by ({label}) ({metric})");
        (format!("choice of {label}"), text)
    });
    of_panels.chain(of_choices).collect()
}

/// Holds every query to the registry.
///
/// # Errors
/// One asks for what is not served.
pub fn check(registry: &Registry) -> anyhow::Result<()> {
    queries()
        .into_iter()
        .try_for_each(|(place, text)| query::check(registry, &text).context(place))
}

/// As Grafana imports it.
///
/// # Errors
/// It cannot be written.
pub fn json() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&dashboard())? + "\n")
}

/// As a ConfigMap for Grafana's sidecar, a template of the chart.
///
/// # Errors
/// It cannot be written.
pub fn template() -> anyhow::Result<String> {
    let json = literally(&json()?);
    let json: String = json.lines().map(|line| format!("    {line}\n")).collect();
    Ok(format!(
        "{{{{- /* Made by `cargo xtask metrics`: crates/xtask/src/metrics/dashboard.rs. */ -}}}}\n\
         {{{{- if .Values.monitoring.enabled }}}}\n\
         apiVersion: v1\n\
         kind: ConfigMap\n\
         metadata:\n  \
           name: netqos-dashboard\n  \
           namespace: {{{{ .Release.Namespace }}}}\n  \
           labels:\n    \
             {{{{- include \"netqos.labels\" . | nindent 4 }}}}\n    \
             {{{{- with .Values.monitoring.dashboardLabels }}}}\n    \
             {{{{- toYaml . | nindent 4 }}}}\n    \
             {{{{- end }}}}\n\
         data:\n  \
           netqos.json: |\n{json}{{{{- end }}}}\n"
    ))
}

fn dashboard() -> Value {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, height, row) in &ROWS {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        }));
        y += 1;
        let mut x = 0;
        for panel in *row {
            if x + panel.width > 24 {
                (x, y) = (0, y + height);
            }
            let at = json!({"x": x, "y": y, "w": panel.width, "h": height});
            panels.push(drawn(panel, panels.len() + 1, &at, &source));
            x += panel.width;
        }
        y += height;
    }
    let choices = CHOICES.iter().map(|(label, metric)| {
        json!({
            "name": label,
            "label": label,
            "type": "query",
            "datasource": source,
            "query": {"query": format!("label_values({metric}, {label})"), "refId": label},
            "definition": format!("label_values({metric}, {label})"),
            "includeAll": true,
            "allValue": ".*",
            "multi": true,
            "refresh": 2,
            "sort": 1,
            "current": {"text": "All", "value": "$__all"},
        })
    });
    let which =
        json!({"name": "source", "label": "source", "type": "datasource", "query": "prometheus"});
    let variables: Vec<Value> = [which].into_iter().chain(choices).collect();
    json!({
        "uid": "netqos",
        "title": "netqos",
        "tags": ["netqos"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    })
}

fn drawn(panel: &Panel, id: usize, at: &Value, source: &Value) -> Value {
    let kind = match panel.shows {
        Shows::Number => "stat",
        Shows::Course => "timeseries",
        Shows::Table => "table",
    };
    let is_course = matches!(panel.shows, Shows::Course);
    let letters = ["A", "B", "C", "D"];
    let queries = panel.queries.iter().zip(letters);
    let targets: Vec<Value> = queries
        .map(|((query, legend), letter)| {
            json!({
                "refId": letter,
                "datasource": source,
                "expr": query,
                "legendFormat": legend,
                "instant": !is_course,
                "range": is_course,
                "format": if matches!(panel.shows, Shows::Table) { "table" } else { "time_series" },
            })
        })
        .collect();
    json!({
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": at,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
    })
}
