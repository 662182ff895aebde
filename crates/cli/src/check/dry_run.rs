//! Whether the API server would accept this version's CRDs.

use std::collections::BTreeMap;

use netqos_cluster::{WriteError, dry_run};

use super::line::Line;
use crate::cluster::Cluster;

/// The CRDs that the API server refuses, by name, each with its reason.
pub type Refused = BTreeMap<String, String>;

/// The remedy for a CRD that the API server refuses.
pub const OTHER_VERSION: &str = "install a netqos release that supports this Kubernetes version \
                                 (docs/install.md), and report this message";

/// Applies each CRD as a dry run, which changes nothing.
///
/// # Errors
/// Returns an error if a request fails for another reason than the CRD, such as missing permissions.
pub fn refused(cluster: &Cluster) -> Result<Refused, WriteError> {
    let mut refused = Refused::new();
    for definition in netqos_k8s::definitions() {
        let crd = definition
            .crd()
            .map_err(|error| WriteError::Failed(error.to_string()))?;
        if let Some(reason) = cluster.wait(dry_run(cluster.client(), "netqos-check", &crd))? {
            refused.insert(definition.name(), reason);
        }
    }
    Ok(refused)
}

/// One line for all CRDs, before an installation.
pub fn look(cluster: &Cluster) -> Vec<Line> {
    const WHAT: &str = "CRDs";
    match refused(cluster) {
        Ok(refused) if refused.is_empty() => {
            let text = "the API server accepts all of them (dry run)";
            vec![Line::ok(WHAT, text)]
        }
        Ok(refused) => refused
            .into_iter()
            .map(|(name, reason)| {
                let message = format!("the API server refuses {name}: {reason}");
                Line::failed(WHAT, message, OTHER_VERSION)
            })
            .collect(),
        Err(error) => {
            let message = format!("not tried: {error}");
            let remedy = "run it with a role that may patch customresourcedefinitions";
            vec![Line::warning(WHAT, message, remedy)]
        }
    }
}
