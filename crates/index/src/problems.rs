//! What of the objects is not as their users want it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use netqos_core::{NetworkKey, NetworkRef, ObjectName, ObjectRef, Policy, Problem, Reason};

use crate::chains::ChainKey;
use crate::index::Index;

/// The first pod and network on which a policy meets others of its priority, and those.
struct Conflict<'i> {
    pod: &'i ObjectName,
    network: &'i NetworkKey,
    others: BTreeSet<&'i ObjectName>,
}

impl Index {
    /// What was found wrong, sorted, as of the last [`Index::take_delta`].
    pub fn problems(&self) -> Vec<Problem> {
        let in_force = self.local.all_in_force();
        let mut problems: Vec<Problem> = in_force
            .flat_map(|(_, in_force)| in_force.problems.iter().cloned())
            .collect();
        problems.extend(self.missing_networks());
        problems.extend(self.beyond_quotas());
        problems.extend(self.conflicts());
        problems.sort();
        problems
    }

    fn missing_networks(&self) -> impl Iterator<Item = Problem> {
        self.cluster.policies.with_references().flat_map(|policy| {
            let missing = self.cluster.references.missing(&policy.networks);
            missing.map(|reference| Problem {
                object: ObjectRef::Policy(policy.name.clone()),
                reason: Reason::NetworkNotFound,
                message: match reference {
                    NetworkRef::Cluster(name) => {
                        format!("there is no cluster-wide network {name}; it is not in force there")
                    }
                    NetworkRef::Attachment(name) => format!(
                        "there is no network definition {name}; it is not in force there until \
                         there is one"
                    ),
                    _ => "a network that it refers to is not there".into(),
                },
            })
        })
    }

    fn beyond_quotas(&self) -> impl Iterator<Item = Problem> {
        self.cluster.policies.beyond_quotas().map(|entry| {
            let told: Vec<String> = entry.excesses.iter().map(ToString::to_string).collect();
            Problem {
                object: ObjectRef::Policy(entry.policy.name.clone()),
                reason: Reason::QuotaExceeded,
                message: format!("nothing of it is in force: {}", told.join("; ")),
            }
        })
    }

    fn conflicts(&self) -> Vec<Problem> {
        let mut conflicts: BTreeMap<&ObjectName, (&Policy, Conflict<'_>)> = BTreeMap::new();
        let mut pods: Vec<(&ObjectName, &ChainKey)> = Vec::new();
        for (key, in_force) in self.local.all_in_force() {
            let Some(entry) = self.cluster.pods.get(key) else {
                continue;
            };
            let keys = in_force.endpoints.values().flatten();
            pods.extend(keys.map(|key| (&entry.pod.id.name, &**key)));
        }
        pods.sort_by(|(a, one), (b, other)| (a, &one.network).cmp(&(b, &other.network)));
        // Pods with the same policies have the same conflicts, which are listed with the first of them.
        let mut seen = HashSet::new();
        pods.retain(|(_, key)| seen.insert(*key));
        for (pod, key) in pods {
            let policies = key.policies.iter();
            let policies: Vec<&Policy> = policies
                .filter_map(|key| Some(&self.cluster.policies.get(*key)?.policy))
                .filter(|policy| !policy.rules.is_empty())
                .collect();
            // They are in order of precedence, and so of priority.
            for equal in policies.chunk_by(|a, b| a.priority == b.priority) {
                for policy in equal.iter().filter(|_| equal.len() > 1) {
                    let (_, conflict) = conflicts.entry(&policy.name).or_insert_with(|| {
                        let conflict = Conflict {
                            pod,
                            network: &key.network,
                            others: BTreeSet::new(),
                        };
                        (policy, conflict)
                    });
                    let names = equal.iter().map(|other| &other.name);
                    conflict
                        .others
                        .extend(names.filter(|other| **other != policy.name));
                }
            }
        }
        let problems = conflicts.into_values();
        problems
            .map(|(policy, conflict)| conflict.problem(policy))
            .collect()
    }
}

impl Conflict<'_> {
    fn problem(&self, policy: &Policy) -> Problem {
        let others = self.others.iter().map(|name| name.to_string());
        let others = others.collect::<Vec<_>>().join(", ");
        let Self { pod, network, .. } = self;
        Problem {
            object: ObjectRef::Policy(policy.name.clone()),
            reason: Reason::Conflict,
            message: format!(
                "it has priority {}, and so has {others}, for the same pods (such as {pod} on \
                 network {network}): where both match, the smaller name wins; give them different \
                 priorities",
                policy.priority
            ),
        }
    }
}
