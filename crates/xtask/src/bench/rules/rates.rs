//! What of a rule's rate TCP and UDP reach.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use netqos_api::HookChoice;
use netqos_testkit::rules::measure::{Case, WAYS, Ways};
use netqos_testkit::rules::{World, limiting, mbit};
use netqos_traffic::UdpTest;
use serde::{Deserialize, Serialize};

use super::Spread;

/// Rates of rules, in Mbit/s.
const RATES: [u64; 5] = [1, 10, 20, 100, 1000];
const POLICED: [u64; 2] = [20, 100];
/// What of a datagram's frame is payload, by IPv4.
const UDP_SHARE: f64 = 1400.0 / 1442.0;

const NO_ROOT: &str = "the benchmark makes network namespaces, which needs root";

/// What is sent, and which way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stream {
    pub megabits: u64,
    /// Round trip in milliseconds; 0: as short as it is between two pods.
    pub way: u64,
    /// `cubic`, `bbr`; `udp`.
    pub control: String,
}

/// What a stream reached, as a share of what the rate can carry.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    pub stream: Stream,
    pub share: Spread,
}

/// The figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    pub repeats: usize,
    /// Through a rule's queue.
    pub queued: Vec<Reached>,
    /// Where a rule has none, and drops.
    pub policed: Vec<Reached>,
}

/// Measures each stream so often, all of them in turn.
pub fn measure(repeats: usize) -> Result<Rates> {
    Ok(Rates {
        repeats,
        queued: on_a_thread(move || {
            let ways = Ways::new(HookChoice::Auto).context(NO_ROOT)?;
            table(ways, &RATES, repeats, "rates")
        })?,
        policed: on_a_thread(move || {
            let mut world = World::new(HookChoice::Auto).context(NO_ROOT)?;
            // One pod that has no end on the node, and no rule of theirs queues.
            world.macvlan_pod("without", "player");
            table(Ways::of(world), &POLICED, repeats, "policer")
        })?,
    })
}

fn on_a_thread(
    act: impl FnOnce() -> Result<Vec<Reached>> + Send + 'static,
) -> Result<Vec<Reached>> {
    let found = thread::spawn(act).join();
    found.map_err(|_| anyhow!("a measurement of rates panicked"))?
}

fn table(mut ways: Ways, rates: &[u64], repeats: usize, what: &str) -> Result<Vec<Reached>> {
    let mut shares: BTreeMap<Stream, Vec<f64>> = BTreeMap::new();
    for repeat in 0..repeats {
        eprintln!("{what}: {} of {repeats}", repeat + 1);
        for case in Case::all(rates) {
            let stream = Stream {
                megabits: case.megabits,
                way: WAYS[case.way].0.as_millis() as u64,
                control: case.control.to_owned(),
            };
            let share = ways.share(case, seconds(case.megabits));
            shares.entry(stream).or_default().push(share);
        }
        for &megabits in rates {
            let stream = Stream {
                megabits,
                way: 0,
                control: "udp".to_owned(),
            };
            let share = datagrams(&mut ways, megabits)?;
            shares.entry(stream).or_default().push(share);
        }
    }
    let reached = |(stream, shares)| Reached {
        stream,
        share: Spread::whole(shares),
    };
    Ok(shares.into_iter().map(reached).collect())
}

/// At 1 Mbit/s the queue alone is 16 frames, a fifth of a second.
fn seconds(megabits: u64) -> f64 {
    if megabits < 10 { 4.5 } else { 1.5 }
}

/// UDP at one and a half times the rule's rate: goodput, of what the rate can carry.
fn datagrams(ways: &mut Ways, megabits: u64) -> Result<f64> {
    ways.rule(limiting(megabits));
    let near = WAYS[0].1;
    let test = UdpTest {
        // What is saved up is gone by then, the policer's 200 ms included.
        omit: Duration::from_millis(500),
        duration: Duration::from_secs_f64(if megabits < 10 { 4.0 } else { 1.0 }),
        ..UdpTest::new(ways.world.address(near, false), mbit(megabits * 3 / 2 + 1))
    };
    let report = ways.world.run("sender", || test.run(|_| ()))?;
    let rate = report.goodput.rate.bits_per_second() as f64;
    Ok(rate / (megabits as f64 * 1e6 * UDP_SHARE))
}
