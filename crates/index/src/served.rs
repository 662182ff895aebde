//! Behind the Services of which namespaces those are that policies mean.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::{Destination, IpBlock, Policy, Rule};

use crate::namespaces::Namespaces;

/// The namespaces whose Services decide what rules mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// These.
    In(BTreeSet<Arc<str>>),
    /// Any: what stands behind a Service is compared with addresses or ports, wherever it is.
    All,
}

impl Default for Served {
    fn default() -> Self {
        Self::In(BTreeSet::new())
    }
}

impl Served {
    /// Adds those of a policy.
    pub(crate) fn add(&mut self, policy: &Policy, namespaces: &Namespaces) {
        for rule in &policy.rules {
            if rule.to.is_empty() && has_port(rule) {
                *self = Self::All;
            }
            for destination in &rule.to {
                self.add_destination(policy, rule, destination, namespaces);
            }
        }
    }

    fn add_destination(
        &mut self,
        policy: &Policy,
        rule: &Rule,
        destination: &Destination,
        namespaces: &Namespaces,
    ) {
        let chosen = match destination {
            // A virtual address is as good as what stands behind it.
            Destination::Anywhere if !has_port(rule) => Some(Vec::new()),
            Destination::Block(block) if !has_port(rule) && is_everything(block) => {
                Some(Vec::new())
            }
            Destination::Anywhere | Destination::Block(_) => None,
            Destination::Pods(selector) => match &selector.namespaces {
                None => Some(vec![policy.name.namespace.clone()]),
                Some(selector) => namespaces.chosen(selector),
            },
        };
        match (&mut *self, chosen) {
            (Self::In(known), Some(chosen)) => known.extend(chosen),
            (_, None) => *self = Self::All,
            (Self::All, Some(_)) => {}
        }
    }
}

/// True where a rule tells apart ports: a Service may have another one than what stands behind it.
fn has_port(rule: &Rule) -> bool {
    rule.ports.iter().any(|it| it.port.is_some())
}

/// True of a block that has every address of its family.
fn is_everything(block: &IpBlock) -> bool {
    block.cidr().prefix_len() == 0 && block.except().is_empty()
}

#[cfg(test)]
mod tests {
    use netqos_core::{
        LabelSelector, Labels, Mode, NetworkChoice, ObjectName, PeerSelector, PortMatch, Priority,
        Protocol, Requirement,
    };

    use super::*;

    fn policy(to: Destination, port: Option<u16>) -> Policy {
        let port = PortMatch {
            protocol: Some(Protocol::Tcp),
            port: port.and_then(|it| it.try_into().ok()),
        };
        let rule = Rule {
            to: vec![to],
            ports: vec![port],
            dscp: None,
            bandwidth: None,
            mode: Mode::Enforce,
        };
        Policy {
            name: ObjectName::new("games", "p"),
            priority: Priority::default(),
            networks: NetworkChoice::Default,
            pods: LabelSelector::default(),
            rules: vec![rule],
        }
    }

    fn block(cidr: &str, except: &[&str]) -> Destination {
        let except = except.iter().map(|it| it.parse().unwrap()).collect();
        Destination::Block(IpBlock::try_new(cidr.parse().unwrap(), except).unwrap())
    }

    fn pods(namespaces: Option<LabelSelector>) -> Destination {
        Destination::Pods(PeerSelector {
            namespaces,
            pods: Some(LabelSelector::new([Requirement::equals("app", "db")])),
        })
    }

    #[test]
    fn only_selectors_say_whose_services_matter() {
        let mut namespaces = Namespaces::default();
        let shared = Labels::from([("tier".into(), "shared".into())]);
        namespaces.put("data".into(), shared.clone());
        namespaces.put("logs".into(), shared);
        namespaces.put("else".into(), Labels::new());
        let tier = || LabelSelector::new([Requirement::equals("tier", "shared")]);
        let names = |names: &[&str]| Served::In(names.iter().map(|it| Arc::from(*it)).collect());
        for (to, port, right) in [
            (Destination::Anywhere, None, names(&[])),
            (Destination::Anywhere, Some(443), Served::All),
            (block("0.0.0.0/0", &[]), None, names(&[])),
            (block("0.0.0.0/0", &[]), Some(443), Served::All),
            (block("0.0.0.0/0", &["10.0.0.0/8"]), None, Served::All),
            (block("10.0.0.0/8", &[]), None, Served::All),
            (pods(None), Some(443), names(&["games"])),
            (pods(Some(tier())), None, names(&["data", "logs"])),
            (pods(Some(LabelSelector::default())), None, Served::All),
        ] {
            let told = format!("{to:?}");
            let mut served = Served::default();
            served.add(&policy(to, port), &namespaces);
            assert_eq!(served, right, "{told}");
        }
    }
}
