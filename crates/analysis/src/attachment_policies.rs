//! The NetworkAttachmentPolicies that today's NetworkAttachmentDefinitions (NADs) need.
//!
//! Tenants write NADs and pods. So a policy lists plugin types and interfaces by their plain names alone. A NAD that needs
//! more (a device, which a plugin may take from the node, a path, a key that changes the node, a key that netqos does not
//! know, a pattern) is permitted by its digest, and a note says why. Another NAD cannot use that permission.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_api::npwg::{AttachmentNeeds, listed};
use netqos_core::ObjectName;
use netqos_core::objects::Pod;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::attachments::{needs, selections, selects_networks};
use crate::snapshot::{Found, Snapshot};

/// The label of each namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The most entries of a policy's lists, by its schema.
const ENTRIES: usize = 64;
const DIGESTS: usize = 256;
const SELECTED_VALUES: usize = 100;
/// The most characters of an interface or a device in a policy, by its schema.
const MOST_CHARACTERS: usize = 256;

/// The policies for the NADs of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePolicies {
    /// The namespace.
    pub namespace: String,
    /// The permissions that an administrator should read before the policies are applied. Tenants write parts of these
    /// texts.
    pub notes: Vec<String>,
    /// The NADs that none of these policies permits, and the reasons.
    pub not_permitted: Vec<String>,
    /// The policies. One has no room for everything that many NADs need.
    pub policies: Vec<Value>,
}

/// The permissions for one namespace.
#[derive(Default)]
struct Draft {
    permitted: BTreeSet<ObjectName>,
    plugin_types: BTreeSet<String>,
    masters: BTreeSet<String>,
    digests: BTreeSet<String>,
    /// Other namespaces whose pods select these NADs, each with the first selection and the number of others.
    open_to: BTreeMap<Arc<str>, (String, usize)>,
    notes: Vec<String>,
    not_permitted: Vec<String>,
}

/// Returns the policies that permit the NADs as they are now, by namespace; with a namespace: for that one
/// alone. Selections of pods in other namespaces open a namespace to them.
pub fn attachment_policies(snapshot: &Snapshot, namespace: Option<&str>) -> Vec<NamespacePolicies> {
    let mut drafts: BTreeMap<Arc<str>, Draft> = BTreeMap::new();
    let is_meant = |name: &ObjectName| namespace.is_none_or(|it| *it == *name.namespace);
    for (name, found) in snapshot.nads().filter(|(name, _)| is_meant(name)) {
        let draft = drafts.entry(name.namespace.clone()).or_default();
        draft.add(name, found);
    }
    for (pod, _) in snapshot.pods().filter(|(pod, _)| selects_networks(pod)) {
        let selections = selections(pod).into_iter().filter_map(|(_, it)| it.ok());
        for selection in selections.flatten() {
            let draft = drafts.get_mut(&selection.nad.namespace);
            if let Some(draft) = draft.filter(|it| it.permitted.contains(&selection.nad)) {
                draft.open_to(pod, &selection.nad);
            }
        }
    }
    let drafts = drafts.into_iter();
    drafts
        .map(|(namespace, draft)| draft.finish(&namespace))
        .collect()
}

impl Draft {
    fn add(&mut self, name: &ObjectName, found: &Found) {
        let needs = match (needs(found), &found.object) {
            (Some(needs), _) => needs,
            (None, Err(errors)) => {
                let why = format!("{name} cannot be read: {}", listed(errors, "; "));
                return self.not_permitted.push(why);
            }
            (None, Ok(_)) => {
                let why =
                    "has no spec.config: read the file of its name on the nodes, and permit that";
                return self.not_permitted.push(format!("{name} {why}"));
            }
        };
        if !is_plain(&name.namespace) {
            return self
                .not_permitted
                .push(format!("{name} is in no namespace that can exist"));
        }
        if !needs.refused.is_empty() {
            let refused = needs
                .refused
                .iter()
                .map(|(path, why)| format!("{path}: {why}"));
            let why = format!(
                "{name} needs a permission that no policy gives: {}",
                listed(refused, "; ")
            );
            return self.not_permitted.push(why);
        }
        self.permitted.insert(name.clone());
        if unread(&needs).next().is_none() {
            let values = |of: Vec<(String, String)>| of.into_iter().map(|(_, value)| value);
            self.plugin_types.extend(values(needs.plugin_types));
            self.masters.extend(values(needs.masters));
            return;
        }
        self.notes.push(format!(
            "{name} is permitted as a whole, by digest {}: {}",
            needs.digest,
            listed(unread(&needs).chain(plain(&needs)), "; ")
        ));
        self.digests.insert(needs.digest);
    }

    fn open_to(&mut self, pod: &Pod, nad: &ObjectName) {
        let of = &pod.id.name.namespace;
        if *of == nad.namespace || !is_plain(of) {
            return;
        }
        let first = || (format!("pod {} selects {nad}", pod.id.name), 0);
        let selections = self.open_to.entry(of.clone());
        selections
            .and_modify(|(_, others)| *others += 1)
            .or_insert_with(first);
    }

    fn finish(mut self, namespace: &str) -> NamespacePolicies {
        for (other, (first, others)) in &self.open_to {
            let others = match others {
                0 => String::new(),
                others => format!(", and {others} more selections"),
            };
            let note = format!("pods of namespace {other} may select each NAD: {first}{others}");
            self.notes.push(note);
        }
        NamespacePolicies {
            policies: self.policies(namespace),
            namespace: namespace.to_owned(),
            notes: self.notes,
            not_permitted: self.not_permitted,
        }
    }

    fn policies(&self, namespace: &str) -> Vec<Value> {
        let others: Vec<&str> = self.open_to.keys().map(|it| &**it).collect();
        let lists: [(&str, Vec<&str>, usize); 4] = [
            ("pluginTypes", texts(&self.plugin_types), ENTRIES),
            ("masters", texts(&self.masters), ENTRIES),
            ("digests", texts(&self.digests), DIGESTS),
            ("openTo", others, SELECTED_VALUES),
        ];
        let number = lists
            .iter()
            .map(|(_, list, most)| list.len().div_ceil(*most))
            .max();
        let policies = (0..number.unwrap_or_default()).map(|index| {
            let parts = lists.iter().filter_map(|(key, list, most)| {
                let part = list.chunks(*most).nth(index)?;
                let value = match *key {
                    "openTo" => json!({"matchExpressions": [
                        {"key": NAMESPACE_NAME, "operator": "In", "values": part},
                    ]}),
                    _ => json!(part),
                };
                Some(((*key).to_owned(), value))
            });
            let mut spec: Map<String, Value> = parts.collect();
            let selector = json!({"matchLabels": {NAMESPACE_NAME: namespace}});
            spec.insert("namespaceSelector".to_owned(), selector);
            // No namespace has a period in its name.
            let name = match index {
                0 => format!("nads.{namespace}"),
                index => format!("nads.{namespace}.{}", index + 1),
            };
            json!({
                "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkAttachmentPolicy",
                "metadata": {"name": name}, "spec": spec,
            })
        });
        policies.collect()
    }
}

fn texts(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

/// The needs that an administrator reads before they are permitted, the farthest-reaching first.
fn unread(needs: &AttachmentNeeds) -> impl Iterator<Item = String> {
    let paths = needs
        .host_paths
        .iter()
        .map(|(path, value)| format!("{path}: path {value:?}"));
    let keys = needs.host_keys.iter().map(|(path, key)| {
        format!("{path}: {key} changes the node's routes or packet filters, or reaches other pods")
    });
    let names = names(needs).filter(|it| !is_listed(it)).map(shown);
    let unknown = needs
        .unknown
        .iter()
        .map(|(path, why)| format!("{path}: {why}"));
    paths.chain(keys).chain(names).chain(unknown)
}

/// The other needs.
fn plain(needs: &AttachmentNeeds) -> impl Iterator<Item = String> {
    names(needs).filter(is_listed).map(shown)
}

/// What is needed, the keys that lead to it, and its name.
type Named<'n> = (&'static str, &'n String, &'n String);

const DEVICE: &str = "device";

/// Returns true if a policy lists the name. One that lists a device would let each NAD of the namespace take it.
fn is_listed((what, _, value): &Named<'_>) -> bool {
    *what != DEVICE && is_plain(value)
}

fn names(needs: &AttachmentNeeds) -> impl Iterator<Item = Named<'_>> {
    let kinds = [
        ("interface", &needs.masters),
        (DEVICE, &needs.devices),
        ("plugin type", &needs.plugin_types),
    ];
    let all = kinds.into_iter();
    all.flat_map(|(what, list)| list.iter().map(move |(path, value)| (what, path, value)))
}

fn shown((what, path, value): Named<'_>) -> String {
    format!("{path}: {what} {value:?}")
}

/// Returns true if a text means itself alone, to policies and in YAML: no pattern, and no path that leads out of another.
fn is_plain(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@+".contains(&byte);
    (1..=MOST_CHARACTERS).contains(&text.len())
        && text.bytes().all(is_usual)
        && !text.split('/').any(|part| part == "..")
}
