//! `netqos validate`: manifests, checked as a cluster would, without one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_k8s::{Definition, FieldError, Object, documents, object_from_value};
use serde::Serialize;
use serde_json::Value;

use crate::manifests;
use crate::output::{self, FAILED};

/// Which manifests, and how to say it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
NetworkQoS, NetworkQoSDefault, NetworkQoSQuota and BandwidthProfile objects are checked by the schema and the
CEL rules that an API server gets; the bandwidth annotations of Pods, the configurations in
NetworkAttachmentDefinitions and the ConfigMap slo-controller-config by what reads them. Other kinds are passed over, with a note.

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
struct Report {
    /// How many objects were checked, and found right or wrong.
    checked: usize,
    /// How many of them have an error.
    wrong: usize,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    file: String,
    /// From 1.
    document: usize,
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
    Note,
}

/// Reads, checks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    let read = manifests::texts(&arguments.filename, |file, text| {
        check_file(file, text, &mut report);
    });
    if let Err(code) = read {
        return code;
    }
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
    eprintln!("netqos: {} checked, {} wrong", report.checked, report.wrong);
    let errors = |finding: &Finding| finding.severity == Severity::Error;
    if report.findings.iter().any(errors) {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

fn check_file(file: &str, text: &str, report: &mut Report) {
    for document in documents(text) {
        match &document.value {
            Err(why) => {
                report.checked += 1;
                report.wrong += 1;
                report.findings.push(Finding {
                    file: file.to_owned(),
                    document: document.number,
                    severity: Severity::Error,
                    kind: None,
                    name: None,
                    path: String::new(),
                    message: format!("the document from line {} on: {why}", document.line),
                });
            }
            Ok(value) => match items(value) {
                None => check_object(file, document.number, "", value, report),
                Some(items) => {
                    for (index, value) in items.iter().enumerate() {
                        let path = format!("items[{index}].");
                        check_object(file, document.number, &path, value, report);
                    }
                }
            },
        }
    }
}

fn items(value: &Value) -> Option<&Vec<Value>> {
    let list = value.get("kind")?.as_str()?.ends_with("List");
    value.get("items").filter(|_| list)?.as_array()
}

fn check_object(file: &str, document: usize, path: &str, value: &Value, report: &mut Report) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let metadata = |field: &str| value.get("metadata")?.get(field).and_then(text);
    let name = metadata("name").map(|name| match metadata("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    });
    let mut find = |severity, error: FieldError| {
        report.findings.push(Finding {
            file: file.to_owned(),
            document,
            severity,
            kind: value.get("kind").and_then(text),
            name: name.clone(),
            path: format!("{path}{}", error.path)
                .trim_end_matches('.')
                .to_owned(),
            message: error.message,
        });
    };
    match check(value) {
        Checked::PassedOver(kind) => {
            let message = format!("{kind}: nothing to check");
            find(Severity::Note, FieldError::new("", message));
        }
        Checked::Wrong(errors) => {
            for error in errors {
                find(Severity::Error, error);
            }
            report.checked += 1;
            report.wrong += 1;
        }
        Checked::Right => report.checked += 1,
    }
}

enum Checked {
    Right,
    Wrong(Vec<FieldError>),
    PassedOver(String),
}

fn check(value: &Value) -> Checked {
    if Definition::of(value).is_some() {
        return wrong_if_any(netqos_k8s::validate(value));
    }
    match object_from_value(value) {
        Ok(Object::Other { api_version, kind }) => {
            Checked::PassedOver(format!("{kind} of {api_version}"))
        }
        Ok(Object::Pod(..)) => wrong_if_any(annotations(value)),
        Ok(_) => Checked::Right,
        Err(errors) => wrong_if_any(errors),
    }
}

fn wrong_if_any(errors: Vec<FieldError>) -> Checked {
    if errors.is_empty() {
        Checked::Right
    } else {
        Checked::Wrong(errors)
    }
}

/// What is wrong with the bandwidth annotations of a pod.
fn annotations(pod: &Value) -> Vec<FieldError> {
    let written = pod.get("metadata").and_then(|all| all.get("annotations"));
    let entries = written.and_then(Value::as_object).into_iter().flatten();
    let texts: BTreeMap<String, String> = entries
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    let error = netqos_api::pod_limits(&texts).err();
    let error = error.map(|error| FieldError::new("metadata.annotations", error));
    error.into_iter().collect()
}

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["WHERE", "", "KIND", "NAME", "FIELD", "MESSAGE"]);
    for finding in &report.findings {
        table.add_row([
            format!("{}:{}", finding.file, finding.document),
            finding.severity.to_string(),
            finding.kind.clone().unwrap_or_default(),
            finding.name.clone().unwrap_or_default(),
            finding.path.clone(),
            finding.message.clone(),
        ]);
    }
    table
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Note => "note",
        })
    }
}

impl fmt::Display for Finding {
    /// `policies.yaml:2: error spec.priority: 101 is not between 0 and 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ", self.file, self.document, self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}
