//! The kernel becomes as the index says.

use std::collections::BTreeSet;
use std::time::Instant;

use netqos_bpf::rules::Rules;
use netqos_core::objects::LocalInterface;
use netqos_core::{Attachment, EndpointId, NetworkKey, ObjectRef, PlanDelta, Problem, Reason};
use netqos_datapath::rules::RuleDatapath;
use netqos_index::Change;

use super::backoff::Failing;
use super::limits::{Known, PodLimits, attachment};
use super::problems::NO_RULES;
use super::whereabouts::Object;
use super::{Engine, IDLE, Options};

impl Engine {
    /// Makes the kernel as the index says: what changed of it, or, again, all.
    pub(super) fn reconcile(&mut self, again: bool) {
        let began = Instant::now();
        self.open_limits();
        let delta = self.plan();
        let first = !self.synced;
        // Loading the programs of rules takes time, once.
        if first {
            self.reconcile_limits(again);
            self.reconcile_rules(&delta, again);
        } else {
            self.reconcile_rules(&delta, again);
            self.reconcile_limits(again);
        }
        self.synced = true;
        self.plan_classes(first);
        if first || again {
            self.pins_problem = self.bpffs.problem().map(|message| Problem {
                object: ObjectRef::Node(self.options.node.clone()),
                reason: Reason::PinsNotOnNode,
                message,
            });
        }
        let took = began.elapsed();
        self.durations.observe(took.as_secs_f64());
        self.reconciled.times += 1;
        self.reconciled.last_seconds = took.as_secs_f64();
        tracing::debug!(?took, changes = self.outcome.changes, first, "reconciled");
        self.tell_problems();
        self.plan_retry(again);
        self.tidy_at = Some(Instant::now() + IDLE);
    }

    /// What has become of the plan.
    fn plan(&mut self) -> PlanDelta {
        self.heed_others();
        self.resolve_last_valid();
        let delta = self.index.take_delta();
        for endpoint in delta.endpoints.values().flatten() {
            self.touched.insert(endpoint.pod.name.clone());
        }
        delta
    }

    fn reconcile_rules(&mut self, delta: &PlanDelta, again: bool) {
        let is_first = self.rules.is_none();
        // The file system of the pins is not looked through for each pod.
        let needs_rules = is_first && self.needs_rules();
        if !needs_rules {
            // What cannot be had is not missed any more.
            self.node_problems.remove(NO_RULES);
        }
        // Also where there are none: the first one to come should not wait for programs that the
        // kernel has to verify.
        if is_first && (!self.synced || needs_rules) {
            let (paths, hook) = (self.options.paths.clone(), self.options.hook);
            match RuleDatapath::open(paths, hook) {
                Ok(rules) => {
                    self.rules = Some(rules);
                    self.node_problems.remove(NO_RULES);
                }
                Err(why) if !needs_rules => {
                    tracing::info!(
                        "this kernel could put no rule in force, if there were one: {why}"
                    );
                }
                Err(why) => {
                    let reason = Reason::KernelFeatureMissing;
                    let message = format!("no rule can be put in force: {why}");
                    self.node_problem(NO_RULES, reason, message);
                }
            }
        }
        let Some(rules) = &mut self.rules else {
            return;
        };
        if !is_first && !again && delta.is_empty() {
            (self.outcome.changes, self.outcome.dropped) = (0, 0);
            return;
        }
        self.outcome = match is_first || again {
            true => rules.sync(self.index.plan()),
            false => rules.apply(self.index.plan(), delta),
        };
        self.reconciled.changes += self.outcome.changes;
        self.reconciled.dropped += self.outcome.dropped;
    }

    /// True when there are rules, or were before this agent started: those would have to go.
    fn needs_rules(&self) -> bool {
        !self.index.plan().chains.is_empty() || Rules::is_pinned(self.options.paths.bpffs())
    }

    fn open_limits(&mut self) {
        if self.limits.is_some() {
            return;
        }
        let Options {
            paths,
            caches,
            hook,
            egress,
            ..
        } = &self.options;
        match PodLimits::open(paths, caches.clone(), *hook, *egress) {
            Ok(limits) => {
                self.limits = Some(limits);
                self.node_problems.remove("limits");
            }
            Err(why) => {
                let message = format!("no limit can be put in force: {why}; tried again");
                self.node_problem("limits", Reason::UpdateFailed, message);
            }
        }
    }

    /// Takes the last valid limits of pods whose annotations were invalid when this agent started
    /// from the records of their interfaces.
    fn resolve_last_valid(&mut self) {
        let (limits, whereabouts) = (self.limits.as_ref(), &self.whereabouts);
        let changes = self.last_valid.resolve(|pod| {
            let attachment = whereabouts.first(pod)?.attach.interface();
            let attachment = attachment.and_then(super::limits::attachment)?;
            limits?.recorded(&attachment)
        });
        for change in changes {
            if let Change::Pod(pod) = &change {
                self.touched.insert(pod.id.name.clone());
            }
            self.index.apply(change);
        }
    }

    fn reconcile_limits(&mut self, again: bool) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        if std::mem::take(&mut self.sandboxes_gone) || !self.synced {
            limits.collect(&attachments(self.whereabouts.all()));
        }
        let mut touched = std::mem::take(&mut self.touched);
        if again {
            touched.extend(limits.failed());
        }
        let plan = self.index.plan();
        for pod in &touched {
            let uid = self.pods.get(pod).map(Object::uid);
            let endpoints = uid.map(|uid| {
                let first = EndpointId {
                    pod: uid.clone(),
                    network: NetworkKey::Default,
                    ordinal: 0,
                };
                let from_first = plan.endpoints.range(first..);
                let of_pod = from_first.take_while(|(id, _)| id.pod == *uid);
                of_pod.collect()
            });
            limits.reconcile(&Known {
                pod,
                has_object: uid.is_some(),
                endpoints: endpoints.unwrap_or_default(),
                interfaces: self.whereabouts.of(pod),
                first: self.whereabouts.first(pod),
                others: attachments(self.whereabouts.others(pod)),
            });
        }
        self.reconciled.limits = limits.changes;
        self.reconciled.dropped += limits.take_dropped();
    }

    /// What failed is tried again, later each time.
    pub(super) fn plan_retry(&mut self, again: bool) {
        let may_pass = |problem: &&Problem| {
            matches!(
                problem.reason,
                Reason::UpdateFailed
                    | Reason::KernelFeatureMissing
                    | Reason::EndpointUnreachable
                    | Reason::HookReplaced
            )
        };
        let of_rules = self.outcome.problems.iter().filter(may_pass);
        let of_limits = self.limits.iter().flat_map(PodLimits::problems);
        let failing = of_rules.chain(of_limits).chain(self.node_problems.values());
        let failing: Failing = failing
            .map(|problem| (problem.object.clone(), problem.reason))
            .collect();
        self.reconciled.retries += u64::from(again);
        self.retry.note(Instant::now(), failing, again);
    }
}

fn attachments<'i>(interfaces: impl Iterator<Item = &'i LocalInterface>) -> BTreeSet<Attachment> {
    let located = interfaces.filter_map(|one| one.attach.interface());
    located.filter_map(attachment).collect()
}
