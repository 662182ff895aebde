//! Looking after what stands at interfaces, which others may take away or come before.

use std::collections::BTreeSet;
use std::time::Instant;

use netqos_api::HookChoice;
use netqos_core::plan::Endpoint;
use netqos_core::{EndpointId, NodePlan, ObjectRef, Problem, Reason};

use super::endpoints::Arrival;
use super::engine::RuleDatapath;
use super::problems::Subject;
use super::site::{Found, Site, Standing};
use super::{Outcome, Restored};
use crate::endpoint::Side;
use crate::record::SideName;
use crate::{HookKind, Result};

/// How often in a row we come before somebody who came before us. Who insists may stay there.
const CONTESTS: u32 = 3;

impl RuleDatapath {
    /// Looks at every endpoint's interface, and puts the program of rules back where somebody took
    /// it away, or came before it. Another program before ours sees packets twice that go through a
    /// rule's queue, and may keep packets from us; who comes before ours each time it is put back
    /// is left there, and that is a problem ([`Reason::HookContested`]).
    pub fn inspect(&mut self, plan: &NodePlan) -> Outcome {
        self.inspect_some(plan, Scope::All)
    }

    /// Like [`inspect`](Self::inspect), but of a veth whose tcx hook carries the same programs as before it reads
    /// nothing else. The kernel announces other changes there (`RTNLGRP_LINK`, `RTNLGRP_TC`), and none of a tcx hook.
    pub fn inspect_programs(&mut self, plan: &NodePlan) -> Outcome {
        self.inspect_some(plan, Scope::Programs)
    }

    /// Inspects the programs and queues at these links of the host, by index.
    pub fn inspect_at(&mut self, plan: &NodePlan, links: &BTreeSet<u32>) -> Outcome {
        self.inspect_some(plan, Scope::Links(links))
    }

    /// Returns true if one of these links of the host, by index, carries a program or a queue of rules.
    pub fn is_at(&self, links: &BTreeSet<u32>) -> bool {
        let mut sites = self.sites.values();
        let mut meters = self.meters.values();
        sites.any(|site| is_at(site, links)) || meters.any(|meter| meter.is_at(links))
    }

    /// Returns true if this link of the host, by index, is an end of a rule's queue.
    pub fn is_queue(&self, link: u32) -> bool {
        let link = BTreeSet::from([link]);
        self.meters.values().any(|meter| meter.is_at(&link))
    }

    fn inspect_some(&mut self, plan: &NodePlan, scope: Scope<'_>) -> Outcome {
        (self.changes, self.dropped) = (0, 0);
        self.inspected.retain(|id, _| self.sites.contains_key(id));
        let mut restored = Vec::new();
        let mut host = Side::host().ok();
        for (id, endpoint) in &plan.endpoints {
            // What failed before is tried again by whoever applied it.
            if !self.is_in_force(id, plan) {
                continue;
            }
            let site = self.sites.get(id);
            let is_skipped = match scope {
                Scope::All => false,
                Scope::Programs => self.has_same_programs(id),
                Scope::Links(links) => site.is_none_or(|site| !is_at(site, links)),
            };
            if is_skipped {
                continue;
            }
            // Nobody has been there, nearly always; that shows without the pod's namespace.
            if let Some(side) = host.take() {
                let (is_first, side) = self.is_first_at(id, endpoint, side);
                host = Some(side);
                if is_first {
                    self.forget_contest(id);
                    continue;
                }
            }
            match self.inspect_endpoint(id, endpoint) {
                Ok(put_back) => restored.extend(put_back),
                Err(error) => {
                    let pod = ObjectRef::Pod(endpoint.pod.name.clone());
                    let subject = Subject::Endpoint(id.clone());
                    self.problems.settle(subject, pod, Err(error));
                }
            }
        }
        let links = match scope {
            Scope::All | Scope::Programs => None,
            Scope::Links(links) => Some(links),
        };
        let queues_restored = self.inspect_meters(plan, links);
        self.tell(plan);
        Outcome {
            restored,
            queues_restored,
            ..self.outcome()
        }
    }

    /// True when the program stands first at the end on the host that it was put at. Gives the
    /// host's side back.
    fn is_first_at(&mut self, id: &EndpointId, endpoint: &Endpoint, side: Side) -> (bool, Side) {
        self.inspected.remove(id);
        let Some(site) = self.sites.get(id).filter(|_| endpoint.chain.is_some()) else {
            return (false, side);
        };
        match Found::at_host(side, site) {
            Ok(mut found) => {
                // Read before the rest: a program that is attached meanwhile makes a difference next time.
                let programs = found.programs(site);
                let standing = found.standing(site, &self.rules);
                let is_first = matches!(standing, Ok(Standing::First));
                if let Some(programs) = programs.filter(|_| is_first) {
                    self.inspected.insert(id.clone(), programs);
                }
                (is_first, found.into_side())
            }
            Err(side) => (false, side),
        }
    }

    /// Returns true if the endpoint's hook carries the programs that were there when the rules program was found first.
    /// (The kernel numbers programs cyclically, up to `INT_MAX`: an ID comes again after two billion programs.)
    fn has_same_programs(&self, id: &EndpointId) -> bool {
        let inspected = self.inspected.get(id).zip(self.sites.get(id));
        inspected.is_some_and(|(inspected, site)| {
            inspected.link == site.index && inspected.is_unchanged()
        })
    }

    fn inspect_endpoint(
        &mut self,
        id: &EndpointId,
        endpoint: &Endpoint,
    ) -> Result<Option<Restored>> {
        let (Some(before), Some(chain)) = (self.sites.get(id).cloned(), endpoint.chain) else {
            return Ok(None);
        };
        // A pod that is going has no namespace any more, of which its object does not know yet.
        let interface = endpoint.attach.interface();
        let Some((interface, (attachment, mut found))) =
            interface.and_then(|interface| Some((interface, Found::find(interface).ok()?)))
        else {
            return Ok(None);
        };
        if before.hook == HookKind::Clsact && found.is_limited_by_calico()? {
            if let Some(mut arrival) = self.find(id, endpoint)? {
                self.switch(&mut arrival)?;
            }
            return Ok(None);
        }
        let standing = found.standing(&before, &self.rules)?;
        if standing == Standing::First {
            self.forget_contest(id);
            return Ok(None);
        }
        let now = Instant::now();
        if standing == Standing::Gone
            && self
                .repairs
                .is_exhausted(&Subject::Endpoint(id.clone()), now)
        {
            let message = format!(
                "another process keeps removing the rules program from {}; netqos restores it five times a \
                 minute",
                before.link
            );
            let pod = ObjectRef::Pod(endpoint.pod.name.clone());
            let problem = Problem {
                object: pod,
                reason: Reason::RepairContested,
                message,
            };
            self.problems.set(Subject::Hook(id.clone()), Some(problem));
            return Ok(None);
        }
        let kept = (standing == Standing::Gone).then_some(&before);
        let netns = &interface.netns;
        let choice = match self.choice {
            HookChoice::Auto if standing == Standing::Behind && found.can_tcx()? => HookChoice::Tcx,
            choice => choice,
        };
        let mut site = found.plan(id, attachment, netns, before.number, choice, kept)?;
        site.made_clsact |= before.made_clsact && before.index == site.index;
        if standing == Standing::Behind {
            let times = self.contests.entry(id.clone()).or_default();
            *times += 1;
            // A filter of clsact runs behind all programs of tcx, wherever it is put.
            if *times > CONTESTS || site.hook != crate::HookKind::Tcx {
                self.problems.set(
                    Subject::Hook(id.clone()),
                    Some(Problem {
                        object: ObjectRef::Pod(endpoint.pod.name.clone()),
                        reason: Reason::HookContested,
                        message: format!(
                            "another program comes before netqos' at {}: it sees packets twice \
                             that go through a rule's queue, and what it keeps to itself has no \
                             rules",
                            before.link
                        ),
                    }),
                );
                return Ok(None);
            }
        }
        let mut arrival = Arrival {
            id: id.clone(),
            chain,
            found,
            site,
            is_displaced: standing == Standing::Behind,
        };
        self.switch(&mut arrival)?;
        if standing == Standing::Gone {
            // Whatever another process removed before, it is there now.
            self.problems.set(Subject::Hook(id.clone()), None);
            self.repairs.record(Subject::Endpoint(id.clone()), now);
        }
        Ok(Some(Restored {
            endpoint: id.clone(),
            interface: arrival.site.link,
            was_gone: standing == Standing::Gone,
        }))
    }

    /// Nobody comes before an endpoint's program.
    pub(super) fn forget_contest(&mut self, id: &EndpointId) {
        self.contests.remove(id);
        self.problems.set(Subject::Hook(id.clone()), None);
    }
}

/// What an inspection reads.
#[derive(Clone, Copy)]
enum Scope<'a> {
    All,
    /// Everything at the hooks whose programs have changed, and every queue.
    Programs,
    /// What stands at these links of the host, by index.
    Links(&'a BTreeSet<u32>),
}

/// Returns true if the program stands at one of these links of the host.
fn is_at(site: &Site, links: &BTreeSet<u32>) -> bool {
    site.side == SideName::Host && links.contains(&site.index)
}
