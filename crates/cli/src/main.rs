//! The `netqos` command.
#![forbid(unsafe_code)]

#[macro_use]
mod output;

mod analyze;
mod attachment_policies;
mod check;
mod cleanup;
mod cluster;
mod describe;
mod explain;
mod install_plugin;
mod lab;
mod leading_flags;
mod manifests;
mod plan;
mod plugin;
mod pod;
mod status;
mod traffic;
mod validate;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

/// The network quality of Kubernetes pods: bandwidth that is kept, and told about.
///
/// Data goes to standard output, messages to standard error.
#[derive(Debug, Parser)]
#[command(name = "netqos", version = netqos_version::VERSION, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 all is well, 1 something is not, 2 wrong usage or input, \
                        3 this machine cannot do it (the message says what to do)."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what this node can do and what is in force on it, or whether a cluster is such that netqos
    /// works there.
    Check(check::Arguments),
    /// Plays the kubelet's role: sets up, tears down or checks the network of one pod.
    #[command(subcommand)]
    Pod(pod::Command),
    /// Builds pods from Kubernetes YAML on this machine, and measures what they get.
    #[command(subcommand)]
    Lab(lab::Command),
    /// Measures goodput, latency and marks between two ends.
    #[command(subcommand)]
    Traffic(traffic::Command),
    /// Checks manifests as a cluster would, without one.
    Validate(validate::Arguments),
    /// Says what is wrong with the objects of a cluster, or with manifests.
    Analyze(analyze::Arguments),
    /// Says what one pod gets, and by whom.
    #[command(subcommand)]
    Describe(describe::Command),
    /// Says what the agent of this node has in force for each pod and each rule, or how things stand in a
    /// cluster.
    Status(status::Arguments),
    /// Says what an agent would enforce, from manifests.
    Plan(plan::Arguments),
    /// Says which rule decides about a packet and why, from manifests or a cluster's objects.
    Explain(explain::Arguments),
    /// Puts the CNI plugin bandwidth in place on this node, and out of it again.
    InstallPlugin(install_plugin::Arguments),
    /// Removes everything of netqos from this node.
    Cleanup(cleanup::Arguments),
    /// Prints a completion script for a shell.
    #[command(after_help = "\
Examples:
  netqos completion bash > /etc/bash_completion.d/netqos
  netqos completion zsh > \"${fpath[1]}/_netqos\"
  netqos completion fish > ~/.config/fish/completions/netqos.fish")]
    Completion {
        /// Which shell.
        shell: Shell,
    },
    /// Prints the manual page.
    #[command(hide = true)]
    Man,
    /// Prints the version.
    Version,
}

fn main() -> ExitCode {
    output::exit_code(run())
}

fn run() -> ExitCode {
    let program = std::env::args_os().next();
    let as_plugin = plugin::is_meant(program.as_deref().map(Path::new));
    let mut command = Arguments::command();
    if as_plugin {
        command = plugin::named(command);
    }
    let given = command.get_matches_from(leading_flags::moved(std::env::args_os()));
    let arguments = Arguments::from_arg_matches(&given).unwrap_or_else(|why| why.exit());
    match arguments.command {
        Command::Check(arguments) => check::run(&arguments, as_plugin),
        Command::Pod(command) => pod::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Traffic(command) => traffic::run(&command),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Analyze(arguments) => analyze::run(&arguments, as_plugin),
        Command::Describe(command) => describe::run(&command, as_plugin),
        Command::Status(arguments) => status::run(&arguments, as_plugin),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::InstallPlugin(arguments) => install_plugin::run(&arguments),
        Command::Cleanup(arguments) => cleanup::run(&arguments),
        Command::Completion { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "netqos", &mut text);
            output::bytes(&text)
        }
        Command::Man => {
            let mut text = Vec::new();
            match clap_mangen::Man::new(Arguments::command()).render(&mut text) {
                Ok(()) => output::bytes(&text),
                Err(why) => output::failure(output::FAILED, &why),
            }
        }
        Command::Version => {
            println!("netqos {}", netqos_version::VERSION);
            ExitCode::SUCCESS
        }
    }
}
