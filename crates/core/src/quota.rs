//! What the owner of a cluster lets the owners of its namespaces ask for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::{BitRate, Dscp, LabelSelector, Labels, Policy, Priority};

/// Bounds for the policies of some namespaces (`NetworkQoSQuota`). A policy has to keep to all that
/// are for its namespace, or nothing of it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its name.
    pub name: Arc<str>,
    /// Which namespaces it is for.
    pub namespaces: LabelSelector,
    /// The least priority that a policy may have.
    pub min_priority: Priority,
    /// The highest one.
    pub max_priority: Priority,
    /// The highest rate that a rule may have, and an interface of a pod. `None`: any. Without a rate neither is bounded.
    pub max_rate: Option<BitRate>,
    /// The marks that a rule may have. `None`: any. Rules without one are not bounded.
    pub dscp: Option<BTreeSet<Dscp>>,
    /// How many rules a policy may have. `None`: as many as any.
    pub max_rules: Option<u16>,
}

/// A field of a policy that asks for more than a quota allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Excess {
    /// The field of the object: `spec.egress[0].bandwidth.rate`.
    pub field: String,
    /// The quota.
    pub quota: Arc<str>,
    /// What it asks for, and what is allowed.
    pub message: String,
}

impl Quota {
    /// A quota for all namespaces that bounds nothing.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            namespaces: LabelSelector::everything(),
            min_priority: Priority::default(),
            max_priority: Priority::MAX,
            max_rate: None,
            dscp: None,
            max_rules: None,
        }
    }

    /// True when it is for the policies of a namespace with these labels.
    pub fn is_for(&self, namespace: &Labels) -> bool {
        self.namespaces.matches(namespace)
    }

    /// What a policy asks for and may not. Nothing: it keeps to this quota.
    pub fn excesses(&self, policy: &Policy) -> Vec<Excess> {
        let mut excesses = Vec::new();
        let mut beyond = |field: String, message: String| {
            excesses.push(Excess {
                field,
                quota: self.name.clone(),
                message,
            });
        };
        let asked = policy.priority.get();
        let (least, most) = (self.min_priority.get(), self.max_priority.get());
        if !(least..=most).contains(&asked) {
            beyond(
                "spec.priority".to_owned(),
                format!("{asked} is not between {least} and {most}"),
            );
        }
        let rules = policy.rules.len();
        if let Some(most) = self.max_rules.filter(|most| rules > usize::from(*most)) {
            beyond(
                "spec.egress".to_owned(),
                format!("{rules} rules are more than {most}"),
            );
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            if let (Some(dscp), Some(allowed)) = (rule.dscp, &self.dscp)
                && !allowed.contains(&dscp)
            {
                let allowed: Vec<String> = allowed.iter().map(Dscp::to_string).collect();
                let allowed = match allowed.is_empty() {
                    true => "no mark is".to_owned(),
                    false => format!("only {} are", allowed.join(", ")),
                };
                beyond(
                    format!("spec.egress[{index}].dscp"),
                    format!("{dscp} is not allowed, {allowed}"),
                );
            }
            let rate = rule.bandwidth.map(|bandwidth| bandwidth.rate);
            if let (Some(rate), Some(most)) = (rate, self.max_rate)
                && rate > most
            {
                beyond(
                    format!("spec.egress[{index}].bandwidth.rate"),
                    format!("{rate} is more than {most}"),
                );
            }
        }
        excesses
    }
}

/// What a policy of a namespace with these labels asks for and may not by any of these quotas, by
/// field. Nothing: it may be in force. The webhook and the index say the same, because both ask here.
pub fn excesses<'q>(
    policy: &Policy,
    namespace: &Labels,
    quotas: impl IntoIterator<Item = &'q Quota>,
) -> Vec<Excess> {
    let quotas = quotas.into_iter().filter(|quota| quota.is_for(namespace));
    let mut excesses: Vec<Excess> = quotas.flat_map(|quota| quota.excesses(policy)).collect();
    excesses.sort();
    excesses
}

impl fmt::Display for Excess {
    /// `spec.priority: 90 is not between 0 and 50 (NetworkQoSQuota tenants)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            quota,
            message,
        } = self;
        write!(f, "{field}: {message} (NetworkQoSQuota {quota})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bandwidth, Mode, NetworkChoice, ObjectName, Rule};

    fn policy() -> Policy {
        let rule = |dscp, kilobits: Option<u64>| Rule {
            to: vec![],
            ports: vec![],
            dscp: Dscp::try_new(dscp).ok(),
            bandwidth: kilobits.map(|kilobits| Bandwidth {
                rate: BitRate::from_bits_per_second(kilobits * 1000),
                burst: None,
            }),
            mode: Mode::Enforce,
        };
        Policy {
            name: ObjectName::new("games", "qos"),
            priority: Priority::try_new(50).unwrap(),
            networks: NetworkChoice::Default,
            pods: LabelSelector::everything(),
            // The second neither marks nor has a rate.
            rules: vec![rule(46, Some(1000)), rule(-1, None)],
        }
    }

    #[test]
    fn each_bound_names_the_field_that_passes_it_and_lets_pass_what_is_on_it() {
        let priority = |value| Priority::try_new(value).unwrap();
        let rate = |kilobits: u64| Some(BitRate::from_bits_per_second(kilobits * 1000));
        let marks = |marks: &[i64]| {
            let marks = marks.iter().map(|mark| Dscp::try_new(*mark).unwrap());
            Some(marks.collect())
        };
        let quota = Quota::new("tenants");
        let on_it = Quota {
            min_priority: priority(50),
            max_priority: priority(50),
            max_rate: rate(1000),
            dscp: marks(&[46]),
            max_rules: Some(2),
            ..quota.clone()
        };
        assert_eq!(quota.excesses(&policy()), []);
        assert_eq!(on_it.excesses(&policy()), []);
        for (quota, says) in [
            (
                Quota {
                    max_priority: priority(49),
                    ..on_it.clone()
                },
                "spec.priority: 50 is not between 50 and 49 (NetworkQoSQuota tenants)",
            ),
            (
                Quota {
                    min_priority: priority(51),
                    max_priority: priority(100),
                    ..on_it.clone()
                },
                "spec.priority: 50 is not between 51 and 100 (NetworkQoSQuota tenants)",
            ),
            (
                Quota {
                    max_rate: rate(999),
                    ..on_it.clone()
                },
                "spec.egress[0].bandwidth.rate: 1 Mbit/s is more than 999 kbit/s (NetworkQoSQuota \
                 tenants)",
            ),
            (
                Quota {
                    dscp: marks(&[0, 10]),
                    ..on_it.clone()
                },
                "spec.egress[0].dscp: 46 is not allowed, only 0, 10 are (NetworkQoSQuota tenants)",
            ),
            (
                Quota {
                    dscp: marks(&[]),
                    ..on_it.clone()
                },
                "spec.egress[0].dscp: 46 is not allowed, no mark is (NetworkQoSQuota tenants)",
            ),
            (
                Quota {
                    max_rules: Some(1),
                    ..on_it
                },
                "spec.egress: 2 rules are more than 1 (NetworkQoSQuota tenants)",
            ),
        ] {
            let excesses = quota.excesses(&policy());
            let told: Vec<String> = excesses.iter().map(Excess::to_string).collect();
            assert_eq!(told, [says]);
        }
    }

    #[test]
    fn all_quotas_for_the_namespace_count_and_no_others() {
        let of = |name: &str, tier: &str| Quota {
            namespaces: LabelSelector::new([crate::Requirement::equals("tier", tier)]),
            max_rules: Some(0),
            ..Quota::new(name)
        };
        let quotas = [of("b", "own"), of("a", "own"), of("c", "shared")];
        let own = Labels::from([("tier".into(), "own".into())]);
        let told = excesses(&policy(), &own, &quotas);
        let names: Vec<&str> = told.iter().map(|excess| &*excess.quota).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(excesses(&policy(), &Labels::new(), &quotas), []);
    }
}
