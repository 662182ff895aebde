//! What a plan asks for and this backend does not do.

use std::sync::Arc;

use netqos_core::classes::{Ask, ClassPlan, ClassedPod, PartId, Share, TrafficClass};

use crate::Trouble;

/// What is said of a pod, or of flows of it.
pub(super) fn of_pod(uid: &Arc<str>, flow: Option<u16>, what: String) -> Trouble {
    Trouble {
        line: None,
        part: Some(PartId {
            pod: uid.clone(),
            flow,
        }),
        what,
    }
}

/// What is asked of the other direction, and of single flows.
pub(super) fn by_kind(plan: &ClassPlan) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for (line, shares) in &plan.lines {
        let ingress = shares.ingress;
        let is_open = |class| {
            class == TrafficClass::System || ingress.of(class) == Share::up_to(ingress.total)
        };
        if !TrafficClass::ALL.into_iter().all(is_open) {
            troubles.push(Trouble {
                line: Some(line.clone()),
                part: None,
                what: format!(
                    "tc divides what {line} sends; what comes to it is shared by nobody (the backend \
                     kernel does both)"
                ),
            });
        }
    }
    for (uid, pod) in &plan.pods {
        let name = &pod.id.name;
        if pod.asked.ingress != Ask::default() {
            let what = format!("{name}: tc holds no pod to anything of what comes to it");
            troubles.push(of_pod(uid, None, what));
        }
        for (number, _) in (0..).zip(&pod.flows) {
            let what = format!("{name}: tc has no parts of single flows");
            troubles.push(of_pod(uid, Some(number), what));
        }
    }
    troubles
}

/// A pod that nothing is known of by which its packets could be told.
pub(super) fn unplaced(uid: &Arc<str>, pod: &ClassedPod, why: &str) -> Option<Trouble> {
    let is_default = pod.class == TrafficClass::System && pod.asked.egress.is_nothing();
    (!is_default).then(|| {
        let what = format!("{}: {why}: what it sends is the system's", pod.id.name);
        of_pod(uid, None, what)
    })
}
