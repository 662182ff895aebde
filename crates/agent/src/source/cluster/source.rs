//! What the cluster says, as far as it concerns this node.

use std::time::Instant;

use netqos_cluster::{Kind, Selection, Told};
use netqos_coexistence::Lingering;
use netqos_core::ObjectName;
use netqos_index::Change;

use super::ClusterOptions;
use super::gate::Gate;
use super::interest::Interest;
use super::saved::Saved;
use super::seen::{Read, Seen};
use super::watches::Watches;
use crate::Batch;

/// What was told, what waits, and what is to be said.
pub(super) struct Source {
    pub(super) watches: Watches,
    seen: Seen,
    saved: Saved,
    gate: Gate,
    interest: Interest,
    /// What has become due since then was not looked at.
    looked: Instant,
    /// What was told, and was not looked at yet.
    told: Vec<Change>,
    /// What is to be said.
    changes: Vec<Change>,
    /// What an earlier process wrote down was looked at.
    is_remembered: bool,
    changed_since_saved: bool,
    lingering: Lingering,
    /// Rules of an earlier process are in force.
    has_rules: bool,
}

impl Source {
    /// Begins to watch.
    pub(super) fn new(options: &ClusterOptions, mut watches: Watches) -> Self {
        let saved = Saved::new(&options.state, &options.node, options.homes.clone());
        for selection in options.selections() {
            watches.begin(selection);
        }
        Self {
            watches,
            seen: Seen::new(options, saved.kinds()),
            saved,
            gate: Gate::new(options.controller.clone()),
            interest: Interest::default(),
            looked: Instant::now(),
            told: Vec::new(),
            changes: Vec::new(),
            is_remembered: false,
            changed_since_saved: true,
            lingering: Lingering::default(),
            has_rules: options.has_rules,
        }
    }

    /// Takes note of what a watch tells, until [`Source::advance`].
    pub(super) fn hear(&mut self, selection: &Selection, told: Told<Read>) {
        if let Told::Silent(why) = &told {
            tracing::debug!(kind = %selection.kind, "the API server is silent: {why}");
        }
        self.told.extend(self.seen.hear(selection, told));
    }

    /// Finds out what follows from what was told: what may be said, and what is to be watched.
    pub(super) fn advance(&mut self, now: Instant) {
        self.looked = now;
        loop {
            let told = std::mem::take(&mut self.told);
            self.changed_since_saved |= !told.is_empty();
            let stands = |name: &ObjectName| self.seen.stands(Kind::NetworkQoS, name);
            self.changes.extend(self.gate.take(told, now, stands));
            let may_replace = |it: &Selection| self.seen.may_replace(it, now);
            let turn = self.interest.turn(self.gate.wanted(), may_replace);
            for selection in turn.begin {
                tracing::debug!(?selection, "watched from now on");
                self.seen.begin(selection.clone());
                self.watches.begin(selection);
            }
            for selection in turn.end {
                tracing::debug!(?selection, "not watched any more");
                self.told.extend(self.seen.end(&selection));
                self.watches.end(&selection);
            }
            if self.told.is_empty() {
                return;
            }
        }
    }

    /// Falls back on what an earlier process wrote down for what was not told yet. Where nothing was
    /// written down, there is nothing but the server.
    pub(super) fn remember(&mut self) {
        // What is watched follows from what was remembered: pods, then policies, then slices.
        for _ in 0..4 {
            let (found, changes) = self.seen.remember(|kind| self.saved.read(kind));
            self.told.extend(changes);
            self.advance(Instant::now());
            if !found {
                return;
            }
        }
        if let Some((_, policies)) = self.saved.read(Kind::NetworkQoS) {
            self.is_remembered = true;
            let policies = policies.into_values().filter_map(Read::into_policy);
            self.gate.remember(policies);
            self.advance(Instant::now());
            // They may name sets of which the slices were written down, too.
            let (_, changes) = self.seen.remember(|kind| self.saved.read(kind));
            self.told.extend(changes);
            self.advance(Instant::now());
        }
    }

    /// True when nothing is missing that something may be in force by. Where no rule is in force, as
    /// on a node that has just come, what waits takes nothing from anybody: all else need not wait
    /// with it for a controller.
    pub(super) fn is_known(&self) -> bool {
        let mut missing = self.gate.missing(self.is_remembered);
        self.seen.is_known() && !(self.has_rules && missing.next().is_some())
    }

    /// What is still waited for, and why it does not come.
    pub(super) fn waiting(&self) -> String {
        let waiting = self.seen.waiting();
        let missing = self.gate.missing(self.is_remembered);
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if missing.is_empty() {
            return waiting;
        }
        let mut unknown = format!(
            "the pods that rules go to are not published yet (NetworkQoS {})",
            missing.join(", ")
        );
        if let Some(leader) = self.gate.leader() {
            unknown = format!("{unknown}; {leader}");
        }
        match waiting.as_str() {
            "" => unknown,
            waiting => format!("{waiting}; {unknown}"),
        }
    }

    /// What there is to say, and how things are now.
    pub(super) fn batch(&mut self) -> Batch {
        let mut batch = self.seen.batch(std::mem::take(&mut self.changes));
        batch.at_work = self.lingering.with(batch.at_work, Instant::now());
        batch.problems.extend(self.gate.problems(Instant::now()));
        batch.problems.sort();
        batch.policies = self.seen.policies();
        self.gate.in_force(&mut batch.policies);
        batch
    }

    /// Since when something has waited for a controller.
    pub(super) fn waits(&self) -> Option<Instant> {
        self.gate.waiting()
    }

    /// What is known of the controller.
    pub(super) fn tell_of_leader(&mut self, said: String) {
        self.gate.tell_of_leader(said);
    }

    /// When something is to be looked at although nothing is told.
    pub(super) fn due(&self) -> Option<Instant> {
        let gate = self.gate.due(self.looked);
        let replaces = self.seen.next_may_replace(self.looked);
        let ends = self.lingering.ends();
        [gate, replaces, ends].into_iter().flatten().min()
    }

    /// True when something is others than what is written down, and worth it.
    pub(super) fn is_to_be_saved(&self) -> bool {
        self.changed_since_saved && self.seen.is_told()
    }

    /// Writes down what counts, for who comes after this process.
    ///
    /// # Errors
    /// It could not be written: what was written before stands there.
    pub(super) fn save(&mut self) -> netqos_datapath::Result<()> {
        let (seen, gate) = (&self.seen, &self.gate);
        self.saved.write(|kind| match kind {
            // What waits is not in force.
            Kind::NetworkQoS => gate.texts(),
            _ => seen.texts(kind),
        })?;
        self.changed_since_saved = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use netqos_cluster::{Client, Connect};
    use serde_json::json;

    use super::super::interest::NAMESPACES;
    use super::*;

    fn told(kind: Kind, namespace: &str, name: &str, spec: &serde_json::Value) -> Told<Read> {
        let value = json!({
            "apiVersion": kind.api_version(), "kind": kind.name(),
            "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}")},
            "spec": spec
        });
        let name = ObjectName::new(namespace, name);
        let read = Read::of(kind, &name, value, &Arc::default());
        Told::There(name, read)
    }

    /// Of a server on which nothing happens.
    #[test]
    fn a_watch_that_another_one_has_taken_the_place_of_ends_though_nothing_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let _inside = runtime.enter();
        // Nobody is asked.
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let options = ClusterOptions {
            node: "node1".to_owned(),
            connect: Connect::default(),
            state: "/nowhere".into(),
            has_rules: false,
            controller: "netqos-system".into(),
            reports: None,
            statuses: None,
            report_refresh: Duration::from_secs(600),
            homes: Arc::default(),
            networks: crate::NetworkCatalog::new("node1"),
        };
        let watches = Watches::new(client, Arc::default());
        let mut source = Source::new(&options, watches);
        let pods = Selection::all(Kind::Pod).with_field("spec.nodeName", "node1");
        let pod_in = |number: usize| {
            let spec = json!({"nodeName": "node1", "containers": []});
            told(Kind::Pod, &format!("n{number}"), "pod", &spec)
        };
        for number in 0..NAMESPACES {
            source.hear(&pods, pod_in(number));
        }
        let began = Instant::now();
        source.advance(began);
        let all = Selection::all(Kind::NetworkQoS);
        let rules = json!({"priority": 1, "egress": [{"dscp": 1}]});
        let rules = told(Kind::NetworkQoS, "n1", "p", &rules);
        source.hear(&all.clone().in_namespace("n1"), rules);
        source.advance(began);
        // One namespace more, and all are watched together. By then the policy is gone.
        source.hear(&pods, pod_in(NAMESPACES));
        source.advance(Instant::now());
        source.hear(&all, Told::All([].into()));
        let is_gone = |source: &mut Source| {
            let changes = source.batch().changes;
            let mut changes = changes.iter();
            changes.any(|it| matches!(it, Change::PolicyGone(_)))
        };
        source.advance(Instant::now());
        assert!(!is_gone(&mut source));
        let due = source.due().unwrap();
        assert!(due <= Instant::now() + Duration::from_secs(6));
        source.advance(due);
        assert!(is_gone(&mut source));
        assert_eq!(source.due(), None);
    }
}
