//! The command as a plugin of kubectl: under the name `kubectl-netqos` it is `kubectl netqos`, and asks
//! the cluster.

use std::path::Path;

use clap::Command;

/// What kubectl looks for.
const NAME: &str = "kubectl-netqos";
/// Commands about the machine that they run on, which an administrator's is not. They work all the same.
const OF_A_NODE: [&str; 5] = ["pod", "lab", "traffic", "plan", "install-plugin"];

/// What others say of themselves there.
const ABOUTS: [(&str, &str); 3] = [
    (
        "check",
        "Says whether a cluster is such that netqos works there, and whether what is installed is whole",
    ),
    (
        "status",
        "Says how things stand in a cluster: controllers, agents and what is in force",
    ),
    (
        "cleanup",
        "Removes everything of netqos from the machine that this is typed on, and from no other: \
         docs/operate.md says how netqos leaves a cluster",
    ),
];

/// True where the command was called by the name of the plugin.
pub fn is_meant(program: Option<&Path>) -> bool {
    let name = program.and_then(Path::file_name);
    name.is_some_and(|name| name == NAME)
}

/// The command, as it shows itself then.
pub fn named(command: Command) -> Command {
    let command = command.name(NAME).bin_name("kubectl netqos");
    command.mut_subcommands(of_kubectl)
}

fn of_kubectl(command: Command) -> Command {
    let hidden = OF_A_NODE.contains(&command.get_name());
    let about = ABOUTS.iter().find(|(name, _)| *name == command.get_name());
    let command = match about {
        Some((_, about)) => command.about(*about),
        None => command,
    };
    let after = command.get_after_help().map(|help| {
        let help = help.to_string();
        help.replace("  netqos ", "  kubectl netqos ")
            .replace("| netqos ", "| kubectl netqos ")
    });
    let command = match after {
        Some(after) => command.after_help(after),
        None => command,
    };
    let command = command.mut_subcommands(of_kubectl);
    match hidden {
        true => command.hide(true),
        false => command,
    }
}
