//! What a limit gives: goodput, the first second, the wait of small flows, processor time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use netqos_core::BitRate;
use netqos_testkit::{Call, Node, Pod};
use netqos_traffic::{Flow, LatencyTest, Server, TcpTest};
use serde::{Deserialize, Serialize};

use super::calls::configuration;
use super::{Arguments, Who, busy_seconds, median};

const MEGABIT: u64 = 1_000_000;
/// What containerd sends when the pod says no burst, in bits.
const CONTAINERD_BURST: u64 = 4_294_967_295;
/// What a full frame carries for TCP.
const TCP_SHARE: f64 = 1448.0 / 1514.0;

/// What one limit gave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Given {
    pub who: Who,
    /// The limit.
    pub limit: BitRate,
    /// `upload` is the pod's egress.
    pub flow: Flow,
    /// TCP goodput as a share of what the limit can carry.
    pub goodput: f64,
    /// Round trips of small datagrams meanwhile, in milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// The first second under the burst that containerd makes up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstSecond {
    pub who: Who,
    pub flow: Flow,
    /// TCP goodput in bit/s.
    pub rate: BitRate,
}

/// What bulk costs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Processor {
    pub limit: BitRate,
    pub flow: Flow,
    /// Seconds of one core for 10^9 bits, of the whole machine.
    pub ours: f64,
    pub theirs: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    pub given: Vec<Given>,
    pub first_second: Vec<FirstSecond>,
    pub processor: Vec<Processor>,
}

/// A pod for each plugin, and a server in a third.
struct Field<'a> {
    node: &'a Node,
    arguments: &'a Arguments,
    server: Server,
    round: usize,
}

/// Runs all measurements, the two plugins in turn.
pub fn measure(node: &Node, arguments: &Arguments) -> Result<Traffic> {
    let other = node.pod("server")?;
    let address = SocketAddr::new(other.address().parse()?, 0);
    let server = other.inside(|| Server::bind(address))??;
    let mut field = Field {
        node,
        arguments,
        server,
        round: 0,
    };
    let flows = [Flow::Download, Flow::Upload];
    let everybody = [Who::Theirs, Who::Ours];

    let mut given = Vec::new();
    for megabits in [1, 10, 100, 1000] {
        for flow in flows {
            let mut runs = [Vec::new(), Vec::new()];
            for _ in 0..arguments.repeats {
                for (who, runs) in everybody.into_iter().zip(&mut runs) {
                    runs.push(field.saturate(who, megabits * MEGABIT, flow)?);
                }
            }
            for (who, runs) in everybody.into_iter().zip(runs) {
                let of =
                    |pick: fn(&(f64, f64, f64)) -> f64| median(runs.iter().map(pick).collect());
                given.push(Given {
                    who,
                    limit: BitRate::from_bits_per_second(megabits * MEGABIT),
                    flow,
                    goodput: of(|run| run.0),
                    p50: of(|run| run.1),
                    p99: of(|run| run.2),
                });
                eprintln!("{:?}", given[given.len() - 1]);
            }
        }
    }

    let mut first_second = Vec::new();
    for flow in flows {
        for who in everybody {
            let rates: Result<Vec<f64>> = (0..arguments.repeats)
                .map(|_| field.first_second(who, flow))
                .collect();
            let rate = BitRate::from_bits_per_second(median(rates?) as u64);
            first_second.push(FirstSecond { who, flow, rate });
        }
    }

    let mut processor = Vec::new();
    for megabits in [1000, 5000] {
        for flow in flows {
            let mut costs = [Vec::new(), Vec::new()];
            for _ in 0..arguments.repeats {
                for (who, costs) in everybody.into_iter().zip(&mut costs) {
                    costs.push(field.processor(who, megabits * MEGABIT, flow)?);
                }
            }
            let [theirs, ours] = costs.map(median);
            let limit = BitRate::from_bits_per_second(megabits * MEGABIT);
            processor.push(Processor {
                limit,
                flow,
                ours,
                theirs,
            });
            eprintln!("{:?}", processor[processor.len() - 1]);
        }
    }
    Ok(Traffic {
        given,
        first_second,
        processor,
    })
}

impl Field<'_> {
    /// A pod held to this rate by this plugin.
    fn pod(&mut self, who: Who, rate: u64, burst: u64) -> Result<Pod> {
        self.round += 1;
        let pod = self.node.pod(&format!("t{}", self.round))?;
        Call::of(
            self.arguments.plugin(who),
            "ADD",
            &pod,
            &configuration(&pod, rate, burst),
        )
        .succeed()?;
        Ok(pod)
    }

    fn remove(&self, who: Who, pod: Pod) -> Result<()> {
        Call::of(
            self.arguments.plugin(who),
            "DEL",
            &pod,
            &configuration(&pod, 8000, 8000),
        )
        .succeed()?;
        self.node.remove_pod(pod)
    }

    fn tcp(&self, flow: Flow, omit: f64, seconds: f64) -> TcpTest {
        TcpTest {
            flow,
            omit: Duration::from_secs_f64(omit),
            duration: Duration::from_secs_f64(seconds),
            congestion_control: Some("cubic".to_owned()),
            ..TcpTest::new(self.server.local_addr())
        }
    }

    /// A burst that somebody chose with care: ten milliseconds, or 32 kB.
    fn sane_burst(rate: u64) -> u64 {
        (rate / 100).max(256_000)
    }

    /// Goodput as a share of the ideal without requests beside it, then the round trips of
    /// requests with it.
    fn saturate(&mut self, who: Who, rate: u64, flow: Flow) -> Result<(f64, f64, f64)> {
        let burst = if who == Who::Ours {
            CONTAINERD_BURST
        } else {
            Self::sane_burst(rate)
        };
        let pod = self.pod(who, rate, burst)?;
        // Long enough for what was saved up, and for a slow limit's queue, to be a small part: a hole
        // that is filled after a second hands the receiver all that came behind it at once.
        let (omit, seconds) = if rate < 10 * MEGABIT {
            (5.0, 15.0)
        } else {
            (1.0, 2.0)
        };
        let alone = self.tcp(flow, omit, seconds);
        let goodput = pod
            .inside(|| alone.run(|_| ()))??
            .goodput
            .rate
            .bits_per_second() as f64;
        let load = self.tcp(flow, 0.5, 2.5);
        let echo = LatencyTest {
            interval: Duration::from_millis(if rate < 10 * MEGABIT { 25 } else { 2 }),
            duration: Duration::from_secs(2),
            ..LatencyTest::new(self.server.local_addr())
        };
        let report = std::thread::scope(|scope| {
            let load = scope.spawn(|| pod.inside(|| load.run(|_| ())));
            std::thread::sleep(Duration::from_millis(700));
            let report = pod.inside(|| echo.run(|_| ()));
            let _ = load.join();
            report
        })??;
        self.remove(who, pod)?;
        let trips = report.round_trip.context("no request was answered")?;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        Ok((
            goodput / (rate as f64 * TCP_SHARE),
            milliseconds(trips.p50),
            milliseconds(trips.p99),
        ))
    }

    /// Goodput of the first second of a 10 Mbit/s pod.
    fn first_second(&mut self, who: Who, flow: Flow) -> Result<f64> {
        let pod = self.pod(who, 10 * MEGABIT, CONTAINERD_BURST)?;
        let test = self.tcp(flow, 0.0, 1.0);
        let report = pod.inside(|| test.run(|_| ()))??;
        self.remove(who, pod)?;
        Ok(report.goodput.rate.bits_per_second() as f64)
    }

    /// Processor time of the machine for 10^9 bits of bulk.
    fn processor(&mut self, who: Who, rate: u64, flow: Flow) -> Result<f64> {
        let pod = self.pod(who, rate, Self::sane_burst(rate))?;
        let warm = self.tcp(flow, 0.0, 0.5);
        pod.inside(|| warm.run(|_| ()))??;
        let test = self.tcp(flow, 0.0, 3.0);
        let before = busy_seconds()?;
        let report = pod.inside(|| test.run(|_| ()))??;
        let busy = busy_seconds()? - before;
        self.remove(who, pod)?;
        Ok(busy / (report.goodput.received.bytes() as f64 * 8.0 / 1e9))
    }
}
