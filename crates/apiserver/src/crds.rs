//! `CustomResourceDefinition`s: what they serve.

use std::sync::Arc;

use netqos_k8s::{FieldError, ResourceSchema};
use serde_json::{Value, json};

use crate::resource::{Form, Resource, Storage};
use crate::state::State;
use crate::time::now;

/// What is wrong with a definition whose types are right.
pub(crate) fn check(definition: &Value) -> Vec<FieldError> {
    let spec = &definition["spec"];
    let mut errors = Vec::new();
    let mut wrong = |path: &str, message: String| errors.push(FieldError::new(path, message));
    let expected = format!(
        "{}.{}",
        text(&spec["names"]["plural"]),
        text(&spec["group"])
    );
    if definition["metadata"]["name"] != expected.as_str() {
        wrong(
            "metadata.name",
            format!("must be spec.names.plural+\".\"+spec.group: {expected}"),
        );
    }
    if !["Namespaced", "Cluster"].contains(&text(&spec["scope"])) {
        let message = format!("{} is none of Cluster, Namespaced", spec["scope"]);
        wrong("spec.scope", message);
    }
    let versions = spec["versions"].as_array();
    let stored = |version: &&Value| version["storage"] == true;
    if versions.into_iter().flatten().filter(stored).count() != 1 {
        wrong(
            "spec.versions",
            "must have exactly one version marked as storage version".into(),
        );
    }
    for (index, version) in versions.into_iter().flatten().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema["type"] != "object" {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema.type");
            wrong(
                &path,
                "must be object: the schema is a structural one".into(),
            );
        }
    }
    errors
}

/// Writes down that a definition is served, and under which names.
pub(crate) fn note_status(definition: &mut Value) {
    let kind = text(&definition["spec"]["names"]["kind"]).to_owned();
    let names = &mut definition["spec"]["names"];
    for (name, value) in [
        ("singular", kind.to_lowercase()),
        ("listKind", format!("{kind}List")),
    ] {
        if names[name].is_null() {
            names[name] = value.into();
        }
    }
    if definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let names = definition["spec"]["names"].clone();
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone());
    let status = &mut definition["status"];
    status["acceptedNames"] = names;
    if status["conditions"].is_null() {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now(),
            })
        };
        status["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ]);
    }
    let had = status["storedVersions"].as_array().cloned();
    let mut versions = had.unwrap_or_default();
    versions.extend(stored.filter(|version| !versions.contains(version)));
    status["storedVersions"] = versions.into();
}

/// Serves what a definition says, from now on.
pub(crate) fn serve(state: &mut State, definition: &Value) {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    let resources = served.map(|version| Resource {
        group: text(&spec["group"]).to_owned(),
        version: text(&version["name"]).to_owned(),
        plural: text(&names["plural"]).to_owned(),
        singular: text(&names["singular"]).to_owned(),
        kind: text(&names["kind"]).to_owned(),
        list_kind: text(&names["listKind"]).to_owned(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        status: !version["subresources"]["status"].is_null(),
        generation: true,
        selectable: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        storage: Storage {
            group: text(&spec["group"]).to_owned(),
            plural: text(&names["plural"]).to_owned(),
        },
        form: Form::Custom(Arc::new(ResourceSchema::new(
            version["schema"]["openAPIV3Schema"].clone(),
        ))),
    });
    let resources = resources.collect();
    state
        .registry
        .replace(text(&spec["group"]), text(&names["plural"]), resources);
}

/// Serves it no more: its objects go with it.
pub(crate) fn withdraw(state: &mut State, definition: &Value) {
    let group = text(&definition["spec"]["group"]);
    let plural = text(&definition["spec"]["names"]["plural"]);
    if let Some(resource) = state.registry.any_version(group, plural) {
        let objects = state.store.objects(&resource.storage, None);
        let keys: Vec<_> = objects.map(|object| object.key.clone()).collect();
        for key in keys {
            state.end(&resource, &key);
        }
    }
    state.registry.replace(group, plural, Vec::new());
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|one| text(one).to_owned()).collect()
}
