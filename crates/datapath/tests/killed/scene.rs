//! A node with pods of every kind, on which rules are put in force.
#![allow(dead_code, reason = "not every test program needs all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_bpf::rules::Rules as Tables;
use netqos_core::plan::RuleId;
use netqos_core::{Digest, NodePlan, ObjectName};
use netqos_datapath::rules::{Outcome, RuleDatapath, remove_all};
use netqos_datapath::{Paths, Result};
use netqos_testkit::rules::Wire;
use netqos_testkit::rules::state::{difference, state};
use netqos_testkit::{Node, Pod};

use crate::plans::{Facts, Rules};
use crate::probes::{Marks, Probe, Traffic, met, numbers, probes, wanted};

/// An address that nobody has, on the network of macvlans.
const NOBODY: &str = "10.98.0.200";
/// The mark of the rule that stays.
const STAYS: u8 = 40;

pub struct Scene {
    pub node: Node,
    pub pods: Vec<Pod>,
    pub facts: Vec<Facts>,
    pub hook: HookChoice,
    traffic: Traffic,
    probes: Vec<Probe>,
    numbers: BTreeMap<String, u16>,
    plans: BTreeMap<Rules, NodePlan>,
    /// What a node holds that went there without being disturbed.
    whole: BTreeMap<Rules, Vec<String>>,
}

/// What an agent does when it starts.
pub fn put_in_force(hook: HookChoice, plan: &NodePlan) -> Outcome {
    let mut datapath = open(hook);
    let outcome = datapath.sync(plan);
    datapath.tidy().unwrap();
    outcome
}

pub fn open(hook: HookChoice) -> RuleDatapath {
    try_to_open(hook).unwrap()
}

pub fn try_to_open(hook: HookChoice) -> Result<RuleDatapath> {
    RuleDatapath::open(Paths::from_variables(|_| None), hook)
}

pub fn remove() {
    try_to_remove().unwrap();
}

pub fn try_to_remove() -> Result<()> {
    remove_all(&Paths::from_variables(|_| None))
}

impl Scene {
    /// `None` when the test has to be skipped.
    pub fn new(hook: HookChoice) -> Option<Self> {
        let node = Node::new().unwrap()?;
        Pins::ensure(Path::new("/sys/fs/bpf")).unwrap();
        node.parent_link("parent").unwrap();
        let kinds = ["player", "gateway", "store", "edge"];
        let (mut pods, mut facts) = (Vec::new(), Vec::new());
        for (name, kind) in ["a", "b", "c", "m"].into_iter().zip(kinds) {
            let is_veth = kind != "edge";
            let pod = match is_veth {
                true => node.pod(name).unwrap(),
                false => node.macvlan_pod(name, "parent").unwrap(),
            };
            let mut addresses = vec![pod.address().parse().unwrap()];
            if is_veth {
                addresses.push(pod.address6().parse().unwrap());
            }
            facts.push(Facts {
                name: name.to_owned(),
                kind: kind.to_owned(),
                is_veth,
                addresses,
            });
            pods.push(pod);
        }
        let neighbour = ["neigh", "add", NOBODY, "dev", "eth0", "lladdr"];
        let neighbour = [&neighbour[..], &["02:00:00:00:00:01"]].concat();
        pods[3].run(&node, "ip", &neighbour).unwrap();

        let mut traffic = Traffic::new();
        for (from, to, address) in [(0, 1, 0), (0, 1, 1), (1, 0, 0), (2, 0, 0)] {
            let wire = pods[to].inside(|| Wire::open("eth0")).unwrap();
            traffic.add(&pods[from], facts[to].addresses[address], wire);
        }
        traffic.add(&pods[3], NOBODY.parse().unwrap(), Wire::open("parent-peer"));

        let all = [Rules::Removed, Rules::None, Rules::Old, Rules::New];
        let plans: BTreeMap<_, _> = all.map(|rules| (rules, rules.plan(&facts))).into();
        let mut scene = Self {
            probes: probes(&facts),
            numbers: numbers(plans.values()),
            plans,
            whole: BTreeMap::new(),
            node,
            pods,
            facts,
            hook,
            traffic,
        };
        for rules in all {
            remove();
            scene.reach(rules);
            scene.assert_met(rules, "undisturbed");
            scene.whole.insert(rules, scene.state());
        }
        Some(scene)
    }

    pub fn plan(&self, rules: Rules) -> &NodePlan {
        &self.plans[&rules]
    }

    /// Lets a fresh process put them in force; says how much it changed.
    pub fn reach(&self, rules: Rules) -> u64 {
        if rules == Rules::Removed {
            remove();
            return 0;
        }
        let outcome = put_in_force(self.hook, self.plan(rules));
        assert_eq!(outcome.problems, []);
        outcome.changes
    }

    /// What packets meet, of which some are sent.
    pub fn marks(&mut self) -> Marks {
        let mut marks = met(&self.numbers, &self.probes);
        marks.extend(self.traffic.marks());
        marks
    }

    /// What those meet that are sent.
    pub fn sent(&mut self) -> Marks {
        self.traffic.marks()
    }

    /// Waits until no packet meets a rule any more: the kernel takes programs away some time after
    /// it was told to.
    pub fn wait_until_nothing_is_marked(&mut self) {
        let mut times = 0..1000;
        while self.sent().values().any(|mark| *mark != Some(0)) {
            assert!(times.next().is_some(), "the programs do not go");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What they are to meet.
    pub fn wanted(&self, rules: Rules) -> Marks {
        self.wanted_by(self.plan(rules))
    }

    /// What they are to meet by these rules, when the Services are already the other plan's, or
    /// still.
    pub fn between(&self, rules: Rules, services: Rules) -> Marks {
        self.wanted_by(&NodePlan {
            services: self.plan(services).services.clone(),
            ..self.plan(rules).clone()
        })
    }

    fn wanted_by(&self, plan: &NodePlan) -> Marks {
        let probes = self.probes.iter().chain(self.traffic.probes());
        probes
            .map(|probe| (probe.clone(), wanted(plan, probe)))
            .collect()
    }

    /// Asserts that packets meet these rules.
    #[track_caller]
    pub fn assert_met(&mut self, rules: Rules, what: &str) {
        let marks = self.marks();
        let other: Vec<_> = self
            .wanted(rules)
            .into_iter()
            .filter(|(probe, mark)| marks[probe] != *mark)
            .map(|(probe, mark)| format!("{probe:?} met {:?} instead of {mark:?}", marks[&probe]))
            .take(10)
            .collect();
        assert!(other.is_empty(), "{what}, {rules}: {other:#?}");
    }

    pub fn state(&self) -> Vec<String> {
        let mut lines = state(&self.node, &self.pods);
        let bpffs = Path::new("/sys/fs/bpf");
        if Tables::open(bpffs).unwrap().is_some() {
            let tables = Tables::ensure(bpffs).unwrap();
            lines.push(format!("conntrack is asked: {}", tables.deaf().is_none()));
        }
        lines
    }

    /// Asserts that the node is as one that these rules were put in force on undisturbed.
    #[track_caller]
    pub fn assert_is_whole(&mut self, rules: Rules, what: &str) {
        self.assert_met(rules, what);
        let (now, whole) = (self.state(), &self.whole[&rules]);
        assert!(
            now == *whole,
            "{what}: not as undisturbed\n{}",
            difference(whole, &now)
        );
    }

    /// What the rule that stays has counted; 0 where it is not.
    pub fn stayed(&self) -> u64 {
        let rule = RuleId {
            policy: ObjectName::new("games", "stays"),
            index: 0,
        };
        let number = Digest::of(&rule).get();
        let Some(tables) = Tables::open(Path::new("/sys/fs/bpf")).unwrap() else {
            return 0;
        };
        let counters = tables.counters.all().unwrap().into_iter();
        counters
            .filter(|(key, _)| key.rule == number)
            .map(|(_, counter)| counter.packets)
            .sum()
    }

    /// What it counts each time that marks are looked at.
    pub fn counted_by_stays(&self) -> u64 {
        let wanted = self.wanted(Rules::Old);
        wanted.values().filter(|mark| **mark == Some(STAYS)).count() as u64
    }
}
