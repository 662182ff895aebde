//! Whether what is installed in a cluster is whole, and of versions that go together.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use netqos_core::{LISTED_NAMES, list_names};
use netqos_k8s::Definition;
use serde_json::Value;

use super::dry_run::{OTHER_VERSION, Refused};
use super::line::{Line, State};
use super::webhook;
use crate::status::overview::{Objects, Overview};
use crate::status::workload::Workload;

/// The version of this command, which an installation of the same release has everywhere.
const VERSION: &str = netqos_version::RELEASE;
const APPLY_DEFINITIONS: &str = "kubectl apply --server-side -k deploy/crds";
/// Where they are there, and Helm may have made them.
const RENEW_DEFINITIONS: &str = "kubectl apply --server-side --force-conflicts -k deploy/crds";
const APPLY_MANIFESTS: &str = "apply the manifests of one version as a whole (docs/operate.md, \
                               \"A new version\")";

/// The objects of an installation; `None`: they may not be seen.
pub struct Seen {
    pub definitions: Option<Vec<Value>>,
    /// The CRDs of this version that the API server refuses; empty where that could not be tried.
    pub refused: Refused,
    pub validating: Option<Vec<Value>>,
    pub mutating: Option<Vec<Value>>,
    pub leases: Option<Vec<Value>>,
    pub agents: Option<Vec<Workload>>,
    pub controllers: Option<Vec<Workload>>,
    pub nodes: Option<Vec<Value>>,
    pub reports: Option<Vec<Value>>,
}

/// A line for each part, at this time, which is the API server's.
pub fn look(seen: &Seen, now: Timestamp) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(definitions) = &seen.definitions {
        lines.extend(look_at_definitions(definitions, &seen.refused));
    }
    lines.extend(look_at_agents(seen, now));
    if let Some(controllers) = &seen.controllers {
        lines.push(look_at_controller(seen, controllers, now));
    }
    let configurations = [
        (
            "validatingwebhookconfigurations",
            seen.validating.as_deref(),
        ),
        ("mutatingwebhookconfigurations", seen.mutating.as_deref()),
    ];
    lines.extend(webhook::look(configurations, now));
    lines
}

fn text<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

fn look_at_definitions(there: &[Value], refused: &Refused) -> Vec<Line> {
    let definitions = netqos_k8s::definitions();
    let lines = definitions.iter().map(|definition| {
        let name = definition.name();
        let what = format!("definition {name}");
        let mut known = there.iter();
        let known = known.find(|it| text(it, "/metadata/name") == Some(&name));
        let line = match known {
            Some(known) => look_at_definition(definition, known, &what),
            None => Line::failed(&what, "it is not there", APPLY_DEFINITIONS),
        };
        match refused.get(&name) {
            // The remedy would fail.
            Some(reason) if line.state != State::Ok => {
                let message = format!(
                    "{}; the API server refuses this version's: {reason}",
                    line.message
                );
                Line::failed(&what, message, OTHER_VERSION)
            }
            _ => line,
        }
    });
    lines.collect()
}

fn look_at_definition(definition: &Definition, known: &Value, what: &str) -> Line {
    let wanted = definition.version();
    let versions = known.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let version = versions.find(|it| text(it, "/name") == Some(wanted));
    let Some(version) = version.filter(|it| it["served"] == true) else {
        let message = format!("it does not serve version {wanted}");
        return Line::failed(what, message, renewal(definition));
    };
    if version["storage"] != true {
        let message = format!("objects are stored in another version than {wanted}");
        return Line::warning(what, message, renewal(definition));
    }
    let missing = missing_fields(definition.schema(), &version["schema"]["openAPIV3Schema"]);
    if let [first, others @ ..] = &missing[..] {
        let more = match others.len() {
            0 => String::new(),
            more => format!(" and {more} more fields"),
        };
        let message = format!("it has no {first}{more}: what is said there is never stored");
        return Line::warning(what, message, renewal(definition));
    }
    Line::ok(what, format!("version {wanted}, with all fields"))
}

/// How to put this version's definition in place of the one that is there.
fn renewal(definition: &Definition) -> String {
    if definition.name().ends_with(".netqos.io") {
        return RENEW_DEFINITIONS.to_owned();
    }
    format!(
        "{RENEW_DEFINITIONS}; where OVN-Kubernetes owns the kind, its own definition stays \
         (docs/install.md, \"Beside somebody else's NetworkQoS\"), and objects have to do without"
    )
}

/// The fields that one schema has and another has not, the outermost of each.
fn missing_fields(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut missing = BTreeSet::new();
    compare(ours, theirs, "", &mut missing);
    missing.into_iter().collect()
}

fn compare(ours: &Value, theirs: &Value, path: &str, missing: &mut BTreeSet<String>) {
    // Whatever is stored as it comes has all fields.
    if theirs["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let fields = ours["properties"].as_object().into_iter().flatten();
    for (name, field) in fields {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match theirs["properties"].get(name) {
            // A server knows it, whether it is written down or not.
            None if path == "metadata" || path == "kind" || path == "apiVersion" => {}
            None => {
                missing.insert(path);
            }
            Some(known) => compare(field, known, &path, missing),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let (Some(ours), Some(theirs)) = (ours.get(inner), theirs.get(inner)) {
            compare(ours, theirs, path, missing);
        }
    }
}

/// Whether they run, as their DaemonSets say; and what they have said. A report is no sign of life.
fn look_at_agents(seen: &Seen, now: Timestamp) -> Vec<Line> {
    let pods = "kubectl -n netqos-system get pods -l app.kubernetes.io/component=agent -o wide: does \
                one run there, and what does it log?";
    let mut lines = Vec::new();
    let keepers = seen.agents.as_deref();
    let leaving = keepers.into_iter().flatten().filter(|it| it.leaving);
    let leaving: Vec<String> = leaving.filter_map(Workload::lacks).collect();
    if !leaving.is_empty() {
        let remedy = "remove the release once all nodes are through (docs/operate.md, \"Leaving\"), or \
                      apply the manifests without it, and agents put everything in force again";
        let lines = leaving.into_iter();
        return lines.map(|it| Line::failed("agents", it, remedy)).collect();
    }
    if keepers.is_some_and(<[Workload]>::is_empty) {
        let message = "there is no DaemonSet of them: none is kept running, whatever reports say";
        let remedy = "apply the manifests (docs/install.md)";
        lines.push(Line::failed("agents", message, remedy));
    }
    for keeper in keepers.into_iter().flatten() {
        lines.extend(keeper.lacks().map(|lacks| match keeper.is_in_service() {
            true => Line::warning("agents", lacks, pods),
            false => Line::failed("agents", lacks, pods),
        }));
    }
    let (Some(nodes), Some(reports)) = (&seen.nodes, &seen.reports) else {
        return lines;
    };
    let objects = Objects {
        nodes: Some(nodes.clone()),
        reports: Some(reports.clone()),
        agents: seen.agents.clone(),
        ..Objects::default()
    };
    let overview = Overview::of(&objects, now, false);
    let all = &overview.nodes;
    let without = all.iter().filter(|it| it.meant && it.agent.is_none());
    let without: Vec<&str> = without.map(|it| it.name.as_str()).collect();
    if let Some(unheard) = &overview.unheard {
        lines.push(Line::failed("agents", unheard, pods));
    }
    if !without.is_empty() {
        let nodes = if without.len() == 1 { "node" } else { "nodes" };
        let message = format!(
            "none has said anything on {nodes} {}",
            list_names(&without, LISTED_NAMES)
        );
        lines.push(Line::failed("agents", message, pods));
    }
    if lines.is_empty() {
        let heard = all.iter().filter(|it| it.agent.is_some()).count();
        lines.push(match keepers {
            Some(_) => Line::ok("agents", format!("on all of {heard} nodes they are ready")),
            None => Line::warning(
                "agents",
                format!("reports of all of {heard} nodes are there; whether their agents live is not known"),
                "run it with a role that may list daemonsets",
            ),
        });
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for version in all.iter().filter_map(|it| it.agent.as_deref()) {
        *versions.entry(version).or_default() += 1;
    }
    for (version, number) in versions {
        // Of which build of it they are, the controller compares.
        if version.split('+').next() != Some(VERSION) {
            let message = format!("{number} are of version {version}, and this is {VERSION}");
            lines.push(Line::warning("agents", message, APPLY_MANIFESTS));
        }
    }
    let with_problems = all.iter().filter(|it| !it.problems.is_empty());
    for node in with_problems {
        let message = format!("on node {}: {}", node.name, node.problems.join("; "));
        let remedy = "what the message says; docs/operate.md goes through the reasons";
        lines.push(Line::warning("agents", message, remedy));
    }
    lines
}

fn look_at_controller(seen: &Seen, controllers: &[Workload], now: Timestamp) -> Line {
    let objects = Objects {
        leases: seen.leases.clone(),
        ..Objects::default()
    };
    let overview = Overview::of(&objects, now, false);
    let pods = "kubectl -n netqos-system get pods -l app.kubernetes.io/component=controller: do they \
                run, and what do they log?";
    let leads = overview.controller.as_ref();
    let Some(keeper) = controllers.first() else {
        if leads.is_some_and(|it| it.leads()) {
            return Line::ok("controller", "one leads that no Deployment has made");
        }
        let remedy = "apply the manifests (docs/install.md): agents wait for the peers of rules that \
                      it publishes, and objects have no status";
        return Line::failed("controller", "it is not installed", remedy);
    };
    if let Some(leader) = leads.filter(|it| !it.leads()) {
        return Line::failed("controller", leader.words(), pods);
    }
    if let Some(lacks) = keeper.lacks() {
        return match keeper.is_in_service() || (leads.is_some() && keeper.ready > 0) {
            true => Line::warning("controller", lacks, pods),
            false => Line::failed("controller", lacks, pods),
        };
    }
    let version = keeper.version.as_deref();
    let leader = leads.map_or_else(|| "it is installed".to_owned(), |it| it.words());
    match version {
        Some(version) if version != VERSION => {
            let message = format!("{leader}; it is of version {version}, and this is {VERSION}");
            Line::warning("controller", message, APPLY_MANIFESTS)
        }
        _ => Line::ok("controller", leader),
    }
}
