//! `cargo xtask crds`: the definitions of our resources, for `kubectl apply -k deploy/crds`, and
//! their copies in the chart, which can name no file outside of itself.

use std::collections::BTreeSet;

use crate::generated::{Arguments, Files};

const FOLDER: &str = "deploy/crds";
/// What is another project's, for clusters that do not have it.
const KOORDINATORS: &str = "deploy/crds/koordinator";
/// What the library reads.
const CHECKED_IN: &str = "crates/k8s/src/crds";
const IN_CHART: &str = "deploy/helm/netqos/crds";

/// Writes the files, or compares them.
///
/// # Errors
/// A file cannot be written, or is not fresh.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let files = Files::of("crds", arguments);
    let (mut names, mut checked_in) = (BTreeSet::new(), BTreeSet::new());
    for definition in netqos_k8s::definitions() {
        let (name, text) = (definition.file(), definition.yaml()?);
        files.put(&format!("{FOLDER}/{name}"), &text)?;
        files.put(&format!("{IN_CHART}/{name}"), &text)?;
        names.insert(name);
        let name = definition.json_file();
        files.put(&format!("{CHECKED_IN}/{name}"), &definition.json())?;
        checked_in.insert(name);
    }
    files.only(CHECKED_IN, &checked_in)?;
    files.only(IN_CHART, &names)?;
    let list: String = names.iter().map(|name| format!("- {name}\n")).collect();
    let kustomization = format!(
        "# Made by `cargo xtask crds`.\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\n\
         kind: Kustomization\n\
         resources:\n{list}"
    );
    files.put(&format!("{FOLDER}/kustomization.yaml"), &kustomization)?;
    names.extend(["kustomization.yaml", "koordinator"].map(str::to_owned));
    files.only(FOLDER, &names)?;
    // In a folder of its own, where `kubectl apply -k deploy/crds` does not look.
    let koordinators = netqos_k8s::node_slo_definition();
    let name = koordinators.file();
    files.put(&format!("{KOORDINATORS}/{name}"), &koordinators.yaml()?)?;
    files.only(KOORDINATORS, &BTreeSet::from([name]))
}
