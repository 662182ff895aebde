//! An older version is replaced by this one, and this one by the older.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::context::{Context, NETQOS, eventually};
use crate::faults::{no_packet_unmarked, still_limited};
use crate::install::{self, deployed, rolled_out};
use crate::leave;

/// The values of the older version: the tag of its image, and one that is removed since.
const VALUES: &str = "image.tag=previous,otlp.endpoint=http://127.0.0.1:4318";

/// From the older version to this one, back, and here again, as docs/operate.md says; then it is removed.
pub fn and_back(context: &mut Context) -> anyhow::Result<String> {
    let previous = context.previous.clone().context("no --previous")?;
    let chart = previous.join("deploy/helm/netqos");
    install::chart(context, &chart, VALUES)?;
    let before = version(context, "")?;
    let mut versions = vec![before.clone()];
    let mut packets = 0;
    type Change = fn(&Context) -> anyhow::Result<()>;
    for change in [first_upgrade as Change, rollback, upgrade] {
        packets += no_packet_unmarked(context, |context| {
            change(context)?;
            rolled_out(context)
        })?;
        still_limited(context)?;
        let last = versions.last().cloned().unwrap_or_default();
        versions.push(version(context, &last)?);
    }
    let after = &versions[1];
    ensure!(
        *after != before && versions[2] == before && versions[3] == *after,
        "versions in turn: {versions:?}"
    );
    leave::by_helm(context)?;
    Ok(format!(
        "{before} to {after}, back and again: {packets} packets, 0 unmarked, limits kept"
    ))
}

/// One that is refused for the removed value first. Not after the rollback: Helm has written the null of the upgrade into
/// the values of the revision before, too.
fn first_upgrade(context: &Context) -> anyhow::Result<()> {
    let refused = upgrade_with(context, "image.tag=").err();
    let refused = refused.context("a removed value was not refused")?;
    let refused = format!("{refused:#}");
    ensure!(refused.contains("otlp was removed"), "{refused}");
    upgrade(context)
}

fn upgrade(context: &Context) -> anyhow::Result<()> {
    upgrade_with(context, "image.tag=,otlp=null")
}

/// The clone's CRDs first.
fn upgrade_with(context: &Context, values: &str) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    let crds = deployed("crds");
    kubectl.run(&["apply", "--server-side", "--force-conflicts", "-k", &crds])?;
    let chart = deployed("helm/netqos");
    let release = ["upgrade", "netqos", &chart, "-n", NETQOS];
    let values = ["--reset-then-reuse-values", "--set", values];
    kubectl.helm(&[&release[..], &values].concat())?;
    Ok(())
}

/// The CRDs stay as they are.
fn rollback(context: &Context) -> anyhow::Result<()> {
    context
        .kubectl()
        .helm(&["rollback", "netqos", "-n", NETQOS])?;
    Ok(())
}

/// The version that all agents report, once it is another than this one.
fn version(context: &Context, other_than: &str) -> anyhow::Result<String> {
    eventually(Duration::from_secs(30), || {
        let version = reported(context)?;
        ensure!(version != other_than, "agents are still of {version}");
        Ok(version)
    })
}

fn reported(context: &Context) -> anyhow::Result<String> {
    let get = "get networkqosnodereports -o jsonpath={.items[*].agentVersion}";
    let of_agents = context.kubectl().line(get)?;
    let mut versions: Vec<&str> = of_agents.split_whitespace().collect();
    versions.dedup();
    ensure!(versions.len() == 1, "agents of {versions:?}");
    Ok(versions[0].to_owned())
}

/// Returns true for a directory that holds the files that [`and_back`] needs.
pub fn is_previous(directory: &Path) -> bool {
    directory.join("deploy/helm/netqos").is_dir() && directory.join("netqos.tar").is_file()
}
