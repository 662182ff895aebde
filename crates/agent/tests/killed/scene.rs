//! A node with a pod, and what it holds when no agent was disturbed.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use netqos_testkit::{Call, Node, Pod, Then};
use serde_json::json;

use crate::stage::{self, Agent};
use crate::state::{difference, state};
use crate::victim::{OBJECTS, next};
use crate::{WAY, Way};

/// Rules of which one has a rate.
const RULES: &str = "[{dscp: 46}, {dscp: 10, bandwidth: {rate: 20000},
    classifier: {to: [{ipBlock: {cidr: 192.0.2.0/24}}, {podSelector: {matchLabels: {app: b}}}]}}]";

/// What the folder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    Nothing,
    /// Limits and rules.
    Something,
}

/// How an agent ended.
pub enum End {
    Killed,
    /// It did all that it had to, in so many steps.
    Came {
        steps: usize,
    },
}

pub struct Scene {
    pods: [Pod; 2],
    whole: BTreeMap<Says, Vec<String>>,
    node: Node,
}

impl Scene {
    /// `None` when the test has to be skipped.
    pub fn new() -> Option<Self> {
        let node = stage::node()?;
        let pods = stage::pods(&node).into();
        let mut scene = Self {
            pods,
            whole: BTreeMap::new(),
            node,
        };
        // The first of all leaves folders and empty tables for good.
        for _ in 0..2 {
            for says in [Says::Something, Says::Nothing] {
                scene.say(says);
                let agent = Agent::start();
                let is_there = stage::pod_status("a").is_some();
                assert_eq!(is_there, says == Says::Something);
                assert_eq!(stage::status().problems, []);
                // What is left for later is done then.
                thread::sleep(Duration::from_millis(1500));
                scene.whole.insert(says, scene.state(says));
                agent.kill();
            }
        }
        Some(scene)
    }

    /// Puts it into the folder.
    pub fn say(&self, says: Says) {
        stage::put(OBJECTS, &self.objects(says));
    }

    fn objects(&self, says: Says) -> String {
        let [a, b] = &self.pods;
        let (annotations, policy) = match says {
            Says::Nothing => (json!({}), String::new()),
            Says::Something => (
                json!({
                    "kubernetes.io/egress-bandwidth": "80M",
                    "kubernetes.io/ingress-bandwidth": "40M",
                }),
                stage::policy("p", "a", RULES),
            ),
        };
        let (a, b) = (
            stage::manifest(a, annotations),
            stage::manifest(b, json!({})),
        );
        format!("{a}\n---\n{b}\n---\n{policy}")
    }

    /// An agent gets to know it this way, and is killed before its `nth` step from then on.
    pub fn go(&self, way: Way, says: Says, nth: usize) -> End {
        match way {
            Way::Starts => self.say(says),
            Way::Hears => fs::write(next(), self.objects(says)).unwrap(),
        }
        let (mut steps, mut is_killed) = (0, false);
        let outcome = Call::bare(std::env::current_exe().unwrap(), "")
            .variable(WAY, &format!("{way:?}"))
            .step_by_step(|_| {
                if way == Way::Hears && next().exists() {
                    return Then::Go;
                }
                steps += 1;
                is_killed = steps > nth;
                match is_killed {
                    true => Then::Kill,
                    false => Then::Go,
                }
            })
            .unwrap();
        let code = match is_killed {
            true => None,
            false => Some(0),
        };
        assert_eq!(outcome.code, code, "{way:?}, {says:?}: {outcome:?}");
        match is_killed {
            true => End::Killed,
            false => End::Came { steps },
        }
    }

    /// True when the node is neither as one nor as the other is.
    pub fn is_halfway(&self) -> bool {
        let is = |says| self.state(says) == self.whole[&says];
        !is(Says::Nothing) && !is(Says::Something)
    }

    /// The executable makes what is missing and nothing else, and started once more it finds all
    /// right.
    pub fn assert_becomes(&self, says: Says, what: &str) {
        let agent = Agent::start();
        self.assert_is_whole(says, what);
        let status = stage::status();
        assert_eq!(status.problems, [], "{what}");
        assert_eq!(status.reconciled.retries, 0, "{what}: something failed");
        agent.kill();
        let agent = Agent::start();
        let reconciled = stage::status().reconciled;
        let changes = (reconciled.changes, reconciled.limits);
        assert_eq!(changes, (0, 0), "{what}: changed a second time");
        self.assert_is_whole(says, what);
        agent.kill();
    }

    fn assert_is_whole(&self, says: Says, what: &str) {
        let whole = &self.whole[&says];
        let mut now = Vec::new();
        let is_whole = stage::eventually(|| {
            now = self.state(says);
            now == *whole
        });
        assert!(
            is_whole,
            "{what}: not as undisturbed\n{}",
            difference(whole, &now)
        );
    }

    /// What there is. What rules have counted is left out where they are in force: it depends on
    /// what the pods' kernels send by themselves.
    fn state(&self, says: Says) -> Vec<String> {
        let mut state = state(&self.node, &self.pods);
        if says == Says::Something {
            state.retain(|line| !line.starts_with("counters ") && !line.starts_with("shares "));
        }
        state
    }
}
