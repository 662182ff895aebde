//! What others on the node enforce is left to them.

use std::time::{Duration, Instant};

use netqos_coexistence::{AtWork, Lingering};
use netqos_core::{Elsewhere, ObjectRef, Problem};
use netqos_datapath::LimitDatapath;
use netqos_index::Change;

use super::Engine;
use crate::neighbours;

/// The interval at which links are listed, for those that Calico makes.
const LINKS: Duration = Duration::from_secs(10);

/// Who is at work, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// By what is on the node itself.
    here: AtWork,
    /// By what the cluster says.
    pub(super) said: AtWork,
    at_work: AtWork,
    lingering: Lingering,
    /// When links are listed next.
    links_at: Option<Instant>,
    elsewhere: Elsewhere,
    /// A CNI that can send packets past ingress limits.
    pub(super) redirecting_cni: Option<&'static str>,
    pub(super) problems: Vec<Problem>,
}

impl Others {
    /// True if Calico is at work that may limit pods, or not: its version is not known.
    pub(super) fn calico_may_limit(&self) -> bool {
        self.at_work.calico == Some(None) && self.at_work.calico_limits()
    }
}

impl Engine {
    /// Looks at the node, and takes out of the plan what others enforce, or into it what they do not
    /// any more. True when that is something else than before.
    pub(super) fn heed_others(&mut self) -> bool {
        let choice = self.options.enforce;
        let others = &mut self.others;
        others.redirecting_cni = neighbours::redirecting_cni(self.options.paths.bpffs());
        others.here = neighbours::look(self.options.paths.bpffs(), others.here);
        let now = Instant::now();
        let is_due = others.links_at.is_none_or(|at| at <= now);
        if is_due {
            others.links_at = Some(now + LINKS);
            neighbours::look_for_calico(&mut others.here, others.redirecting_cni);
        }
        // Pods that it limits come and go.
        let mut here = others.lingering.with(others.here, now);
        if others.said.calico.is_some() {
            here.calico = None;
        }
        let at_work = AtWork {
            koordlet_divides: self.classes.koordlet_divides(),
            ..here.and(others.said)
        };
        let is_first = !self.synced && others.problems.is_empty();
        if at_work == others.at_work && !is_first {
            return false;
        }
        others.at_work = at_work;
        let is_known = at_work.calico == Some(Some(true));
        let why = (is_known && at_work.calico_limits())
            .then_some("Calico removes queues at the host's ends of interfaces");
        if let Err(why) = LimitDatapath::note_ingress_only_in_pod(&self.options.paths, why) {
            tracing::warn!("note where ingress limits belong: {why}");
        }
        let findings = choice.findings(&at_work).into_iter();
        others.problems = findings
            .map(|finding| Problem {
                object: ObjectRef::Node(self.options.node.clone()),
                reason: finding.reason(),
                message: finding.to_string(),
            })
            .collect();
        let elsewhere = choice.elsewhere(&at_work);
        if elsewhere != others.elsewhere {
            others.elsewhere = elsewhere;
            self.index.apply(Change::Elsewhere(elsewhere));
        }
        true
    }
}
