//! `netqos validate`: manifests, checked as a cluster would, without one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_core::OneLine;
use netqos_k8s::check::{self, Findings};
use netqos_k8s::{DocumentPlace, FieldError, documents, lacks_namespace, list_items};
use serde::Serialize;
use serde_json::Value;

use crate::manifests;
use crate::output::{self, FAILED};

/// The number of objects that were not checked that the last line names.
const NAMED: usize = 5;

/// Which manifests, and how to say it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
NetworkQoS, NetworkQoSDefault, NetworkQoSQuota and BandwidthProfile objects are checked by the schema and the
CEL rules that an API server gets. By the code that reads them in webhook and agent are checked: bandwidth
annotations and koordinator.sh/networkQOS of Pods and of the templates of Deployments, DaemonSets, StatefulSets,
ReplicaSets, ReplicationControllers, Jobs and CronJobs; the ConfigMap slo-controller-config; NodeSLOs; Nodes;
Namespaces, Services, EndpointSlices and network definitions. Objects of other kinds are not checked, which a note
and the last line say.

Examples:
  netqos validate -f policies/
  netqos validate -f games.yaml -o json | jq '.findings[]'
  kubectl get networkqoses -A -o yaml | netqos validate -f -

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage or an unreadable file.")]
pub struct Arguments {
    /// A file of YAML or JSON, a folder of such files, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR", required = true)]
    filename: Vec<PathBuf>,
    /// How to print it [default: a line for each finding].
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For machines.
    Json,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// How many objects were checked, and found right or wrong.
    checked: usize,
    /// How many of them have an error.
    wrong: usize,
    /// The objects that were not checked: nothing of netqos reads their kind.
    not_checked: Vec<String>,
    findings: Vec<Finding>,
    /// The first place of each object, by API group, kind and name.
    #[serde(skip)]
    places: BTreeMap<[String; 3], String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    file: String,
    /// From 1.
    document: usize,
    /// The line of the file that the document starts on, from 1.
    line: usize,
    severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// `namespace/name`, or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The field.
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
    Note,
}

/// Reads, checks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    let read = manifests::texts(&arguments.filename, |file, text| {
        check_file(file, text, &mut report);
    });
    match arguments.output {
        Some(Format::Json) => {
            output::json(&report);
        }
        Some(Format::Table) => println!("{}", table(&report)),
        None => {
            for finding in &report.findings {
                println!("{finding}");
            }
        }
    }
    eprintln!("netqos: {}", report.summary());
    if let Err(code) = read {
        return code;
    }
    let errors = |finding: &Finding| finding.severity == Severity::Error;
    if report.findings.iter().any(errors) {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

fn check_file(file: &str, text: &str, report: &mut Report) {
    for document in documents(text) {
        let wrong = report.wrong;
        let errors = document
            .left_out
            .iter()
            .chain(document.value.as_ref().err());
        for why in errors {
            let error = FieldError::new("", format_args!("cannot read the document: {why}"));
            report.add_error(file, document.place(), None, error);
        }
        match &document.value {
            Err(_) => {
                report.checked += 1;
                report.wrong += 1;
            }
            Ok(value) => match list_items(value) {
                None => check_object(file, document.place(), "", value, report),
                Some(Err(not_a_list)) => {
                    report.checked += 1;
                    report.wrong += 1;
                    let kind = value.get("kind").and_then(Value::as_str);
                    report.add_error(file, document.place(), kind, not_a_list);
                }
                Some(Ok(items)) => {
                    for (index, value) in items.iter().enumerate() {
                        let path = format!("items[{index}].");
                        check_object(file, document.place(), &path, value, report);
                    }
                }
            },
        }
        if !document.left_out.is_empty() {
            report.wrong = report.wrong.max(wrong + 1);
        }
    }
}

fn check_object(
    file: &str,
    in_file: DocumentPlace,
    path: &str,
    value: &Value,
    report: &mut Report,
) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let metadata = |field: &str| value.get("metadata")?.get(field).and_then(text);
    let name = metadata("name").map(|name| match metadata("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    });
    let mut find = |severity, error: FieldError| {
        report.findings.push(Finding {
            file: file.to_owned(),
            document: in_file.document,
            line: in_file.line,
            severity,
            kind: value.get("kind").and_then(text),
            name: name.clone(),
            path: format!("{path}{}", error.path)
                .trim_end_matches('.')
                .to_owned(),
            message: error.message,
        });
    };
    if let (Some(kind), Some(name)) = (value.get("kind").and_then(text), &name) {
        let version = value.get("apiVersion").and_then(Value::as_str);
        let group = version
            .and_then(|it| it.split_once('/'))
            .map_or("", |it| it.0);
        let place = format!("{}, {path}", in_file.in_file(file));
        let place = place.trim_end_matches([' ', ',', '.']).to_owned();
        match report.places.entry([group.to_owned(), kind, name.clone()]) {
            Entry::Vacant(entry) => drop(entry.insert(place)),
            Entry::Occupied(first) => {
                let first = first.get();
                let message = format!(
                    "the object is in {first}, too; an agent with a manifest directory uses the first, \
                     kubectl apply the last"
                );
                find(Severity::Warning, FieldError::new("", message));
            }
        }
    }
    let Some(Findings { errors, warnings }) = check::check_object(value) else {
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("?");
        let (kind, version) = (field("kind"), field("apiVersion"));
        let message = format!("{kind} of {version}: not checked");
        find(Severity::Note, FieldError::new("", message));
        let name = name.as_deref().unwrap_or("?");
        report.not_checked.push(format!("{kind} {name}"));
        return;
    };
    report.checked += 1;
    report.wrong += usize::from(!errors.is_empty());
    for error in errors {
        find(Severity::Error, error);
    }
    for warning in warnings {
        find(Severity::Warning, warning);
    }
    if name.is_some() && lacks_namespace(value) {
        let message =
            "absent: the object counts as one of the namespace default; name its namespace";
        find(
            Severity::Note,
            FieldError::new("metadata.namespace", message),
        );
    }
}

impl Report {
    /// Adds an error of a whole document.
    fn add_error(
        &mut self,
        file: &str,
        place: DocumentPlace,
        kind: Option<&str>,
        error: FieldError,
    ) {
        self.findings.push(Finding {
            file: file.to_owned(),
            document: place.document,
            line: place.line,
            severity: Severity::Error,
            kind: kind.map(str::to_owned),
            name: None,
            path: error.path,
            message: error.message,
        });
    }

    /// `3 checked, 0 wrong, 2 not checked: Secret games/a, Secret games/b`.
    fn summary(&self) -> String {
        let (checked, wrong) = (self.checked, self.wrong);
        let mut summary = format!("{checked} checked, {wrong} wrong");
        let left_out = self.not_checked.len();
        if left_out > 0 {
            let named = self.not_checked.iter().take(NAMED).cloned();
            let more = left_out.checked_sub(NAMED).filter(|more| *more > 0);
            let more = more.map(|more| format!("{more} more"));
            let named: Vec<String> = named.chain(more).collect();
            summary.push_str(&format!(", {left_out} not checked: {}", named.join(", ")));
        }
        summary
    }
}

fn table(report: &Report) -> Table {
    let shown = |text: &String| OneLine(text).to_string();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["WHERE", "", "KIND", "NAME", "FIELD", "MESSAGE"]);
    for finding in &report.findings {
        table.add_row([
            shown(&finding.place()),
            finding.severity.to_string(),
            finding.kind.as_ref().map(shown).unwrap_or_default(),
            finding.name.as_ref().map(shown).unwrap_or_default(),
            shown(&finding.path),
            shown(&finding.message),
        ]);
    }
    table
}

impl Finding {
    fn place(&self) -> String {
        let place = DocumentPlace {
            document: self.document,
            line: self.line,
        };
        place.in_file(&self.file)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

impl fmt::Display for Finding {
    /// `policies.yaml:14, document 2: error spec.priority: 101 is not between 0 and 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ", OneLine(self.place()), self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", OneLine(&self.path))?;
        }
        write!(f, "{}", OneLine(&self.message))
    }
}
