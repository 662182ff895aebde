//! What a change costs: in the index, and to the kernel.

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Result, ensure};
use netqos_core::{Bandwidth, BitRate, Dscp, LabelSelector, ObjectName, Requirement, Rule};
use netqos_index::Change;
use serde::{Deserialize, Serialize};

use super::Quantiles;
use super::stage::{
    NAMESPACE, NODE, Stage, attachment, marking, marking_to, object, on_a_node, policy,
};

const PODS: u32 = 5_000;
const POLICIES: u32 = 1_000;

/// What changes cost, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    pub pods: u32,
    pub policies: u32,
    pub events: Vec<PodEvent>,
    pub rules: Vec<RuleChange>,
}

/// What one kind of a pod's event costs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEvent {
    pub what: String,
    pub index: Quantiles,
    pub kernel: Quantiles,
    /// To the kernel, when the event before it has only just been.
    pub kernel_at_once: Quantiles,
}

/// What one kind of change of a rule costs, index and kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleChange {
    pub what: String,
    pub apart: Quantiles,
    pub at_once: Quantiles,
}

/// The time between two changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Until the data plane has finished the one before.
    Apart,
    /// None.
    AtOnce,
}

/// Measures so many events of pods, and a tenth as many changes of rules, with 5,000 pods and 1,000
/// policies, of which a tenth are in the namespace of the node's pod.
pub fn measure(events: u32) -> Result<Changes> {
    on_a_node(|node| {
        let mut stage = Stage::on(node)?;
        let pod = stage.pod("sender", "sender")?;
        let of_others = (2..POLICIES).map(|number| {
            let mut policy = policy("nobody", number as usize, vec![marking(1)]);
            let namespace = match number % 10 {
                0 => NAMESPACE.to_owned(),
                _ => format!("team-{}", number % 100),
            };
            policy.name = ObjectName::new(&namespace, &format!("p{number}"));
            policy.pods = LabelSelector::new([Requirement::equals("app", &number.to_string())]);
            Change::Policy(policy)
        });
        stage.apply(of_others)?;
        let to_peers = marking_to("peer", 10);
        let named = |rule: Rule| Change::Policy(policy("sender", 0, vec![rule]));
        let peer = |number: u32, address: u32| {
            let address = Ipv4Addr::from(0x0A80_0000 + address).into();
            object(&format!("far-{number}"), "peer", None, address)
        };
        // What the node's pod is for when its label is another.
        let others = Change::Policy(policy("other", 1, vec![marking_to("peer", 11)]));
        stage.apply([named(to_peers.clone()), others])?;
        stage.apply((0..PODS).map(|number| Change::Pod(peer(number, number))))?;

        let mut cases = Vec::new();
        cases.push(
            stage.event("a peer gets another address", events, |number| {
                vec![Change::Pod(peer(number % PODS, PODS + number))]
            })?,
        );
        let address = pod.address().parse()?;
        let here = |kind: &str| object("sender", kind, Some(NODE), address);
        cases.push(stage.event(
            "a pod of the node gets another label, and other rules by it",
            events,
            |number| {
                let kind = if number % 2 == 0 { "other" } else { "sender" };
                vec![Change::Pod(here(kind))]
            },
        )?);
        // Beside one with the same rules; and the only one, whose rules' peers come and go with it.
        let second = stage.node.pod("second")?;
        let address = second.address().parse()?;
        let object_of_second = object("second", "sender", Some(NODE), address);
        let coming = vec![
            Change::Pod(object_of_second.clone()),
            attachment(&object_of_second, &second),
        ];
        let going = vec![Change::PodGone(object_of_second.id)];
        let (come, go) = stage.back_and_forth(events, &coming, &going)?;
        cases.push(come.named("a pod of the node comes, beside one with the same rules"));
        cases.push(go.named("it goes"));
        let coming = vec![
            Change::Pod(here("sender")),
            attachment(&here("sender"), &pod),
        ];
        let going = vec![Change::PodGone(here("sender").id)];
        stage.apply(going.clone())?;
        let (come, go) = stage.back_and_forth(events / 10, &coming, &going)?;
        cases.push(come.named("the first pod whose rules need those 5,000 peers comes"));
        cases.push(go.named("it goes"));
        stage.apply(coming)?;

        let marked = |round: u64| Rule {
            dscp: Dscp::try_new((round % 60) as i64).ok(),
            ..to_peers.clone()
        };
        let limited = |round: u64| Rule {
            bandwidth: Some(Bandwidth {
                rate: BitRate::from_bits_per_second(10_000_000 + round * 1000),
                burst: None,
            }),
            ..to_peers.clone()
        };
        let mut times = [[vec![], vec![]], [vec![], vec![]]];
        for (pace, at) in [(Pace::Apart, 0), (Pace::AtOnce, 1)] {
            for round in 0..u64::from(events / 10) {
                for (rule, times) in [marked(round), limited(round)].into_iter().zip(&mut times) {
                    let start = Instant::now();
                    stage.apply([named(rule)])?;
                    times[at].push(micros(start));
                    stage.rest(pace)?;
                }
            }
        }
        let rules = ["of its mark", "of its rate"].into_iter().zip(times);
        let rules = rules.map(|(what, [apart, at_once])| RuleChange {
            what: what.to_owned(),
            apart: Quantiles::of(apart),
            at_once: Quantiles::of(at_once),
        });
        stage.rules.tidy()?;
        Ok(Changes {
            pods: PODS,
            policies: POLICIES,
            events: cases,
            rules: rules.collect(),
        })
    })
}

/// Microseconds of each time.
#[derive(Default)]
struct Event {
    index: Vec<f64>,
    kernel: Vec<f64>,
    kernel_at_once: Vec<f64>,
}

impl Event {
    fn named(self, what: &str) -> PodEvent {
        PodEvent {
            what: what.to_owned(),
            index: Quantiles::of(self.index),
            kernel: Quantiles::of(self.kernel),
            kernel_at_once: Quantiles::of(self.kernel_at_once),
        }
    }
}

impl Stage {
    fn event(
        &mut self,
        what: &str,
        events: u32,
        changes: impl Fn(u32) -> Vec<Change>,
    ) -> Result<PodEvent> {
        let mut event = Event::default();
        for number in 0..events {
            self.once(&mut event, Pace::Apart, changes(number))?;
        }
        for number in events..events + events / 10 {
            self.once(&mut event, Pace::AtOnce, changes(number))?;
        }
        self.rest(Pace::Apart)?;
        Ok(event.named(what))
    }

    /// What comes, and goes again.
    fn back_and_forth(
        &mut self,
        events: u32,
        coming: &[Change],
        going: &[Change],
    ) -> Result<(Event, Event)> {
        let (mut come, mut go) = (Event::default(), Event::default());
        for number in 0..events + events / 10 {
            let pace = match number < events {
                true => Pace::Apart,
                false => Pace::AtOnce,
            };
            self.once(&mut come, pace, coming.to_vec())?;
            self.once(&mut go, pace, going.to_vec())?;
        }
        self.rest(Pace::Apart)?;
        Ok((come, go))
    }

    fn once(&mut self, event: &mut Event, pace: Pace, changes: Vec<Change>) -> Result<()> {
        let start = Instant::now();
        for change in changes {
            self.index.apply(change);
        }
        let delta = self.index.take_delta();
        event.index.push(micros(start));
        ensure!(!delta.is_empty(), "an event that changes nothing");
        let start = Instant::now();
        let outcome = self.rules.apply(self.index.plan(), &delta);
        match pace {
            Pace::Apart => event.kernel.push(micros(start)),
            Pace::AtOnce => event.kernel_at_once.push(micros(start)),
        }
        ensure!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        self.rest(pace)
    }

    /// Lets the data plane finish, as an agent does meanwhile.
    fn rest(&mut self, pace: Pace) -> Result<()> {
        if pace == Pace::Apart {
            let outcome = self.rules.finish(self.index.plan());
            ensure!(outcome.problems.is_empty(), "{:?}", outcome.problems);
        }
        Ok(())
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
