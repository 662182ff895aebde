//! `deploy/kustomize`, from the chart: what it renders to by itself is the base, and what it renders to
//! with something chosen, less the base, is a component. Overlays are for who chooses nothing else.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::chart::{Chart, NAMESPACE};
use crate::generated::Files;

/// Where it is.
pub const FOLDER: &str = "deploy/kustomize";

const HEADER: &str = "# Made from deploy/helm/netqos by `cargo xtask manifests`.\n";

/// A component: its name, and what is chosen for it.
pub fn components() -> Vec<(&'static str, Value)> {
    vec![
        ("cni-plugin", json!({"cniPlugin": {"install": true}})),
        ("monitoring", json!({"monitoring": {"enabled": true}})),
    ]
}

/// What is in all components by which it leaves.
fn leaving() -> Value {
    json!({"leaving": true})
}

/// Components that are not for every cluster, and so not with all: likewise.
pub fn optional() -> Vec<(&'static str, Value)> {
    let definition = json!({"nodeSlo": {"installDefinition": true}});
    let backend = |name: &str| json!({"agent": {"classBackends": [name]}});
    let scraped = json!({"monitoring": {"enabled": true, "operator": false}});
    vec![
        // Each mounts more of the node, and one needs another image.
        ("class-backend-tc", backend("tc")),
        ("class-backend-terway-qos", backend("terway-qos")),
        // Lets agents write an annotation of pods.
        (
            "multinet",
            json!({"multinet": {"enabled": true, "installCRD": false}}),
        ),
        // In place of `multinet`, where Multus is not.
        ("multinet-plugin", multinet_plugin()),
        (
            "network-definitions-by-label",
            json!({"multinet": {"restrictDefinitions": true}}),
        ),
        // Not where Koordinator is, which brings its own.
        ("node-slo-definition", definition),
        // In place of `monitoring`.
        ("monitoring-without-operator", scraped),
    ]
}

/// Components by which it leaves a cluster, each put over those with which it was installed, as the last:
/// its name, and what is chosen for it.
pub fn departures() -> Vec<(&'static str, Value)> {
    let with_plugin = json!({"leaving": true, "cniPlugin": {"install": true}});
    vec![
        ("leaving", leaving()),
        // Puts back the plugin that was there, too.
        ("leaving-cni-plugin", with_plugin),
    ]
}

/// What is put over one of those where it was installed with a component that needs more of the node: without that, what
/// it has made could not be taken away. Likewise.
pub fn departures_of_components() -> Vec<(&'static str, Value)> {
    let of = |name: &str| json!({"leaving": true, "agent": {"classBackends": [name]}});
    let mut multinet = multinet_plugin();
    multinet["leaving"] = true.into();
    vec![
        ("leaving-class-backend-tc", of("tc")),
        ("leaving-class-backend-terway-qos", of("terway-qos")),
        ("leaving-multinet-plugin", multinet),
    ]
}

/// What is chosen for netqos-multinet on nodes. Helm alone can tell whether a CRD is there.
fn multinet_plugin() -> Value {
    json!({"multinet": {"enabled": true, "install": true, "installCRD": false}})
}

/// Overlays by which it leaves: the name, what the overlay that it was installed with has, and the
/// component that is put over that.
pub fn leaving_overlays() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    let all = components().into_iter().map(|(name, _)| name).collect();
    vec![
        ("leaving", Vec::new(), "leaving"),
        ("leaving-all", all, "leaving-cni-plugin"),
    ]
}

/// The deletions from objects by which also goes what `multinet` or `multinet-plugin` has added, where one of them is below:
/// the kubelet and the runtime would make what is mounted again on each node.
fn leaves_with(chart: &Chart, chosen: &Value) -> anyhow::Result<BTreeMap<String, Value>> {
    let multinet = json!({"multinet": {"enabled": true, "installCRD": false}});
    let mut both = chosen.clone();
    both["multinet"] = multinet["multinet"].clone();
    let now = chart.objects(&both)?;
    let before = chart.objects(&multinet)?.into_iter();
    let gone = before.filter_map(|(object, before)| {
        let gone = removals(&before, now.get(&object)?)?;
        Some((object, gone))
    });
    Ok(gone.collect())
}

/// By what the items of a list are the same, as Kubernetes merges patches.
const KEYS: [(&str, &str); 5] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
];

/// Writes the folder, or compares it.
///
/// # Errors
/// A file cannot be written, or is not fresh; a component takes something away.
pub fn write(files: &Files, chart: &Chart) -> anyhow::Result<()> {
    let mut texts = chart.render(&json!({}))?.templates.clone();
    texts.insert("namespace.yaml".to_owned(), namespace());
    folder(files, "base", "Kustomization", texts, &[])?;

    let all = components().into_iter().chain(optional());
    let all = all.chain(departures());
    let all = all.map(|(name, chosen)| (name, chosen, json!({})));
    let further = departures_of_components().into_iter();
    let further = further.map(|(name, chosen)| (name, chosen, leaving()));
    for (name, chosen, already) in all.chain(further) {
        let plain = chart.objects(&already)?;
        let mut added = BTreeMap::new();
        let mut patches = Vec::new();
        let gone = match already == json!({}) && chosen["leaving"] == true {
            true => leaves_with(chart, &chosen)?,
            false => BTreeMap::new(),
        };
        for (file, text) in &chart.render(&chosen)?.templates {
            let objects = super::chart::objects(text)?;
            if objects.keys().all(|object| !plain.contains_key(object)) {
                // The component over which a further departure is put has these objects.
                if already != leaving() {
                    added.insert(file.clone(), text.clone());
                }
                continue;
            }
            for (object, now) in &objects {
                let before = plain.get(object);
                let before =
                    before.with_context(|| format!("{name}: {object} is new in {file}"))?;
                let patch = difference(before, now).with_context(|| format!("{name}: {object}"))?;
                let patch = match (patch, gone.get(object)) {
                    (Some(mut patch), Some(gone)) => {
                        merge(&mut patch, gone);
                        Some(patch)
                    }
                    (patch, _) => patch,
                };
                if let Some(mut patch) = patch {
                    for field in ["apiVersion", "kind"] {
                        patch[field] = now[field].clone();
                    }
                    for field in ["name", "namespace"] {
                        patch["metadata"][field] = now["metadata"][field].clone();
                    }
                    patches.push((format!("patch-{file}"), serde_saphyr::to_string(&patch)?));
                }
            }
        }
        folder(
            files,
            &format!("components/{name}"),
            "Component",
            added,
            &patches,
        )?;
    }

    let whole = format!(
        "{HEADER}# Everything that a cluster needs. Where somebody else has defined NetworkQoS:\n\
         # docs/install.md, \"By kubectl\".\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\n\
         kind: Kustomization\n\
         resources:\n- ../crds\n- base\n"
    );
    files.put(&format!("{FOLDER}/kustomization.yaml"), &whole)?;
    let names: String = components()
        .iter()
        .map(|(name, _)| format!("- ../../components/{name}\n"))
        .collect();
    let all = format!(
        "{HEADER}# With the CNI plugin, and monitoring by the Prometheus operator.\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\n\
         kind: Kustomization\n\
         resources:\n- ../../../crds\n- ../../base\n\
         components:\n{names}"
    );
    files.put(&format!("{FOLDER}/overlays/all/kustomization.yaml"), &all)?;
    for (name, installed, leaves) in leaving_overlays() {
        let names = installed.iter().chain([&leaves]);
        let names: String = names
            .map(|name| format!("- ../../components/{name}\n"))
            .collect();
        let overlay = format!(
            "{HEADER}# Takes it off a cluster, definitions and their objects excepted: docs/operate.md.\n\
             apiVersion: kustomize.config.k8s.io/v1beta1\n\
             kind: Kustomization\n\
             resources:\n- ../../base\n\
             components:\n{names}"
        );
        let path = format!("{FOLDER}/overlays/{name}/kustomization.yaml");
        files.put(&path, &overlay)?;
    }
    Ok(())
}

/// Writes a folder with its list.
fn folder(
    files: &Files,
    name: &str,
    kind: &str,
    texts: BTreeMap<String, String>,
    patches: &[(String, String)],
) -> anyhow::Result<()> {
    let version = match kind {
        "Component" => "v1alpha1",
        _ => "v1beta1",
    };
    let mut list = format!("{HEADER}apiVersion: kustomize.config.k8s.io/{version}\nkind: {kind}\n");
    if !texts.is_empty() {
        list.push_str("resources:\n");
    }
    for file in texts.keys() {
        list.push_str(&format!("- {file}\n"));
    }
    if !patches.is_empty() {
        list.push_str("patches:\n");
    }
    for (file, _) in patches {
        list.push_str(&format!("- path: {file}\n"));
    }
    let patches = patches.iter().cloned();
    let mut names = BTreeSet::from(["kustomization.yaml".to_owned()]);
    for (file, text) in texts.into_iter().chain(patches) {
        files.put(
            &format!("{FOLDER}/{name}/{file}"),
            &format!("{HEADER}{text}"),
        )?;
        names.insert(file);
    }
    files.put(&format!("{FOLDER}/{name}/kustomization.yaml"), &list)?;
    files.only(&format!("{FOLDER}/{name}"), &names)
}

/// Helm is told to make it; its label says that the agent may do what it has to.
fn namespace() -> String {
    format!(
        "apiVersion: v1\n\
         kind: Namespace\n\
         metadata:\n  \
           name: {NAMESPACE}\n  \
           labels:\n    \
             app.kubernetes.io/name: netqos\n    \
             pod-security.kubernetes.io/enforce: privileged\n"
    )
}

/// What is to be merged into the one to get the other; `None` where they are the same. What goes is null.
///
/// # Errors
/// An item of a list would have to be taken away.
fn difference(before: &Value, now: &Value) -> anyhow::Result<Option<Value>> {
    let (Value::Object(old), Value::Object(new)) = (before, now) else {
        return Ok((before != now).then(|| now.clone()));
    };
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut patch: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in new {
        let change = match old.get(name) {
            None => Some(value.clone()),
            Some(was) => match KEYS.iter().find(|(list, _)| list == name) {
                Some((_, key)) => items(was, value, key).with_context(|| name.clone())?,
                None => difference(was, value).with_context(|| name.clone())?,
            },
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    Ok((!patch.is_empty()).then_some(Value::Object(patch)))
}

/// The same for lists whose items have a key.
fn items(before: &Value, now: &Value, key: &str) -> anyhow::Result<Option<Value>> {
    let (Value::Array(old), Value::Array(new)) = (before, now) else {
        bail!("no list")
    };
    if let Some(gone) = old
        .iter()
        .find(|it| new.iter().all(|other| other[key] != it[key]))
    {
        bail!("{} goes, which a component cannot say", gone[key]);
    }
    let mut patch = Vec::new();
    for item in new {
        match old.iter().find(|other| other[key] == item[key]) {
            None => patch.push(item.clone()),
            Some(was) => {
                if let Some(mut change) = difference(was, item)? {
                    change[key] = item[key].clone();
                    patch.push(change);
                }
            }
        }
    }
    Ok((!patch.is_empty()).then_some(Value::Array(patch)))
}

/// The items of lists that are no longer there, as a patch that deletes them, also where they were never there.
fn removals(before: &Value, now: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, now) else {
        return None;
    };
    let mut patch = Map::new();
    for (name, was) in old {
        let Some(value) = new.get(name) else { continue };
        let removed = match KEYS.iter().find(|(list, _)| list == name) {
            Some((_, key)) => removed_items(was, value, key),
            None => removals(was, value),
        };
        patch.extend(removed.map(|removed| (name.clone(), removed)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn removed_items(before: &Value, now: &Value, key: &str) -> Option<Value> {
    let now = now.as_array()?;
    let removed = before.as_array()?.iter().filter_map(|item| {
        match now.iter().find(|other| other[key] == item[key]) {
            None => Some(json!({"$patch": "delete", key: item[key]})),
            Some(other) => {
                let mut patch = removals(item, other)?;
                patch[key] = item[key].clone();
                Some(patch)
            }
        }
    });
    let removed: Vec<Value> = removed.collect();
    (!removed.is_empty()).then_some(Value::Array(removed))
}

/// Adds a patch to another one.
fn merge(patch: &mut Value, more: &Value) {
    let (Value::Object(fields), Value::Object(more)) = (patch, more) else {
        return;
    };
    for (name, value) in more {
        let key = KEYS.iter().find(|(list, _)| list == name);
        match (fields.get_mut(name), value, key) {
            (Some(Value::Array(items)), Value::Array(more), Some((_, key))) => {
                for item in more {
                    match items.iter_mut().find(|other| other[*key] == item[*key]) {
                        Some(other) => merge(other, item),
                        None => items.push(item.clone()),
                    }
                }
            }
            (Some(field), value, _) => merge(field, value),
            (None, value, _) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}
