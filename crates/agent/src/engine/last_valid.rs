//! The last valid limits of pods whose annotations cannot be parsed.
//!
//! A running pod keeps them, per direction, until its annotations can be parsed or are removed. An
//! agent that starts while they cannot be parsed takes what the record of the pod's interface has,
//! which is what the agent before it, or the plugin, made.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use netqos_core::objects::Pod;
use netqos_core::{Direction, Limit, Limits, ObjectName, ObjectRef, Problem, Reason};
use netqos_index::Change;

const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// The last valid limits of a node's pods.
#[derive(Debug, Default)]
pub(super) struct LastValid {
    pods: HashMap<ObjectName, OfPod>,
    /// The pods whose record has to be read.
    unresolved: BTreeSet<ObjectName>,
}

#[derive(Debug)]
struct OfPod {
    uid: Arc<str>,
    ingress: Last,
    egress: Last,
    /// The pod as it was parsed, while an annotation of it is invalid.
    invalid: Option<Box<Pod>>,
}

/// The last valid limit of a direction.
#[derive(Clone, Copy, Debug, Default)]
enum Last {
    /// This agent has never parsed it.
    #[default]
    Unknown,
    /// `None`: not limited.
    Was(Option<Limit>),
}

impl LastValid {
    /// Gives a pod of this node its last valid limits in the directions whose annotations cannot be parsed.
    pub(super) fn retain(&mut self, pod: &mut Pod) {
        let name = pod.id.name.clone();
        let before = self.pods.remove(&name);
        let before = before.filter(|before| before.uid == pod.id.uid);
        let mut now = before.unwrap_or_else(|| OfPod {
            uid: pod.id.uid.clone(),
            ingress: Last::Unknown,
            egress: Last::Unknown,
            invalid: None,
        });
        for direction in DIRECTIONS {
            if !is_invalid(pod, direction) {
                *now.last_mut(direction) = Last::Was(pod.limits.of(direction));
            }
        }
        now.invalid = pod.invalid_limits.is_some().then(|| Box::new(pod.clone()));
        pod.limits = now.limits(pod);
        match now.is_unknown() {
            true => self.unresolved.insert(name.clone()),
            false => self.unresolved.remove(&name),
        };
        self.pods.insert(name, now);
    }

    /// A pod is gone, or of another node.
    pub(super) fn forget(&mut self, pod: &ObjectName, uid: &str) {
        if self.pods.get(pod).is_some_and(|it| &*it.uid == uid) {
            self.pods.remove(pod);
            self.unresolved.remove(pod);
        }
    }

    /// Takes what records have of pods that this agent has never parsed valid annotations of.
    /// `recorded` returns `None` for a pod without a known interface: it is asked again.
    pub(super) fn resolve(
        &mut self,
        mut recorded: impl FnMut(&ObjectName) -> Option<Limits>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let pods = &mut self.pods;
        self.unresolved.retain(|name| {
            let Some(of_pod) = pods.get_mut(name) else {
                return false;
            };
            let Some(limits) = recorded(name) else {
                return true;
            };
            for direction in DIRECTIONS {
                let last = of_pod.last_mut(direction);
                if matches!(last, Last::Unknown) {
                    *last = Last::Was(limits.of(direction));
                }
            }
            if let Some(pod) = &of_pod.invalid {
                let mut pod = Pod::clone(pod);
                pod.limits = of_pod.limits(&pod);
                changes.push(Change::Pod(pod));
            }
            false
        });
        changes
    }

    /// The problem, with the limit that the pod keeps where the annotations of a direction are invalid.
    pub(super) fn explain(&self, problem: &Problem) -> Problem {
        let mut explained = problem.clone();
        let (ObjectRef::Pod(name), Reason::InvalidBandwidth) = (&problem.object, problem.reason)
        else {
            return explained;
        };
        let of_pod = self.pods.get(name);
        let Some((of_pod, pod)) = of_pod.and_then(|it| Some((it, it.invalid.as_deref()?))) else {
            return explained;
        };
        let invalid = pod.invalid_limits.as_deref();
        // A problem of a manifest goes on with its place.
        let of = |direction: &Direction| {
            let message = invalid.and_then(|it| it.of(*direction));
            message.is_some_and(|message| problem.message.starts_with(message))
        };
        if let Some(direction) = DIRECTIONS.into_iter().find(of) {
            let kept = match (of_pod.last(direction), pod.limits.of(direction)) {
                (Last::Was(Some(limit)), _) => {
                    format!("keeps its last valid limit, {}", text(limit))
                }
                (_, Some(limit)) => format!("is limited to what can be parsed, {}", text(limit)),
                (_, None) => "has no limit from annotations".to_owned(),
            };
            let message = &mut explained.message;
            message.push_str(&format!("; until it is fixed {direction} {kept}"));
        }
        explained
    }
}

impl OfPod {
    const fn last(&self, direction: Direction) -> Last {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }

    const fn last_mut(&mut self, direction: Direction) -> &mut Last {
        match direction {
            Direction::Ingress => &mut self.ingress,
            Direction::Egress => &mut self.egress,
        }
    }

    fn is_unknown(&self) -> bool {
        let mut directions = DIRECTIONS.into_iter();
        directions.any(|direction| matches!(self.last(direction), Last::Unknown))
    }

    /// The limits of the pod. A rate without a burst that cannot be parsed is better than none.
    fn limits(&self, pod: &Pod) -> Limits {
        let limit = |direction| match self.last(direction) {
            Last::Was(Some(limit)) => Some(limit),
            _ => pod.limits.of(direction),
        };
        Limits {
            ingress: limit(Direction::Ingress),
            egress: limit(Direction::Egress),
        }
    }
}

fn is_invalid(pod: &Pod, direction: Direction) -> bool {
    let invalid = pod.invalid_limits.as_deref();
    invalid.is_some_and(|it| it.of(direction).is_some())
}

fn text(limit: Limit) -> String {
    let mut text = limit.rate.to_string();
    if let Some(burst) = limit.burst {
        text.push_str(&format!(", burst {burst}"));
    }
    if let Some(latency) = limit.latency {
        text.push_str(&format!(", latency {latency:?}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use netqos_core::BitRate;
    use netqos_k8s::{Object, objects_from_yaml};

    use super::*;

    const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
    const EGRESS: &str = "kubernetes.io/egress-bandwidth";
    const BURST: &str = "netqos.io/ingress-burst";
    const LATENCY: &str = "netqos.io/ingress-latency";

    /// A pod and its problems.
    fn pod(uid: &str, annotations: &[(&str, &str)]) -> (Pod, Vec<Problem>) {
        let annotations: Vec<String> = annotations
            .iter()
            .map(|(key, value)| format!("{key}: {value:?}"))
            .collect();
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: games, uid: {uid:?}, \
             annotations: {{{}}}}}\n",
            annotations.join(", ")
        );
        match objects_from_yaml(&text).remove(0).unwrap() {
            Object::Pod(pod, problems, _) => (*pod, problems),
            other => panic!("{other:?}"),
        }
    }

    /// The limits of a pod that changes so, in Mbit/s, and what its problems say.
    fn retained(
        last: &mut LastValid,
        uid: &str,
        annotations: &[(&str, &str)],
    ) -> ([Option<u64>; 2], Vec<String>) {
        let (mut pod, problems) = pod(uid, annotations);
        last.retain(&mut pod);
        let explained = problems.iter().map(|it| last.explain(it).message);
        (rates(&pod), explained.collect())
    }

    fn rates(pod: &Pod) -> [Option<u64>; 2] {
        let rate = |limit: Option<Limit>| limit.map(|it| it.rate.bits_per_second() / 1_000_000);
        [rate(pod.limits.ingress), rate(pod.limits.egress)]
    }

    #[test]
    fn invalid_direction_keeps_last_valid_limit_and_other_follows_annotation() {
        let mut last = LastValid::default();
        let limits = |last: &mut LastValid, annotations| retained(last, "1", annotations).0;
        let valid = [(INGRESS, "10M"), (EGRESS, "10M")];
        assert_eq!(limits(&mut last, &valid), [Some(10), Some(10)]);
        let (rates, problems) = retained(&mut last, "1", &[(INGRESS, "10Mbit"), (EGRESS, "20M")]);
        assert_eq!(rates, [Some(10), Some(20)]);
        let [problem] = &problems[..] else {
            panic!("{problems:?}")
        };
        assert!(problem.starts_with("annotation kubernetes.io/ingress-bandwidth: \"10Mbit\": "));
        let kept = "; until it is fixed ingress keeps its last valid limit, 10 Mbit/s";
        assert!(problem.ends_with(kept), "{problem}");
        // What was written while the other was invalid is its last valid limit.
        let both = [(INGRESS, "x"), (EGRESS, "y")];
        assert_eq!(limits(&mut last, &both), [Some(10), Some(20)]);
        // Removing an annotation is no mistake, and nothing is left to keep after it.
        assert_eq!(limits(&mut last, &[(EGRESS, "y")]), [None, Some(20)]);
        assert_eq!(limits(&mut last, &both), [None, Some(20)]);
        let fixed = [(INGRESS, "1M"), (EGRESS, "2M")];
        assert_eq!(limits(&mut last, &fixed), [Some(1), Some(2)]);
        // A pod of the same name is another one.
        assert_eq!(retained(&mut last, "2", &both).0, [None, None]);
        assert_eq!(limits(&mut last, &fixed), [Some(1), Some(2)]);
        last.forget(&ObjectName::new("games", "a"), "1");
        assert_eq!(limits(&mut last, &both), [None, None]);
    }

    #[test]
    fn invalid_burst_or_latency_keeps_whole_direction() {
        let mut last = LastValid::default();
        let valid = [(INGRESS, "10M"), (BURST, "1M"), (LATENCY, "40ms")];
        retained(&mut last, "1", &valid);
        for invalid in [(BURST, "lots"), (LATENCY, "1h")] {
            let (mut changed, problems) = pod("1", &[(INGRESS, "20M"), invalid]);
            last.retain(&mut changed);
            let limit = changed.limits.ingress.unwrap();
            assert_eq!(limit.rate, BitRate::from_bits_per_second(10_000_000));
            assert_eq!(limit.burst.map(|burst| burst.bytes()), Some(125_000));
            assert_eq!(limit.latency, Some(Duration::from_millis(40)));
            let message = last.explain(&problems[0]).message;
            assert!(
                message.ends_with("10 Mbit/s, burst 125 kB, latency 40ms"),
                "{message}"
            );
        }
        // Without a bandwidth the burst has nothing to say: the limit was removed.
        let (rates, problems) = retained(&mut last, "1", &[(BURST, "lots")]);
        assert_eq!(rates, [None, None]);
        assert!(!problems[0].contains("until it is fixed"), "{problems:?}");
    }

    #[test]
    fn first_annotations_invalid_set_what_can_be_parsed() {
        let mut last = LastValid::default();
        let (rates, problems) = retained(&mut last, "1", &[(INGRESS, "10Mbit"), (EGRESS, "5M")]);
        assert_eq!(rates, [None, Some(5)]);
        let kept = "; until it is fixed ingress has no limit from annotations";
        assert!(problems[0].ends_with(kept), "{problems:?}");
        let (rates, problems) = retained(&mut last, "2", &[(INGRESS, "10M"), (BURST, "lots")]);
        assert_eq!(rates, [Some(10), None]);
        let kept = "; until it is fixed ingress is limited to what can be parsed, 10 Mbit/s";
        assert!(problems[0].ends_with(kept), "{problems:?}");
    }

    #[test]
    fn record_is_read_where_no_valid_annotation_was_seen() {
        let rate = |megabits: u64| BitRate::from_bits_per_second(megabits * 1_000_000);
        let limit = |megabits| Some(Limit::of(rate(megabits)));
        let recorded = Limits {
            ingress: limit(10),
            egress: limit(10),
        };
        let mut last = LastValid::default();
        retained(&mut last, "1", &[(INGRESS, "10Mbit"), (EGRESS, "5M")]);
        assert_eq!(last.resolve(|_| None), []);
        let resolved = last.resolve(|_| Some(recorded));
        let [Change::Pod(resolved)] = &resolved[..] else {
            panic!("{resolved:?}")
        };
        assert_eq!(rates(resolved), [Some(10), Some(5)]);
        assert_eq!(last.resolve(|_| panic!("once")), []);
        let now = retained(&mut last, "1", &[(INGRESS, "x"), (EGRESS, "y")]);
        assert_eq!(now.0, [Some(10), Some(5)]);
        retained(&mut last, "1", &[]);
        assert_eq!(last.resolve(|_| panic!("never")), []);
    }
}
