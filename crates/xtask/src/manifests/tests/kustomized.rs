//! kubectl renders `deploy/kustomize` to the same objects as Helm renders the chart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use netqos_kubernetes::Binaries;
use serde_json::{Value, json};

use super::super::chart::{NAMESPACE, objects};
use super::super::kustomize::{
    FOLDER, components, departures, departures_of_components, leaving_overlays, optional,
};
use super::{chart, chosen, everything};
use crate::generated::{read, root};

/// The objects that kubectl renders from a directory.
fn kubectl(folder: &str) -> BTreeMap<String, Value> {
    let made = Command::new(Binaries::tool("kubectl").unwrap())
        .arg("kustomize")
        .arg(root().join(folder))
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    objects(&String::from_utf8(made.stdout).unwrap()).unwrap()
}

#[test]
fn kustomize_and_the_chart_make_the_same_objects() {
    for (folder, chosen) in [
        (FOLDER.to_owned(), json!({})),
        (format!("{FOLDER}/overlays/all"), everything()),
    ] {
        let mut made = kubectl(&folder);
        assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
        let mut rendered = chart().objects(&chosen).unwrap();
        let crds = chart().render(&chosen).unwrap().crds.clone();
        assert_eq!(crds.len(), netqos_k8s::definitions().len());
        rendered.extend(crds.values().flat_map(|text| objects(text).unwrap()));
        assert_same(&folder, &made, &rendered);
    }
}

/// And of each node's pods those that put back the plugin do it before they clean up, as with the chart.
#[test]
fn kustomize_takes_it_off_a_cluster_as_the_chart_does() {
    for (name, mut components, leaves) in leaving_overlays() {
        let folder = format!("{FOLDER}/overlays/{name}");
        let mut made = kubectl(&folder);
        assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
        components.push(leaves);
        let rendered = chart().objects(&chosen(&components)).unwrap();
        assert_same(&folder, &made, &rendered);
        let steps = |objects: &BTreeMap<String, Value>| -> Vec<Value> {
            let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
            let lists = ["initContainers", "containers"].map(|list| pod[list].as_array().unwrap());
            let steps = lists.into_iter().flatten();
            steps.map(|step| step["command"].clone()).collect()
        };
        assert_eq!(steps(&made), steps(&rendered), "{folder}");
        let stays = json!(["/netqos", "cleanup", "--yes", "--stay"]);
        assert_eq!(steps(&made).last(), Some(&stays));
    }
}

/// What is not in an overlay: each component by itself over the base, and the definitions alone.
#[test]
fn kustomize_makes_of_every_component_what_the_chart_makes_of_its_values() {
    let all = components().into_iter().chain(optional());
    let all: BTreeMap<&str, Value> = all.chain(departures()).collect();
    let there = fs::read_dir(root().join(FOLDER).join("components")).unwrap();
    let there = there.map(|it| it.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.collect();
    let further = departures_of_components().into_iter();
    let further = further.map(|(name, _)| name);
    let named = all.keys().copied().chain(further);
    assert_eq!(there, named.map(ToOwned::to_owned).collect());
    for (name, chosen) in all {
        let made = own_folder("- {there}/base\n", &[name], "");
        assert_same(name, &made, &chart().objects(&chosen).unwrap());
    }
}

/// `multinet` has no departure of its own, and `multinet-plugin` one.
#[test]
fn directory_of_multinet_is_not_made_again_where_netqos_leaves() {
    for (components, values) in [
        (
            &["multinet", "leaving"][..],
            json!({"leaving": true, "multinet": {"enabled": true, "installCRD": false}}),
        ),
        (
            &["cni-plugin", "multinet", "leaving-cni-plugin"],
            json!({"leaving": true, "cniPlugin": {"install": true}, "multinet": {"enabled": true, "installCRD": false}}),
        ),
        (
            &["multinet-plugin", "leaving", "leaving-multinet-plugin"],
            json!({"leaving": true, "multinet": {"enabled": true, "install": true, "installCRD": false}}),
        ),
    ] {
        let made = own_folder("- {there}/base\n", components, "");
        let rendered = chart().objects(&values).unwrap();
        assert_same(&components.join(", "), &made, &rendered);
        for objects in [made, rendered] {
            let pod = objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"].to_string();
            assert!(!pod.contains("/var/lib/netqos/multinet"), "{pod}");
        }
    }
}

/// What kubectl makes of a folder elsewhere, as whoever installs it has one, but for the namespace. An
/// absolute path is refused there.
fn own_folder(resources: &str, components: &[&str], more: &str) -> BTreeMap<String, Value> {
    let folder = root().join(FOLDER).canonicalize().unwrap();
    let own = tempfile::tempdir().unwrap();
    let path = own.path().canonicalize().unwrap();
    let up = "../".repeat(path.components().count() - 1);
    let there = format!("{up}{}", folder.strip_prefix("/").unwrap().display());
    let components = components.iter();
    let components: String = components
        .map(|name| format!("- {there}/components/{name}\n"))
        .collect();
    let resources = resources.replace("{there}", &there);
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
         resources:\n{resources}components:\n{components}{more}"
    );
    fs::write(path.join("kustomization.yaml"), text).unwrap();
    let mut made = kubectl(path.to_str().unwrap());
    assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
    made
}

/// Its cleanup has the rights and mounts of the component, over each of the other departures.
#[test]
fn kustomize_takes_away_what_a_component_has_made() {
    let installed = [
        "class-backend-tc",
        "class-backend-terway-qos",
        "multinet-plugin",
    ];
    let departures = departures_of_components();
    assert_eq!(departures.len(), installed.len());
    for ((last, chosen), installed) in departures.into_iter().zip(installed) {
        for (leaving, plugin) in [
            ("leaving", None),
            ("leaving-cni-plugin", Some("cni-plugin")),
        ] {
            let components = plugin.into_iter().chain([installed, leaving, last]);
            let components: Vec<&str> = components.collect();
            let made = own_folder("- {there}/base\n", &components, "");
            let mut chosen = chosen.clone();
            chosen["cniPlugin"] = json!({"install": plugin.is_some()});
            assert_same(last, &made, &chart().objects(&chosen).unwrap());
            let pod = &made["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
            let cleans = |list: &str| {
                let steps = pod[list].as_array().unwrap().iter();
                let mut steps = steps.filter(|it| it["command"][1] == "cleanup");
                let step = steps.next().unwrap();
                sorted(&json!([step["securityContext"], step["volumeMounts"]]))
            };
            assert_eq!(cleans("initContainers"), cleans("containers"), "{last}");
            // What a pod that started meanwhile has is cleaned up in the end, whichever was first.
            let stays = json!(["/netqos", "cleanup", "--yes", "--stay"]);
            assert_eq!(pod["containers"][0]["command"], stays, "{last}");
            // From then on no pod is attached by what goes next.
            let first = &pod["initContainers"][0]["name"];
            assert_eq!(
                first == "install-multinet",
                installed == "multinet-plugin",
                "{first}"
            );
        }
    }
}

/// As docs/install.md has it, for clusters where NetworkQoS is somebody else's.
#[test]
fn kustomize_leaves_out_a_definition() {
    let page = read("docs/install.md").unwrap();
    let block = page.split("```").find(|it| it.contains("$patch: delete"));
    let (_, patch) = block.unwrap().split_once('\n').unwrap();
    let resources = "- {there}/../crds\n- {there}/base\n";
    let made = own_folder(resources, &["cni-plugin"], patch);
    let definitions = made.keys().filter(|it| it.starts_with("Custom"));
    let definitions: Vec<&String> = definitions.collect();
    assert_eq!(definitions.len(), netqos_k8s::definitions().len() - 1);
    assert!(!definitions.iter().any(|it| it.contains("k8s.ovn.org")));
    // Who leaves takes the folder of definitions out of it, and nothing else.
    let leaving = ["cni-plugin", "leaving-cni-plugin"];
    let left = own_folder("- {there}/base\n", &leaving, patch);
    assert!(left.contains_key("DaemonSet/netqos-agent"));
}

/// No folder is left out of what is made here.
#[test]
fn kustomize_takes_every_folder() {
    let folders = folders_with_a_kustomization(&root().join("deploy"));
    assert!(folders.len() > 10, "{folders:?}");
    for folder in folders {
        let text = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        // The test above, which puts them over the base.
        if text.contains("kind: Component") {
            continue;
        }
        let made = kubectl(folder.to_str().unwrap());
        assert!(!made.is_empty(), "{}", folder.display());
    }
}

fn folders_with_a_kustomization(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(folders_with_a_kustomization(&path));
        } else if path.ends_with("kustomization.yaml") {
            all.push(folder.to_owned());
        }
    }
    all
}

#[track_caller]
fn assert_same(folder: &str, made: &BTreeMap<String, Value>, rendered: &BTreeMap<String, Value>) {
    assert_eq!(
        made.keys().collect::<Vec<_>>(),
        rendered.keys().collect::<Vec<_>>(),
        "{folder}"
    );
    for (name, object) in rendered {
        // Kustomize sorts nothing that counts: lists of a patch come before those of the base.
        assert_eq!(sorted(&made[name]), sorted(object), "{folder}: {name}");
    }
}

/// With lists whose items have names in the order of those.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            if items.iter().all(|item| item["name"].is_string()) {
                items.sort_by_key(|item| (item["name"].to_string(), item["mountPath"].to_string()));
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}
