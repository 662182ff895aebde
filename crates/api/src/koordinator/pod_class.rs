//! All that a pod says of its part of the line.

use std::collections::BTreeMap;

use netqos_core::Labels;
use netqos_core::classes::TrafficClass;

use super::class::{KubernetesClass, QOS_CLASS_LABEL, traffic_class};
use super::pod::{NETWORK_QOS_ANNOTATION, PodNetworkQos};

/// The class of a pod, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClass {
    /// By its label, or by what Kubernetes says of it.
    by_label: TrafficClass,
    /// It is its label that says it.
    is_labelled: bool,
    /// By its annotation.
    asked: PodNetworkQos,
    /// What cannot be read.
    unread: Unread,
}

/// What of a pod cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unread {
    label: bool,
    annotation: bool,
}

impl PodClass {
    /// Who says it where the pod does not ([`said_by`](Self::said_by)), in words.
    pub const KUBERNETES: &str = "Kubernetes' QoS class";

    /// What a pod says, and what is wrong with that. By itself, what cannot be read is not said.
    pub fn of(
        labels: &Labels,
        annotations: &BTreeMap<String, String>,
        kubernetes: Option<KubernetesClass>,
    ) -> (Self, Vec<String>) {
        let mut wrong = Vec::new();
        let mut unread = Unread::default();
        let (by_label, misspelt) = traffic_class(labels, kubernetes);
        if let Some(misspelt) = misspelt {
            unread.label = true;
            wrong.push(format!("metadata.labels[{QOS_CLASS_LABEL}]: {misspelt}"));
        }
        let label = labels.get(QOS_CLASS_LABEL);
        let is_labelled = !unread.label && label.is_some_and(|label| !label.is_empty());
        let text = annotations.get(NETWORK_QOS_ANNOTATION);
        let asked = match text.map(|text| PodNetworkQos::parse(text)) {
            None => PodNetworkQos::default(),
            Some(Ok(asked)) => asked,
            Some(Err(mistakes)) => {
                unread.annotation = true;
                wrong.extend(
                    mistakes
                        .iter()
                        .map(|it| format!("metadata.annotations.{it}")),
                );
                PodNetworkQos::default()
            }
        };
        let class = Self {
            by_label,
            is_labelled,
            asked,
            unread,
        };
        (class, wrong)
    }

    /// The class of its traffic: what its annotation says goes before its label.
    pub fn class(&self) -> TrafficClass {
        self.asked.class.unwrap_or(self.by_label)
    }

    /// The same, unless nobody but Kubernetes says it.
    pub fn said(&self) -> Option<TrafficClass> {
        { self.asked.class }.or(self.is_labelled.then_some(self.by_label))
    }

    /// Its annotation or label that says it, in words. `None`: nobody does but Kubernetes.
    pub fn said_by(&self) -> Option<String> {
        match self.asked.class {
            Some(_) => Some(format!("annotation {NETWORK_QOS_ANNOTATION}")),
            None => { self.is_labelled }.then(|| format!("label {QOS_CLASS_LABEL}")),
        }
    }

    /// What it asks for.
    pub fn asked(&self) -> &PodNetworkQos {
        &self.asked
    }

    /// The same, where what cannot be read is as it was `last`.
    #[must_use]
    pub fn or_last(mut self, last: Option<&Self>) -> Self {
        if let Some(last) = last {
            if self.unread.label {
                self.by_label = last.by_label;
                self.is_labelled = last.is_labelled;
            }
            if self.unread.annotation {
                self.asked = last.asked.clone();
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(label: &str, annotation: &str) -> (PodClass, Vec<String>) {
        let labels = Labels::from([(QOS_CLASS_LABEL.into(), label.into())]);
        let annotations = [(NETWORK_QOS_ANNOTATION.to_owned(), annotation.to_owned())];
        PodClass::of(
            &labels,
            &annotations.into(),
            Some(KubernetesClass::BestEffort),
        )
    }

    #[test]
    fn an_annotation_goes_before_a_label() {
        let (pod, wrong) = read("BE", r#"{"QoSClass": "LS", "egressLimit": "5M"}"#);
        assert_eq!(
            (pod.class(), wrong),
            (TrafficClass::LatencySensitive, vec![])
        );
        assert!(pod.asked().qos.egress.limit.is_some());
        assert_eq!(read("SYSTEM", "{}").0.class(), TrafficClass::System);
    }

    #[test]
    fn what_only_kubernetes_says_it_does_not_say_itself() {
        let l1 = Some(TrafficClass::LatencySensitive);
        for (label, annotation, said) in [
            ("", "{}", None),
            ("LLS", "{}", None),
            ("LS", "{}", l1),
            ("", r#"{"QoSClass": "LS"}"#, l1),
            ("BE", r#"{"QoSClass": "LS"}"#, l1),
        ] {
            let (pod, _) = read(label, annotation);
            assert_eq!(pod.said(), said, "{label} {annotation}");
        }
        // Its label was right last.
        let (last, now) = (read("LS", "{}").0, read("LLS", "{}").0);
        assert_eq!(now.or_last(Some(&last)).said(), l1);
    }

    #[test]
    fn what_cannot_be_read_is_told_of_and_is_as_it_was_last() {
        let (good, _) = read("LS", r#"{"egressLimit": "5M"}"#);
        let (label, wrong) = read("LLS", r#"{"egressLimit": "6M"}"#);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].starts_with("metadata.labels[koordinator.sh/qosClass]: \"LLS\" is no class"),
            "{wrong:?}"
        );
        assert_eq!(label.class(), TrafficClass::BestEffort);
        let now = label.clone().or_last(Some(&good));
        assert_eq!(now.class(), TrafficClass::LatencySensitive);
        assert_eq!(now.asked(), label.asked());
        assert_eq!(label.clone().or_last(None), label);

        let (annotation, wrong) = read("BE", "{");
        assert!(
            wrong[0].starts_with("metadata.annotations.koordinator.sh/networkQOS: is no JSON"),
            "{wrong:?}"
        );
        assert_eq!(annotation.asked(), &PodNetworkQos::default());
        let now = annotation.or_last(Some(&good));
        assert_eq!(now.class(), TrafficClass::BestEffort);
        assert_eq!(now.asked(), good.asked());
    }
}
