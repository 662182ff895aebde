//! Removals wait for the programs that may have read what a change replaced.

use netqos_api::HookChoice;
use netqos_core::{NodePlan, Policy, Rule};
use netqos_index::{Change, Index};
use netqos_testkit::rules::{marking, policy};
use netqos_testkit::{Call, Node, Step, Then, stop_here};

use crate::PODS;
use crate::plans::{Facts, to_kinds};
use crate::scene::{open, put_in_force};

/// Selects the removal of the child process.
const ROLE: &str = "NETQOS_TEST_REMOVES";
/// Commands of bpf(2): `BPF_MAP_UPDATE_ELEM` and `BPF_MAP_UPDATE_BATCH`; `BPF_MAP_DELETE_ELEM` and
/// `BPF_MAP_DELETE_BATCH`.
const WRITES: [u64; 2] = [2, 26];
const DELETES: [u64; 2] = [3, 27];

/// Removes a replaced entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The chain that a change replaced, whose rules go to other peers.
    Chain,
    /// The same, and a sync comes before it is removed.
    ChainThenSync,
    /// The chain that an earlier process programmed.
    ChainOfBefore,
    /// The chain of a pod that gets no other, and the class of the peer that it went to.
    LastChain,
    /// The class of a peer that has another one now.
    Class,
}

pub const REMOVALS: [Removal; 5] = [
    Removal::Chain,
    Removal::ChainThenSync,
    Removal::ChainOfBefore,
    Removal::LastChain,
    Removal::Class,
];

/// Makes the removal of a child process. Returns false if this process is none.
pub fn take_part() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let role = variable(ROLE);
    let mut removals = REMOVALS.into_iter();
    let Some(removal) = removals.find(|removal| format!("{removal:?}") == role) else {
        return false;
    };
    let pods: Vec<_> = variable(PODS).split(';').map(Facts::parse).collect();
    let (from, to) = (removal.before(&pods), removal.after(&pods));
    let mut datapath = open(HookChoice::Auto);
    let outcome = if removal == Removal::ChainOfBefore {
        stop_here().unwrap();
        datapath.sync(&to)
    } else {
        assert_eq!(datapath.sync(&from).changes, 0);
        stop_here().unwrap();
        let outcome = datapath.apply(&to, &from.delta_to(&to));
        stop_here().unwrap();
        assert_eq!(outcome.problems, []);
        match removal {
            Removal::ChainThenSync => datapath.sync(&to),
            _ => datapath.finish(&to),
        }
    };
    assert_eq!(outcome.problems, []);
    assert!(!datapath.is_unfinished());
    true
}

impl Removal {
    /// Follows the process: between a write and the next removal it waits, and not before its change is done.
    pub fn waits_for_programs(self) {
        let Some(node) = Node::new().unwrap() else {
            return;
        };
        let pods = [("a", "player"), ("b", "gateway")];
        let pods = pods.map(|(name, kind)| {
            let pod = node.pod(name).unwrap();
            let facts = Facts {
                name: name.to_owned(),
                kind: kind.to_owned(),
                is_veth: true,
                addresses: vec![pod.address().parse().unwrap()],
            };
            (pod, facts)
        });
        let facts = pods.each_ref().map(|(_, facts)| facts.clone());
        let outcome = put_in_force(HookChoice::Auto, &self.before(&facts));
        assert_eq!(outcome.problems, []);
        let (mut is_read, mut removed) = (false, 0);
        let mut is_changing = self != Self::ChainOfBefore;
        // The removals before each wait.
        let mut waits = Vec::new();
        let outcome = Call::bare(std::env::current_exe().unwrap(), "")
            .variable(ROLE, &format!("{self:?}"))
            .variable(PODS, &facts.each_ref().map(ToString::to_string).join(";"))
            .step_by_step(|step| {
                match step {
                    Step::Stop => is_changing = false,
                    Step::Call { number, first } if number == libc::SYS_bpf => {
                        // A peer on a detour would get its last class.
                        let is_early =
                            self == Self::ChainThenSync && !is_changing && waits.is_empty();
                        let is_write = WRITES.contains(&first);
                        assert!(!is_write || !is_early, "{self:?}: written before the wait");
                        is_read |= is_write;
                        if DELETES.contains(&first) {
                            assert!(!is_read, "{self:?}: removal {removed} did not wait");
                            removed += 1;
                        }
                    }
                    Step::Call { number, .. } if number == libc::SYS_membarrier => {
                        assert!(!is_changing, "{self:?}: the change waits");
                        is_read = false;
                        waits.push(removed);
                    }
                    _ => {}
                }
                Then::Go
            })
            .unwrap();
        assert_eq!(outcome.code, Some(0), "{self:?}: {}", outcome.stderr);
        let wanted: &[u32] = match self {
            // The classes of peers on a detour go after the detour.
            Self::Chain => &[0, 5],
            Self::ChainThenSync | Self::ChainOfBefore => &[0, 0],
            // The endpoint goes first, and the peer after the wait.
            Self::LastChain => &[1],
            Self::Class => &[0],
        };
        assert_eq!(waits, wanted, "{self:?}");
        let last = waits.last().copied();
        assert!(
            last.is_some_and(|last| removed > last),
            "{self:?}: {waits:?}"
        );
    }

    fn before(self, pods: &[Facts]) -> NodePlan {
        plan(pods, Some(list(&[(&["gateway"], 10), (&["store"], 11)])))
    }

    fn after(self, pods: &[Facts]) -> NodePlan {
        match self {
            // Selectors that no list has had: the peer takes a detour to its new class.
            Self::Chain | Self::ChainThenSync | Self::ChainOfBefore => {
                let other = list(&[(&["gateway", "guard"], 20), (&["store"], 21)]);
                plan(pods, Some(other))
            }
            Self::LastChain => plan(pods, None),
            Self::Class => {
                let mut pods = pods.to_vec();
                pods[1].kind = "store".to_owned();
                self.before(&pods)
            }
        }
    }
}

/// A policy of the pod `a` that marks what it sends to these kinds of pods.
fn list(to: &[(&[&str], i64)]) -> Policy {
    let rules = to.iter().map(|(kinds, dscp)| Rule {
        to: vec![to_kinds(kinds)],
        ..marking(*dscp)
    });
    policy("p", 1, "player", rules.collect())
}

fn plan(pods: &[Facts], policy: Option<Policy>) -> NodePlan {
    let mut index = Index::for_node("node1");
    let objects = pods.iter().flat_map(Facts::objects);
    for change in objects.chain(policy.map(Change::Policy)) {
        index.apply(change);
    }
    index.take_delta();
    index.plan().clone()
}
