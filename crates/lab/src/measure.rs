//! Running one measurement of a scenario on a node.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use netqos_traffic::{Flow, LatencyTest, Sample, Server, TcpTest, TrafficError, UdpTest};

use crate::manifest::{Change, Load, Measurement, Place, What};
use crate::node::{Node, Way};
use crate::report::{ChangeReport, FlowReport, LoadReport, Outcome, Part};
use crate::{LabError, Progress, netns};

/// A response that takes longer is lost. A queue of a slow link may hold seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is looked at what arrived, where it matters when that is how much.
const FINE: Duration = Duration::from_millis(20);

/// What came of a measurement, and of its load.
pub(crate) struct Measured {
    pub(crate) outcome: Result<Outcome, TrafficError>,
    /// What came from each place, where there are several.
    pub(crate) parts: Vec<Part>,
    pub(crate) load: Option<LoadReport>,
    /// All that was sent on one axis of time, where there is more to see than the outcome.
    pub(crate) flows: Vec<FlowReport>,
    /// What was changed meanwhile.
    pub(crate) changes: Vec<ChangeReport>,
}

/// What a meter found.
struct Found {
    outcome: Outcome,
    /// When its first byte arrived, where that was counted.
    began: Option<Instant>,
}

/// What a meter found, or why nothing arrived; anything else keeps it from being tried at all.
type Tried = Result<Result<Found, TrafficError>, LabError>;

/// Measures, and has each change made when its time has come.
///
/// # Errors
///
/// What keeps it from being tried at all. That nothing arrives, and the like, is an outcome.
pub(crate) fn measure(
    node: &Node,
    measurement: &Measurement,
    progress: &Progress,
    make: &(dyn Fn(&Change) -> Result<(), LabError> + Sync),
) -> Result<Measured, LabError> {
    let timing = Timing {
        omit: measurement.omit,
        duration: measurement.duration,
        interval: match measurement.expect.reaches {
            Some(_) => FINE,
            None => netqos_traffic::INTERVAL,
        },
    };
    let begins = Instant::now();
    let load = measurement.load.as_ref();
    let before = load.map_or(Duration::ZERO, |load| load.before);
    thread::scope(|scope| {
        let (running, over) = channel();
        let changing = scope.spawn(move || {
            let due = |change: &Change| begins + before + change.at;
            change_all(&measurement.changes, begins, due, &over, make)
        });
        let loading = load.map(|load| {
            let timing = timing.of_load(load);
            scope.spawn(move || fill(node, load, timing))
        });
        if loading.is_some() {
            thread::sleep(before);
        }
        let found = from_all(node, measurement, timing, &|now| {
            progress.update(&format!("{}: {now}", measurement.name));
        })?;
        let load = match loading {
            None => None,
            Some(loading) => {
                let panicked = |_| LabError::Panicked("fill a path");
                Some(loading.join().map_err(panicked)??)
            }
        };
        drop(running);
        let changing = changing.join();
        let changes = changing.map_err(|_| LabError::Panicked("change objects"))??;
        together(measurement, found, load, changes, begins)
    })
}

/// Makes each change at its time, unless it is over before.
fn change_all(
    changes: &[Change],
    begins: Instant,
    due: impl Fn(&Change) -> Instant,
    over: &Receiver<()>,
    make: &(dyn Fn(&Change) -> Result<(), LabError> + Sync),
) -> Result<Vec<ChangeReport>, LabError> {
    let mut made = Vec::new();
    for change in changes {
        let wait = due(change).saturating_duration_since(Instant::now());
        if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        let at = begins.elapsed();
        make(change)?;
        made.push(ChangeReport {
            at,
            title: change.title.clone(),
        });
    }
    Ok(made)
}

/// From all of its places at once, in their order.
fn from_all(
    node: &Node,
    measurement: &Measurement,
    timing: Timing,
    on_progress: &(dyn Fn(String) + Sync),
) -> Result<Vec<Result<Found, TrafficError>>, LabError> {
    let Measurement { to, what, .. } = measurement;
    let way = measurement.way();
    let one = |from: &Place, on_progress: &(dyn Fn(String) + Sync)| {
        between(node, from, to, way, what, timing, on_progress)
    };
    thread::scope(|scope| {
        let others: Vec<_> = measurement
            .beside
            .iter()
            .map(|from| scope.spawn(move || one(from, &|_| ())))
            .collect();
        let first = one(&measurement.from, on_progress);
        let others = others.into_iter().map(|thread| {
            let panicked = |_| Err(LabError::Panicked("measure from several places"));
            thread.join().unwrap_or_else(panicked)
        });
        std::iter::once(first).chain(others).collect()
    })
}

/// All that came of a measurement.
fn together(
    measurement: &Measurement,
    found: Vec<Result<Found, TrafficError>>,
    load: Option<Result<Found, TrafficError>>,
    changes: Vec<ChangeReport>,
    begins: Instant,
) -> Result<Measured, LabError> {
    let mut measured = Vec::new();
    let mut flows = Vec::new();
    let mut failed = None;
    for (from, found) in measurement.senders().zip(found) {
        match found {
            Ok(found) => {
                flows.extend(found.flow(from, &measurement.to, false, begins));
                measured.push((from, found.outcome));
            }
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    let counted = flows.first().and_then(FlowReport::counted);
    let load = measurement.load.as_ref().zip(load).map(|(load, found)| {
        let flow = found.as_ref().ok();
        let flow = flow.and_then(|it| it.flow(&load.from, &load.to, true, begins));
        let meanwhile = flow.as_ref().zip(counted.clone());
        let meanwhile = meanwhile.and_then(|(flow, counted)| flow.rate_within(counted));
        flows.extend(flow);
        let (goodput, error) = match found {
            Ok(found) => (meanwhile.or(found.outcome.rate()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        LoadReport {
            kind: load.what.kind().to_owned(),
            from: load.from.clone(),
            to: load.to.clone(),
            goodput,
            error,
        }
    });
    if flows.len() < 2 && changes.is_empty() {
        // The outcome has it all.
        flows.clear();
    }
    let mut parts = Vec::new();
    if failed.is_none() && !measurement.beside.is_empty() {
        parts.extend(measured.iter().map(|(from, outcome)| Part {
            from: (*from).clone(),
            goodput: outcome.rate(),
        }));
    }
    let outcome = match failed {
        Some(why) => Err(why),
        None => {
            let outcomes = measured.into_iter().map(|(_, outcome)| outcome);
            let sum = Outcome::together(outcomes.collect());
            Ok(sum.ok_or(LabError::Panicked("add up what it found"))?)
        }
    };
    Ok(Measured {
        outcome,
        parts,
        load,
        flows,
        changes,
    })
}

impl Found {
    /// What it sent over time; `None` where that was not counted.
    fn flow(&self, from: &Place, to: &Place, is_load: bool, begins: Instant) -> Option<FlowReport> {
        let goodput = self.outcome.goodput()?;
        Some(FlowReport {
            from: from.clone(),
            to: to.clone(),
            is_load,
            began: self.began?.saturating_duration_since(begins),
            counted: goodput.elapsed,
            samples: goodput.samples.clone(),
        })
    }
}

#[derive(Clone, Copy)]
struct Timing {
    omit: Duration,
    duration: Duration,
    /// How often what arrived is looked at.
    interval: Duration,
}

impl Timing {
    /// How long a load goes on: until what is measured under it is over, and after that.
    const fn of_load(self, load: &Load) -> Self {
        let meanwhile = self.omit.saturating_add(self.duration);
        Self {
            omit: load.before,
            duration: meanwhile.saturating_add(load.after),
            interval: self.interval,
        }
    }
}

fn fill(node: &Node, load: &Load, timing: Timing) -> Tried {
    let (way, nothing) = (Way::default(), |_| ());
    between(
        node, &load.from, &load.to, way, &load.what, timing, &nothing,
    )
}

fn between(
    node: &Node,
    from: &Place,
    to: &Place,
    way: Way<'_>,
    what: &What,
    timing: Timing,
    on_progress: &(dyn Fn(String) + Sync),
) -> Tried {
    let (from, to) = node.ends(from, to, way)?;
    let bind = || Server::bind(SocketAddr::new(to.address, 0));
    let server = match netns::inside(to.namespace, "serve in a pod", bind)? {
        Ok(server) => server,
        Err(error) => return Ok(Err(error)),
    };
    netns::inside(from.namespace, "measure from a pod", || {
        run(what, server.local_addr(), timing, on_progress)
    })
}

/// Runs it from the calling thread's namespace.
fn run(
    what: &What,
    server: SocketAddr,
    timing: Timing,
    on_progress: &dyn Fn(String),
) -> Result<Found, TrafficError> {
    let Timing {
        omit,
        duration,
        interval,
    } = timing;
    let mut began = None;
    let on_sample = |sample: Sample| {
        on_progress(live(sample));
        // The one that was told with the least delay knows best.
        let first_byte = Instant::now().checked_sub(sample.at);
        began = began.min(first_byte).or(first_byte);
    };
    let outcome = match what {
        What::Tcp {
            streams,
            congestion_control,
        } => {
            let test = TcpTest {
                server,
                flow: Flow::Upload,
                streams: *streams,
                omit,
                duration,
                congestion_control: congestion_control.clone(),
                interval,
            };
            test.run(on_sample).map(Outcome::Tcp)
        }
        What::Udp {
            rate, size, dscp, ..
        } => {
            let test = UdpTest {
                server,
                flow: Flow::Upload,
                rate: *rate,
                size: *size,
                omit,
                duration,
                dscp: *dscp,
            };
            test.run(on_sample).map(Outcome::Udp)
        }
        What::Latency { size, interval } => {
            // The first exchanges teach the kernel who is where.
            let warm_up = LatencyTest {
                duration: interval.saturating_mul(5),
                interval: *interval,
                timeout: RESPONSE_TIMEOUT,
                ..LatencyTest::new(server)
            };
            warm_up.run(|_| ())?;
            let test = LatencyTest {
                server,
                size: *size,
                interval: *interval,
                duration,
                timeout: RESPONSE_TIMEOUT,
                dscp: netqos_traffic::Dscp::default(),
            };
            let mut shown = Duration::ZERO;
            let report = test.run(|echo| {
                if echo.at >= shown {
                    shown = echo.at + netqos_traffic::INTERVAL;
                    let (trip, at) = (echo.round_trip, echo.at.as_secs_f64());
                    on_progress(format!("{trip:.2?}  {at:.1} s"));
                }
            });
            report.map(Outcome::Latency)
        }
    }?;
    Ok(Found { outcome, began })
}

fn live(sample: Sample) -> String {
    format!(
        "{}  {:.1} s",
        crate::report::rounded(sample.rate()),
        sample.at.as_secs_f64()
    )
}
