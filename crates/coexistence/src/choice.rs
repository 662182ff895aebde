//! Who is to enforce what.

use std::str::FromStr;

use netqos_core::Elsewhere;

use crate::{Concern, Finding, Neighbour, System};

/// Whether netqos enforces something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforce {
    /// Unless somebody else does.
    #[default]
    Auto,
    /// Whoever else does.
    Always,
    /// Never.
    Never,
}

/// What an administrator has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// For NetworkQoS objects.
    pub network_qos: Enforce,
    /// For the bandwidth annotations of pods.
    pub annotations: Enforce,
}

/// What is at work beside netqos, on a node or in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtWork {
    /// OVN-Kubernetes is there; and, where it is, whether it says that it enforces NetworkQoS.
    pub ovn_kubernetes: Option<Option<bool>>,
    /// Statuses of NetworkQoS are written as OVN-Kubernetes does.
    pub ovn_statuses: bool,
    /// Calico is there; and whether it limits pods, where it says so.
    pub calico: Option<Option<bool>>,
    /// Its eBPF data plane attaches programs in the way in which it limits no pods.
    pub calico_by_tc: bool,
    /// Cilium's bandwidth manager limits what pods send.
    pub cilium_egress: bool,
    /// It limits what they receive.
    pub cilium_ingress: bool,
    /// terway-qos is there.
    pub terway_qos: bool,
    /// koordlet is there.
    pub koordlet: bool,
    /// Whether netqos leaves a node's lines to koordlet, where that is told to divide them.
    pub koordlet_divides: Option<bool>,
    /// Koordinator's manager is there, which writes NodeSLO objects.
    pub koord_manager: bool,
}

impl AtWork {
    /// One more is.
    pub fn meet(&mut self, neighbour: Neighbour) {
        match neighbour {
            Neighbour::OvnKubernetes { network_qos } => {
                // Of several, one that says yes counts.
                let said = self.ovn_kubernetes.unwrap_or_default().max(network_qos);
                self.ovn_kubernetes = Some(said);
            }
            Neighbour::Calico { limits } => {
                let said = self.calico.unwrap_or_default().max(limits);
                self.calico = Some(said);
            }
            Neighbour::Koordlet => self.koordlet = true,
            Neighbour::KoordManager => self.koord_manager = true,
        }
    }

    /// All that one or the other says.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ovn_kubernetes: self.ovn_kubernetes.max(other.ovn_kubernetes),
            ovn_statuses: self.ovn_statuses || other.ovn_statuses,
            calico: self.calico.max(other.calico),
            calico_by_tc: self.calico_by_tc || other.calico_by_tc,
            cilium_egress: self.cilium_egress || other.cilium_egress,
            cilium_ingress: self.cilium_ingress || other.cilium_ingress,
            terway_qos: self.terway_qos || other.terway_qos,
            koordlet: self.koordlet || other.koordlet,
            koordlet_divides: self.koordlet_divides.max(other.koordlet_divides),
            koord_manager: self.koord_manager || other.koord_manager,
        }
    }

    /// True where OVN-Kubernetes enforces NetworkQoS: it is there, and says so, or, where it does not
    /// say, writes their statuses. Statuses alone may be what is left of one that is gone.
    pub fn ovn_enforces_network_qos(&self) -> bool {
        match self.ovn_kubernetes {
            Some(Some(said)) => said,
            Some(None) => self.ovn_statuses,
            None => false,
        }
    }

    /// True where Calico limits pods by their annotations, as far as is known, and removes other queues that it finds at the
    /// host's ends of their first interfaces.
    pub fn calico_limits(&self) -> bool {
        !self.calico_by_tc && self.calico.is_some_and(|said| said != Some(false))
    }
}

impl Choice {
    /// What netqos leaves to others on a node where these are at work.
    pub fn elsewhere(&self, at_work: &AtWork) -> Elsewhere {
        let others = |enforce, others: bool| match enforce {
            Enforce::Auto => others,
            Enforce::Always => false,
            Enforce::Never => true,
        };
        let both = at_work.ovn_kubernetes.is_some() || at_work.calico_limits();
        Elsewhere {
            every_policy: self.network_qos == Enforce::Never,
            policies: others(self.network_qos, at_work.ovn_enforces_network_qos()),
            ingress: others(self.annotations, both || at_work.cilium_ingress),
            egress: others(self.annotations, both || at_work.cilium_egress),
        }
    }

    /// What is to be said of that, in a stable order.
    pub fn findings(&self, at_work: &AtWork) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.network_qos == Enforce::Never {
            findings.push(Finding::told(Concern::NetworkQos));
        } else if at_work.ovn_enforces_network_qos() {
            let left = self.network_qos == Enforce::Auto;
            findings.push(Finding::ovn_network_qos(left));
        }
        if self.annotations == Enforce::Never {
            findings.push(Finding::told(Concern::Annotations));
        } else {
            let left = self.annotations == Enforce::Auto;
            if at_work.ovn_kubernetes.is_some() {
                findings.push(Finding::ovn_annotations(left));
            }
            if at_work.calico_limits() {
                let is_known = at_work.calico == Some(Some(true));
                findings.push(Finding::calico(left, is_known));
            }
            if at_work.cilium_egress || at_work.cilium_ingress {
                let (ingress, egress) = (at_work.cilium_ingress, at_work.cilium_egress);
                findings.push(Finding::cilium(left, ingress, egress));
            }
        }
        findings.extend(
            at_work
                .terway_qos
                .then(|| Finding::beside(System::TerwayQos)),
        );
        findings.extend(at_work.koordlet.then(|| match at_work.koordlet_divides {
            Some(left) => Finding::koordlet_divides(left),
            None => Finding::beside(System::Koordlet),
        }));
        findings
    }
}

impl FromStr for Enforce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            other => Err(format!("{other:?} is none of auto, always and never")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ovn(network_qos: Option<bool>, ovn_statuses: bool) -> AtWork {
        AtWork {
            ovn_kubernetes: Some(network_qos),
            ovn_statuses,
            ..AtWork::default()
        }
    }

    #[test]
    fn ovn_kubernetes_enforces_where_it_says_so_or_does_so_unsaid() {
        let stale = AtWork {
            ovn_statuses: true,
            ..AtWork::default()
        };
        for (at_work, enforces) in [
            (AtWork::default(), false),
            (ovn(Some(true), false), true),
            (ovn(Some(false), true), false),
            (ovn(None, false), false),
            (ovn(None, true), true),
            (stale, false),
        ] {
            assert_eq!(at_work.ovn_enforces_network_qos(), enforces, "{at_work:?}");
        }
        let mut at_work = ovn(None, false);
        let network_qos = Some(true);
        at_work.meet(Neighbour::OvnKubernetes { network_qos });
        at_work.meet(Neighbour::OvnKubernetes { network_qos: None });
        assert_eq!(at_work, ovn(Some(true), false));
        assert_eq!(AtWork::default().and(at_work), at_work);
    }

    #[test]
    fn what_others_do_is_left_to_them_unless_somebody_chose() {
        let both = AtWork {
            cilium_egress: true,
            koordlet: true,
            ..ovn(Some(true), false)
        };
        let choice = |network_qos, annotations| Choice {
            network_qos,
            annotations,
        };
        let auto = choice(Enforce::Auto, Enforce::Auto);
        let all = Elsewhere {
            every_policy: false,
            policies: true,
            ingress: true,
            egress: true,
        };
        assert_eq!(auto.elsewhere(&both), all);
        let cilium = AtWork {
            cilium_egress: true,
            ..AtWork::default()
        };
        let egress = Elsewhere {
            egress: true,
            ..Elsewhere::default()
        };
        assert_eq!(auto.elsewhere(&cilium), egress);
        for (limits, calico_by_tc, is_left) in [
            (None, false, true),
            (Some(true), false, true),
            (Some(true), true, false),
            (Some(false), false, false),
        ] {
            let mut calico = AtWork {
                calico_by_tc,
                ..AtWork::default()
            };
            calico.meet(Neighbour::Calico { limits });
            let annotations = Elsewhere {
                ingress: is_left,
                egress: is_left,
                ..Elsewhere::default()
            };
            assert_eq!(auto.elsewhere(&calico), annotations);
            assert_eq!(auto.findings(&calico).len(), usize::from(is_left));
        }
        let none = Elsewhere::default();
        assert_eq!(auto.elsewhere(&AtWork::default()), none);
        let always = choice(Enforce::Always, Enforce::Always);
        assert_eq!(always.elsewhere(&both), none);
        let never = choice(Enforce::Never, Enforce::Never);
        let everything = Elsewhere {
            every_policy: true,
            ..all
        };
        assert_eq!(never.elsewhere(&AtWork::default()), everything);

        let said = |choice: Choice, at_work: &AtWork| -> Vec<(Concern, bool)> {
            let findings = choice.findings(at_work).into_iter();
            findings.map(|it| (it.concern, it.is_left)).collect()
        };
        let (network_qos, annotations) = (Concern::NetworkQos, Concern::Annotations);
        assert_eq!(
            said(auto, &both),
            [
                (network_qos, true),
                (annotations, true),
                (annotations, true),
                (Concern::Beside, false)
            ]
        );
        assert_eq!(said(auto, &AtWork::default()), []);
        assert_eq!(
            said(always, &ovn(Some(true), false)),
            [(network_qos, false), (annotations, false)]
        );
        assert_eq!(
            said(never, &AtWork::default()),
            [(network_qos, true), (annotations, true)]
        );
    }
}
