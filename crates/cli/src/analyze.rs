//! `netqos analyze`: what is wrong with the objects of a cluster, or with manifests.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_analysis::{Level, Message, Snapshot, analyze};
use netqos_core::OneLine;
use serde::Serialize;

use crate::cluster::{ASKED, ClusterArguments};
use crate::output::{self, BAD_INPUT, DataFormat, FAILED};
use crate::{attachment_policies, manifests};

/// Which objects, and how to say it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at objects together: policies that select nobody, rules that never decide, limits that cannot be in
force, nodes without an agent. Each message has a code that stays when its words change; docs/messages.md
says of each what it means and what to do.

Of a cluster, without -f: the namespace of the kubeconfig's context, or what -n or -A say. With -f: the
files alone; with -f and --cluster (or -n, and always as kubectl netqos) the cluster as it would be with
them.

With --attachment-policies it prints the NetworkAttachmentPolicies that today's NetworkAttachmentDefinitions need
for netqos-multinet. Read their comments before you apply them: tenants write these NetworkAttachmentDefinitions.

Examples:
  netqos analyze -A
  netqos analyze -n games --failure-threshold warning
  netqos analyze -f policies/ -o json | jq '.messages[] | select(.level == \"Error\")'
  netqos analyze -A --attachment-policies > policies.yaml

Exit codes: 0 nothing of the level of --failure-threshold was found, 1 something was, 2 wrong usage or an
unreadable file, 3 no cluster answers. With --attachment-policies, 1 means that they do not permit a
NetworkAttachmentDefinition, or that not all objects were read.")]
pub struct Arguments {
    /// A file of YAML or JSON, a folder of such files, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR")]
    filename: Vec<PathBuf>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// From which level on a message is a failure.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t)]
    failure_threshold: Threshold,
    /// Print the NetworkAttachmentPolicies that today's NetworkAttachmentDefinitions need, as manifests.
    #[arg(long, conflicts_with = "failure_threshold")]
    attachment_policies: bool,
    /// How to print it [default: a line for each message; with --attachment-policies: yaml].
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// A level, as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Threshold {
    /// What is asked for and not in force.
    #[default]
    Error,
    /// And what is probably not meant.
    Warning,
    /// Any message.
    Info,
}

#[derive(Serialize)]
struct Report {
    messages: Vec<Message>,
}

/// Reads, looks, and prints.
pub fn run(arguments: &Arguments, as_plugin: bool) -> ExitCode {
    if arguments.attachment_policies && arguments.output == Some(DataFormat::Table) {
        eprintln!("netqos: --attachment-policies prints manifests: use -o yaml or -o json");
        return ExitCode::from(BAD_INPUT);
    }
    let files = &arguments.filename;
    let mut namespace = arguments.cluster.namespace.clone();
    let mut snapshot = if arguments
        .cluster
        .is_asked(as_plugin || files.is_empty() || arguments.all_namespaces)
    {
        let cluster = match arguments.cluster.connect() {
            Ok(cluster) => cluster,
            Err(code) => return code,
        };
        if !arguments.all_namespaces && namespace.is_none() && files.is_empty() {
            namespace = Some(cluster.default_namespace().to_owned());
        }
        let kinds = match arguments.attachment_policies {
            true => &attachment_policies::KINDS[..],
            false => &ASKED[..],
        };
        match cluster.snapshot(kinds, namespace.as_deref()) {
            Ok(snapshot) => snapshot,
            Err(code) => return code,
        }
    } else {
        Snapshot::default()
    };
    if let Err(code) = manifests::put(&mut snapshot, files) {
        return code;
    }
    if arguments.attachment_policies {
        let format = arguments.output.unwrap_or(DataFormat::Yaml);
        return attachment_policies::print(&snapshot, namespace.as_deref(), format);
    }
    let messages = analyze(&snapshot, namespace.as_deref());
    let failed = messages
        .iter()
        .any(|it| it.level() >= arguments.failure_threshold.level());
    let report = Report { messages };
    match arguments.output {
        Some(format) => {
            output::data(format, &report, |it| println!("{}", table(it)));
        }
        None => {
            for message in &report.messages {
                println!("{message}");
            }
        }
    }
    let count = |level| {
        report
            .messages
            .iter()
            .filter(|it| it.level() == level)
            .count()
    };
    eprintln!(
        "netqos: {} errors, {} warnings, {} notes",
        count(Level::Error),
        count(Level::Warning),
        count(Level::Info)
    );
    match failed {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
    }
}

impl Threshold {
    fn level(self) -> Level {
        match self {
            Self::Error => Level::Error,
            Self::Warning => Level::Warning,
            Self::Info => Level::Info,
        }
    }
}

fn table(report: &Report) -> Table {
    let shown = |text: &String| OneLine(text).to_string();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["LEVEL", "CODE", "OBJECT", "WHERE", "FIELD", "MESSAGE"]);
    for message in &report.messages {
        table.add_row([
            message.level().to_string(),
            message.code.code.to_owned(),
            message.subject.to_string(),
            shown(&message.place),
            shown(&message.field),
            shown(&message.text),
        ]);
    }
    table
}
