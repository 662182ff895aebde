//! `netqos lab`.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netqos_lab::report::Kept;
use netqos_lab::{Blame, LabError, Listed, Options, Progress, Which};

use crate::output::{self, BAD_INPUT, ENVIRONMENT, FAILED, Format};

/// What to do with labs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Builds the pods of a folder, measures what they get, and takes all of it away.
    Run(Run),
    /// Shows the labs that stand.
    List(List),
    /// Takes labs away that were kept, or that a crash has left.
    Down(Down),
}

/// What to run, and where the report goes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The folder holds Pods (v1) and one Scenario (lab.netqos.io/v1alpha1) in YAML or \
        JSON, one CNI *.conflist, and, if there are any, NetworkQoS and what belongs to them.\n\n\
        Examples:\n  \
        netqos lab run examples/iperf-slow\n  \
        netqos lab run examples/iperf-slow -o json | jq '.measurements[] | {name, verdict}'\n  \
        netqos lab run examples/iperf-slow --attempts 3\n  \
        netqos lab run examples/iperf-slow --keep"
)]
pub struct Run {
    /// The folder.
    folder: PathBuf,
    /// Leave the lab up, and say how to enter it.
    #[arg(long)]
    keep: bool,
    /// How often a measurement is made at most until what it expects holds; the report tells what came of each attempt.
    #[arg(long, value_name = "N", default_value = "1")]
    attempts: NonZeroU32,
    /// How to print the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Also write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    report_json: Option<PathBuf>,
    /// Also write the report as one HTML page to this file.
    #[arg(long, value_name = "FILE")]
    report_html: Option<PathBuf>,
    /// The agent's executable, for folders with NetworkQoS objects; else what NETQOS_AGENT names, else the one beside this command.
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// How to show them.
#[derive(Debug, clap::Args)]
pub struct List {
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Which ones to take away.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  netqos lab down\n  netqos lab down 1f3a\n  netqos lab down --all"
)]
pub struct Down {
    /// Its name, as `netqos lab list` shows it; may be left out when there is only one.
    #[arg(conflicts_with = "all")]
    run: Option<String>,
    /// All that nobody is running.
    #[arg(long)]
    all: bool,
}

/// A report that can't be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report to {}: {source}", path.display())]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Does it.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Run(arguments) => return measure(arguments),
        Command::List(arguments) => list(arguments),
        Command::Down(arguments) => down(arguments),
    };
    done.unwrap_or_else(|error| failure(&error))
}

fn measure(arguments: &Run) -> ExitCode {
    let options = Options {
        keep: arguments.keep,
        attempts: arguments.attempts,
        progress: if arguments.quiet {
            Progress::silent()
        } else {
            Progress::on_stderr()
        },
        agent: arguments.agent.clone(),
    };
    let report = match netqos_lab::run(&arguments.folder, &options) {
        Ok(report) => report,
        Err(error) => return failure(&error),
    };
    let printed = match arguments.output {
        Format::Json => output::json(&report),
        Format::Table => {
            print!("{}", report.to_table());
            ExitCode::SUCCESS
        }
    };
    if let Some(kept) = &report.kept {
        eprint!("{}", how_to_enter(kept));
    }
    let json = || serde_json::to_string_pretty(&report).map_err(io::Error::from);
    let written = write(arguments.report_json.as_deref(), json)
        .and_then(|()| write(arguments.report_html.as_deref(), || Ok(report.to_html())));
    if let Err(error) = written {
        return output::failure(ENVIRONMENT, &error);
    }
    if report.holds() {
        printed
    } else {
        ExitCode::from(FAILED)
    }
}

fn list(arguments: &List) -> Result<ExitCode, LabError> {
    let labs = netqos_lab::list()?;
    if arguments.output == Format::Json {
        return Ok(output::json(&labs));
    }
    if labs.is_empty() {
        eprintln!("no lab stands");
    }
    for lab in &labs {
        println!("{}", line(lab));
    }
    Ok(ExitCode::SUCCESS)
}

fn down(arguments: &Down) -> Result<ExitCode, LabError> {
    let which = match (&arguments.run, arguments.all) {
        (Some(run), _) => Which::Run(run.clone()),
        (None, true) => Which::All,
        (None, false) => Which::TheOnly,
    };
    for run in netqos_lab::down(&which)? {
        eprintln!("lab {run} is gone");
    }
    Ok(ExitCode::SUCCESS)
}

fn line(lab: &Listed) -> String {
    let by = match lab.running {
        Some(pid) => format!("run by process {pid}"),
        None => "nobody runs it".to_owned(),
    };
    format!(
        "{}  {}  {} pods  since {}  {by}",
        lab.run, lab.scenario, lab.pods, lab.started
    )
}

fn how_to_enter(kept: &Kept) -> String {
    let mut text = format!(
        "\nlab {} stays up; its files are in {}\n",
        kept.run,
        kept.folder.display()
    );
    for (who, netns) in &kept.namespaces {
        text.push_str(&format!("  {who}: nsenter --net=/run/netns/{netns}\n"));
    }
    for agent in &kept.agents {
        text.push_str(&format!(
            "  the agent goes on: what is changed in {} is in force a moment later;\n  \
             NETQOS_RUN_DIR={} netqos status shows it\n",
            agent.objects.display(),
            agent.run.display()
        ));
    }
    text + &format!("take it away with: netqos lab down {}\n", kept.run)
}

fn write(path: Option<&Path>, text: impl FnOnce() -> io::Result<String>) -> Result<(), WriteError> {
    let Some(path) = path else {
        return Ok(());
    };
    text()
        .and_then(|text| fs::write(path, text.trim_end().to_owned() + "\n"))
        .map_err(|source| WriteError {
            path: path.to_owned(),
            source,
        })
}

fn failure(error: &LabError) -> ExitCode {
    let code = match error.blame() {
        Blame::Input => BAD_INPUT,
        Blame::Environment => ENVIRONMENT,
    };
    output::failure(code, error)
}
