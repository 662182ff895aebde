//! `netqos check` of a cluster: what it asks, and how it is said.

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use netqos_cluster::{Kind, ReadError, Which, list_any, now, version};
use netqos_coexistence::{Choice, Homes};
use netqos_k8s::FieldError;
use netqos_k8s::check::{Findings, check_object};
use serde::Serialize;
use serde_json::Value;

use super::dry_run;
use super::installed::{self, Seen};
use super::line::{Line, State};
use super::nodes;
use super::permissions;
use crate::cluster::{Cluster, ClusterArguments};
use crate::output::{self, DataFormat, ENVIRONMENT, FAILED};
use crate::status::workload;

/// The oldest Kubernetes that is supported (docs/install.md).
const OLDEST: (u32, u32) = (1, 34);

const DEFINITIONS: (&str, &str, &str) = (
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
const VALIDATING: (&str, &str, &str) = (
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
const MUTATING: (&str, &str, &str) = (
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
const DAEMON_SETS: (&str, &str, &str) = ("apps/v1", "DaemonSet", "daemonsets");
const CONFIG_MAPS: (&str, &str, &str) = ("v1", "ConfigMap", "configmaps");
const POLICIES: (&str, &str, &str) = ("k8s.ovn.org/v1alpha1", "NetworkQoS", "networkqoses");
const NODE_SLOS: (&str, &str, &str) = ("slo.koordinator.sh/v1alpha1", "NodeSLO", "nodeslos");
const LEASES: (&str, &str, &str) = ("coordination.k8s.io/v1", "Lease", "leases");

/// Where it is installed.
const HOME: &str = "netqos-system";

#[derive(Serialize)]
struct Report {
    checks: Vec<Line>,
}

/// Asks, and prints.
pub fn run(arguments: &ClusterArguments, pre: bool, format: DataFormat) -> ExitCode {
    let cluster = match arguments.connect() {
        Ok(cluster) => cluster,
        Err(code) => return code,
    };
    let home = arguments.namespace.as_deref().unwrap_or(HOME);
    let mut checks = match api(&cluster) {
        Ok(line) => vec![line],
        Err(why) => return output::failure(ENVIRONMENT, &why),
    };
    match pre {
        true => {
            checks.extend(permissions::look(&cluster, home));
            checks.extend(dry_run::look(&cluster));
            match seen(&cluster, kind(Kind::Node), Which::All) {
                Ok(all) => checks.extend(nodes::look(&all)),
                Err(line) => checks.push(line),
            }
        }
        false => checks.extend(installed(&cluster)),
    }
    checks.extend(coexistence(&cluster));
    let failed = checks.iter().any(|it| it.state == State::Failed);
    let report = Report { checks };
    let printed = output::data(format, &report, |it| it.checks.iter().for_each(Line::print));
    match failed {
        true => ExitCode::from(FAILED),
        false => printed,
    }
}

fn api(cluster: &Cluster) -> Result<Line, ReadError> {
    let version = cluster.wait(version(cluster.client()))?;
    let (major, minor) = OLDEST;
    let text = format!("Kubernetes {}", version.text);
    Ok(match (version.major, version.minor) >= OLDEST {
        true => Line::ok("API server", text),
        false => Line::failed(
            "API server",
            text,
            format!("update the cluster: {major}.{minor} is the oldest that is supported"),
        ),
    })
}

fn installed(cluster: &Cluster) -> Vec<Line> {
    let mut lines = Vec::new();
    let read = |of, which| seen(cluster, of, which);
    let seen = Seen {
        definitions: take(read(DEFINITIONS, Which::All), &mut lines),
        // Whoever may not apply CRDs follows no advice to do so.
        refused: dry_run::refused(cluster).unwrap_or_default(),
        validating: take(read(VALIDATING, Which::Named("netqos")), &mut lines),
        mutating: take(read(MUTATING, Which::Named("netqos")), &mut lines),
        leases: take(read(LEASES, Which::Named("netqos-controller")), &mut lines),
        agents: take(told("daemonsets", workload::agents(cluster)), &mut lines),
        controllers: take(
            told("deployments", workload::controllers(cluster)),
            &mut lines,
        ),
        nodes: take(read(kind(Kind::Node), Which::All), &mut lines),
        reports: take(
            read(kind(Kind::NetworkQoSNodeReport), Which::All),
            &mut lines,
        ),
    };
    let now = cluster.wait(now(cluster.client())).ok().flatten();
    let mut all = installed::look(&seen, now.unwrap_or_else(Timestamp::now));
    all.extend(lines);
    all
}

/// What is to be seen; what is not becomes a line.
fn take<T>(told: Result<Vec<T>, Line>, lines: &mut Vec<Line>) -> Option<Vec<T>> {
    told.map_err(|line| lines.push(line)).ok()
}

/// Who else is at work, and what is left to them.
fn coexistence(cluster: &Cluster) -> Vec<Line> {
    const WHAT: &str = "coexistence";
    let mut hidden = Vec::new();
    let mut all = |of: (&str, &str, &str), which| {
        seen(cluster, of, which).unwrap_or_else(|_| {
            hidden.push(of.2.to_owned());
            Vec::new()
        })
    };
    let (definitions, daemon_sets) = (all(DEFINITIONS, Which::All), all(DAEMON_SETS, Which::All));
    let (config_maps, policies) = (
        all(CONFIG_MAPS, Which::Named("cilium-config")),
        all(POLICIES, Which::All),
    );
    let (node_slos, nodes) = (
        all(NODE_SLOS, Which::All),
        all(kind(Kind::Node), Which::All),
    );
    let slo_config = all(CONFIG_MAPS, Which::Named("slo-controller-config"));
    let mut settings = settings(CONFIG_MAPS, &slo_config);
    settings.extend(self::settings(NODE_SLOS, &node_slos));
    settings.extend(self::settings(kind(Kind::Node), &nodes));
    let objects = netqos_coexistence::Objects {
        definitions: &definitions,
        daemon_sets: &daemon_sets,
        config_maps: &config_maps,
        policies: &policies,
        node_slos: &node_slos,
        nodes: &nodes,
    };
    let findings = objects
        .findings(&Choice::default(), &Homes::default())
        .into_iter();
    let mut lines: Vec<Line> = findings
        .map(|it| Line::warning(WHAT, it.message, it.to_do))
        .collect();
    if !hidden.is_empty() {
        let message = format!(
            "not all was looked at: you may not list {}",
            hidden.join(", ")
        );
        lines.push(Line::warning(
            WHAT,
            message,
            "run it with a role that may list them",
        ));
    }
    if lines.is_empty() {
        let text = "nothing else is at work that limits pods";
        lines.push(Line::ok(WHAT, text));
    }
    lines.extend(settings);
    lines
}

/// What is wrong with what these objects say, as `netqos validate` and the webhook find it.
fn settings((api_version, kind, _): (&str, &str, &str), objects: &[Value]) -> Vec<Line> {
    let found = objects.iter().flat_map(|object| {
        // Objects of a list do not say what they are.
        let mut object = object.clone();
        (object["apiVersion"], object["kind"]) = (api_version.into(), kind.into());
        let of = format!(
            "{kind} {}",
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        let Findings { errors, warnings } = check_object(&object).unwrap_or_default();
        let line = move |error: FieldError| {
            let (message, remedy) = match error.message.rsplit_once("; ") {
                Some((message, remedy)) => (message.to_owned(), remedy.to_owned()),
                None => (error.message, "correct the field".to_owned()),
            };
            Line::warning(
                "settings",
                format!("{of}: {}: {message}", error.path),
                remedy,
            )
        };
        errors.into_iter().chain(warnings).map(line)
    });
    found.collect()
}

fn kind(kind: Kind) -> (&'static str, &'static str, &'static str) {
    let api_version = match kind {
        Kind::NetworkQoSNodeReport => "netqos.io/v1alpha1",
        _ => "v1",
    };
    (api_version, kind.name(), kind.plural())
}

/// The objects, or that they cannot be seen.
fn seen(cluster: &Cluster, of: (&str, &str, &str), which: Which<'_>) -> Result<Vec<Value>, Line> {
    told(
        of.2,
        cluster.wait(list_any(cluster.client(), of, None, which)),
    )
}

fn told<T>(plural: &str, told: Result<Vec<T>, ReadError>) -> Result<Vec<T>, Line> {
    match told {
        Err(why) if why.is_unknown_kind() => Ok(Vec::new()),
        Err(why) => Err(Line::warning(
            plural,
            format!("not looked at: {why}"),
            "run it with a role that may list them",
        )),
        Ok(all) => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn oldest_kubernetes_is_that_of_chart_and_documents() {
        let (major, minor) = OLDEST;
        for (file, words) in [
            (
                "deploy/helm/netqos/Chart.yaml",
                format!("kubeVersion: \">={major}.{minor}.0-0\""),
            ),
            (
                "docs/install.md",
                format!("| Kubernetes | {major}.{minor} or newer"),
            ),
            ("README.md", format!("Kubernetes {major}.{minor} or newer")),
        ] {
            let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(path).unwrap();
            assert!(text.contains(&words), "{file} does not say: {words}");
        }
    }
}
