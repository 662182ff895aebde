//! The project's own chores. `cargo xtask help` lists them.
#![forbid(unsafe_code)]

#[cfg(test)]
mod architecture;
mod bench;
mod crds;
mod generated;
#[cfg(test)]
mod image;
#[cfg(test)]
mod links;
mod manifests;
mod messages;
mod metrics;

use clap::{Parser, Subcommand};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The project's own chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Measures the bandwidth plugin beside the well-known one, and writes docs/benchmarks.md.
    Bench(bench::Arguments),
    /// Measures what rules per destination cost, and writes docs/benchmarks-rules.md.
    BenchRules(bench::rules::Arguments),
    /// Measures what the classes of a line give and cost, and writes docs/benchmarks-classes.md.
    BenchClasses(bench::classes::Arguments),
    /// Measures what agent and controller take in a large cluster, and writes docs/benchmarks-cluster.md.
    BenchCluster(bench::cluster::Arguments),
    /// Measures netqos-multinet beside Multus, and writes docs/benchmarks-multinet.md.
    BenchMultinet(bench::multinet::Arguments),
    /// Measures how fast the policy index is, and prints a table.
    BenchIndex(bench::index::Arguments),
    /// Measures how fast the controller finds out who is a peer, and prints a table.
    BenchPeers(bench::peers::Arguments),
    /// Writes deploy/crds from the types of crates/k8s.
    Crds(generated::Arguments),
    /// Writes the chart's values, and deploy/kustomize as Helm renders the chart's templates.
    Manifests(generated::Arguments),
    /// Writes docs/messages.md from the codes of crates/analysis.
    Messages(generated::Arguments),
    /// Writes docs/metrics.md's table, alerts and the dashboard, held to the registry of metrics.
    Metrics(generated::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::BenchRules(arguments) => bench::rules::run(&arguments),
        Chore::BenchClasses(arguments) => bench::classes::run(&arguments),
        Chore::BenchCluster(arguments) => bench::cluster::run(&arguments),
        Chore::BenchMultinet(arguments) => bench::multinet::run(&arguments),
        Chore::BenchIndex(arguments) => bench::index::run(&arguments),
        Chore::BenchPeers(arguments) => bench::peers::run(&arguments),
        Chore::Crds(arguments) => crds::run(arguments),
        Chore::Manifests(arguments) => manifests::run(arguments),
        Chore::Messages(arguments) => messages::run(arguments),
        Chore::Metrics(arguments) => metrics::run(arguments),
    }
}
