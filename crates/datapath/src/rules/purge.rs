//! Removing what no plan says: what an earlier process left, and everything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use netqos_bpf::Pins;
use netqos_bpf::rules::{Plain, Rules, Table};
use netqos_core::NodePlan;
use netqos_netlink::link::gone;

use super::engine::RuleDatapath;
use super::meters::Ends;
use super::problems::Subject;
use super::site::Site;
use super::tables::rule_number;
use super::{meters, strays};
use crate::endpoint::Side;
use crate::error::{Doing, Errors};
use crate::record::Records;
use crate::{Paths, Result};

impl RuleDatapath {
    /// Removes from the kernel what is not of this plan, which is in force.
    pub(super) fn purge(&mut self, plan: &NodePlan) -> Result<()> {
        let mut errors = Errors::default();
        self.release(plan);
        let kept = self.remove_strangers();
        errors.note(self.purge_tables(plan, &kept));
        if !self.is_stranded() {
            errors.note(self.purge_meters());
        }
        errors.finish()
    }

    /// Takes the programs away of endpoints that are not of the plan. Says which numbers are in use
    /// besides: those of the plan's, and of who could not be removed.
    pub(super) fn remove_strangers(&mut self) -> HashSet<u16> {
        let own = self.entries.values().map(|entry| entry.number);
        let mut kept: HashSet<u16> = own.collect();
        for site in Site::all(&self.paths) {
            if !kept.contains(&site.number) {
                let removed = self.remove_site(&site);
                if removed.is_err() {
                    kept.insert(site.number);
                }
                self.problems.note(Subject::Leftovers, removed);
            }
        }
        kept
    }

    fn purge_tables(&mut self, plan: &NodePlan, kept: &HashSet<u16>) -> Result<()> {
        self.grace.wait();
        let mut chains: HashSet<u64> = self.chains.keys().map(|id| id.0.get()).collect();
        let going = self.going_chains(plan);
        chains.extend(&going);
        let classes: HashSet<u64> = plan.classes.keys().map(|id| id.0.get()).collect();
        // Where peers could not be written, they may have any class.
        let has_old_peers = self.problems.are_peers_behind();
        let is_used =
            |class: &u64| has_old_peers || classes.contains(class) || self.detours.uses(*class);
        let rules = &self.rules;
        let mut removed = retain(&rules.endpoints, |number| {
            u16::try_from(*number).is_ok_and(|number| kept.contains(&number))
        })?;
        removed += retain(&rules.chains, |chain| chains.contains(chain))?;
        removed += retain(&rules.rules_of, |key| chains.contains(&key.chain))?;
        removed += retain(&rules.blocks4, |key| chains.contains(&key.chain()))?;
        removed += retain(&rules.blocks6, |key| chains.contains(&key.chain()))?;
        removed += retain(&rules.ports, |key| chains.contains(&key.chain))?;
        removed += retain(&rules.classes, |key| {
            going.contains(&key.chain) || chains.contains(&key.chain) && is_used(&key.class)
        })?;
        let services = self.services.keys();
        removed += retain(&rules.services, |key| services.contains(key))?;
        let of_chains = self.services.crowded.keys();
        removed += retain(&rules.chain_services, |key| of_chains.contains(key))?;
        for number in self.rules.networks.networks()? {
            if !self.networks.has(number) {
                self.rules.networks.forget(number)?;
                removed += 1;
            }
        }
        self.changes += removed;
        Ok(())
    }

    fn purge_meters(&mut self) -> Result<()> {
        let meters = self.meters.iter();
        let kept: HashMap<u64, u16> = meters
            .map(|(rule, meter)| (rule_number(rule), meter.numbers.limiter))
            .collect();
        for (limiter, value) in self.pins.limiters().all()? {
            let settings = value.settings;
            // Those of attachments have the hash of a network. A rule has one, in the first place
            // that was free: where another was free before, it may have got a second one.
            if settings.network == 0 && kept.get(&settings.owner) != Some(&limiter) {
                meters::release(&self.pins, &self.rules, settings.owner, limiter)?;
                self.changes += 1;
            }
        }
        Ok(())
    }

    /// Does what takes long and is not urgent: removes links and counters that nothing uses. It walks the tables of
    /// counters, each of a million buckets, only if an endpoint or a rule may have gone since the last time.
    ///
    /// # Errors
    /// What could not be removed; the rest is.
    pub fn tidy(&mut self) -> Result<()> {
        self.tidy_for(Duration::MAX).map(drop)
    }

    /// The same for about so long, since each pair of links takes 10 to 50 ms. Returns false if time ran out.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn tidy_for(&mut self, at_most: Duration) -> Result<bool> {
        let mut errors = Errors::default();
        let is_done = self.remove_spare_links(0, at_most, &mut errors)?;
        if is_done {
            // Sites are changed under the locks of attachments, which need not have a record.
            errors.note(Records::new(self.paths.attachments()).tidy());
        }
        if is_done && self.is_untidy {
            self.is_untidy = !self.tidy_counters(&mut errors);
        }
        errors.finish().map(|()| is_done)
    }

    /// Removes pairs that no rule list sends to until so many links are left, for about so long, but one pair at least if any
    /// may go. Returns false if some that may go are left.
    ///
    /// # Errors
    /// The links cannot be listed.
    pub(super) fn remove_spare_links(
        &mut self,
        enough: usize,
        at_most: Duration,
        errors: &mut Errors,
    ) -> Result<bool> {
        let queues = self.queues_in_use();
        let Ends { used, mut spare } =
            meters::ends(&mut self.host.socket, |rule| queues.contains(&rule))?;
        let mut left = used + spare.len();
        if self.is_stranded() {
            // A program that goes by a rule list of which nothing is known may send to any.
            spare.clear();
        }
        let mut spare = VecDeque::from(spare);
        let began = Instant::now();
        while left > enough
            && let Some(end) = spare.pop_front()
        {
            let removed = gone(self.host.socket.delete_link(&end)).doing("delete link");
            if errors.note(removed).is_some() {
                let ends = spare.len();
                spare.retain(|other| Some(other.index) != end.related);
                left -= 1 + ends - spare.len();
            }
            if began.elapsed() >= at_most {
                break;
            }
        }
        self.rule_links = Some(left);
        Ok(spare.is_empty())
    }

    /// The numbers of the rules whose pairs are in use.
    fn queues_in_use(&self) -> HashSet<u64> {
        let mut queues: HashSet<u64> = self
            .meters
            .iter()
            .chain(&self.retired.meters)
            .filter(|(_, meter)| meter.status.queue.is_some())
            .map(|(rule, _)| rule_number(rule))
            .collect();
        // Also those that a rule list of before still sends to.
        let chains = self.chains.values().chain(self.retired.chains.values());
        let rules = chains.flat_map(|tables| &tables.rules);
        let sending = rules.filter(|(_, rule)| rule.queue != 0);
        queues.extend(sending.map(|(_, rule)| rule.number));
        queues
    }

    /// Removes counters and shares that nothing uses. Returns true if none of them is left.
    fn tidy_counters(&self, errors: &mut Errors) -> bool {
        let InUse {
            rules,
            meters,
            unread,
        } = InUse::of(self);
        let kept = self.rules.counters.retain(|key| {
            rules.contains(&(key.rule, key.endpoint())) || unread.contains(&key.endpoint())
        });
        let shares = retain(&self.rules.shares, |key| {
            meters.contains(&(key.meter, key.endpoint)) || unread.contains(&key.endpoint)
        });
        let is_tidy = kept.is_ok() && shares.is_ok() && unread.is_empty();
        errors.note(kept.map_err(Into::into));
        errors.note(shares.map(drop));
        is_tidy
    }
}

/// What is in force for which endpoint.
#[derive(Default)]
struct InUse {
    rules: HashSet<(u64, u32)>,
    meters: HashSet<(u32, u32)>,
    /// The endpoints that go by a rule list of which nothing is known.
    unread: HashSet<u32>,
}

impl InUse {
    fn of(datapath: &RuleDatapath) -> Self {
        let chains = datapath.chains.iter();
        let chains: HashMap<u64, _> = chains.map(|(id, it)| (id.0.get(), it)).collect();
        let mut found = Self::default();
        for entry in datapath.entries.values().filter(|entry| entry.chain != 0) {
            let endpoint = u32::from(entry.number);
            let Some(tables) = chains.get(&entry.chain) else {
                found.unread.insert(endpoint);
                continue;
            };
            for rule in tables.names() {
                found.rules.insert((rule_number(rule), endpoint));
                if let Some(meter) = datapath.meters.get(rule) {
                    let limiter = meter.numbers.limiter.into();
                    found.meters.insert((limiter, endpoint));
                }
            }
        }
        found
    }
}

/// Removes everything of rules from this node. Limits of attachments stay.
///
/// # Errors
/// What could not be removed. It goes on working, and what it needs stays for it, until this is
/// called again.
pub fn remove_all(paths: &Paths) -> Result<()> {
    let Some(rules) = Rules::open(paths.bpffs())? else {
        // Whoever removed it was interrupted when nothing went by it any more.
        return Ok(Rules::unpin(paths.bpffs())?);
    };
    let mut errors = Errors::default();
    for site in Site::all(paths) {
        let detached = site.detach(&rules);
        // Who could not be removed is found again.
        errors.note(detached.and_then(|_| site.forget(paths)));
    }
    // Its packets would go to queues that are not there.
    errors.finish()?;
    let mut errors = Errors::default();
    let mut host = Side::host()?;
    let (_, removed) = strays::remove(&mut host, &rules, paths);
    errors.note(removed);
    // What stays in the namespaces of pods must not send packets to queues that go now.
    errors.note(retain(&rules.endpoints, |_| false));
    for link in meters::ends(&mut host.socket, |_| false)?.spare {
        errors.note(gone(host.socket.delete_link(&link)).doing("delete link"));
    }
    if let Some(pins) = Pins::open(paths.bpffs())? {
        for (limiter, value) in pins.limiters().all()? {
            if value.settings.network == 0 {
                let released = pins.limiters().release(limiter, value.settings.owner);
                errors.note(released.map(drop).map_err(Into::into));
            }
        }
    }
    // Without the tables, what is left would not be found again.
    errors.finish()?;
    drop(rules);
    Ok(Rules::unpin(paths.bpffs())?)
}

/// Keeps the elements of which this is true; says how many went.
fn retain<K: Plain, V: Plain>(table: &Table<K, V>, keep: impl Fn(&K) -> bool) -> Result<u64> {
    let mut removed = 0;
    for key in table.keys()? {
        if !keep(&key) && table.remove(&key)? {
            removed += 1;
        }
    }
    Ok(removed)
}
