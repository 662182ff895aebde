//! `netqos analyze --attachment-policies`: the NetworkAttachmentPolicies that today's NADs need.

use std::fmt::Write as _;
use std::process::ExitCode;

use netqos_analysis::{NamespacePolicies, Snapshot, attachment_policies};
use netqos_cluster::Kind;
use serde::Serialize;
use serde_json::Value;

use crate::output::{self, DataFormat, FAILED};

/// The kinds that policies depend on.
pub const KINDS: [Kind; 2] = [Kind::NetworkAttachmentDefinition, Kind::Pod];

const HEAD: &str = "\
# The permissions that today's NetworkAttachmentDefinitions need, by netqos analyze --attachment-policies.
# Their configurations are executed as root on nodes: read each that a comment names, before you apply this.
";

#[derive(Serialize)]
struct Report {
    namespaces: Vec<NamespacePolicies>,
}

/// Prints the policies, of one namespace or of all.
pub fn print(snapshot: &Snapshot, namespace: Option<&str>, format: DataFormat) -> ExitCode {
    let report = Report {
        namespaces: attachment_policies(snapshot, namespace),
    };
    match format {
        DataFormat::Json => {
            output::json(&report);
        }
        DataFormat::Yaml | DataFormat::Table => print!("{}", manifests(&report)),
    }
    for message in snapshot.unreadable_documents() {
        eprintln!("netqos: {message}");
    }
    let of_all = report.namespaces.iter();
    let policies: usize = of_all.clone().map(|it| it.policies.len()).sum();
    let not_permitted: usize = of_all.map(|it| it.not_permitted.len()).sum();
    eprintln!(
        "netqos: {policies} NetworkAttachmentPolicies; {not_permitted} NetworkAttachmentDefinitions that they do not permit"
    );
    let nads = snapshot.has_read(Kind::NetworkAttachmentDefinition.name(), namespace);
    let is_whole = nads && snapshot.has_read(Kind::Pod.name(), None);
    match not_permitted == 0 && is_whole && snapshot.unreadable_documents().is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}

/// The policies as YAML documents, with comments before those of each namespace.
fn manifests(report: &Report) -> String {
    let mut text = HEAD.to_owned();
    for it in &report.namespaces {
        text += "---\n";
        let refused = it
            .not_permitted
            .iter()
            .map(|why| format!("Not permitted: {why}"));
        let notes = it.notes.iter().map(|note| format!("Read before: {note}"));
        for line in refused.chain(notes) {
            comment(&line, &mut text);
        }
        for (index, policy) in it.policies.iter().enumerate() {
            if index > 0 {
                text += "---\n";
            }
            yaml(policy, 0, &mut text);
        }
    }
    text
}

/// Writes a text of tenants as one comment. Not only a newline ends a line of YAML.
fn comment(line: &str, text: &mut String) {
    text.push_str("# ");
    for character in line.chars() {
        match character {
            ' '..='~' => text.push(character),
            _ => text.extend(character.escape_default()),
        }
    }
    text.push('\n');
}

/// Writes an object or a list as YAML blocks. Texts have quotes: older readers take `no` and `1e3` for other types. Keys
/// are those of the kind.
fn yaml(value: &Value, indent: usize, text: &mut String) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let _ = write!(text, "{margin}{key}:");
                yaml_field(field, indent, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                let _ = write!(text, "{margin}-");
                yaml_field(item, indent, text);
            }
        }
        scalar => {
            let _ = writeln!(text, "{margin}{scalar}");
        }
    }
}

fn yaml_field(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            yaml(value, indent + 2, text);
        }
        // JSON's texts are YAML's, too.
        scalar => {
            let _ = writeln!(text, " {scalar}");
        }
    }
}
