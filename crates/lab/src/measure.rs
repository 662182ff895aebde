//! Running one measurement of a scenario on a node.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netqos_traffic::{Flow, LatencyTest, Sample, Server, TcpTest, TrafficError, UdpTest};

use crate::manifest::{Load, Measurement, Place, What};
use crate::node::{Node, Way};
use crate::report::{LoadReport, Outcome, Part};
use crate::{LabError, Progress, netns};

/// How long a load fills the path before what is measured under it begins.
const RAMP: Duration = Duration::from_secs(1);

/// How long a load goes on after that, so that it is there to the end.
const TAIL: Duration = Duration::from_millis(300);

/// A response that takes longer is lost. A queue of a slow link may hold seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What came of a measurement, and of its load.
pub(crate) struct Measured {
    pub(crate) outcome: Result<Outcome, TrafficError>,
    /// What came from each place, where there are several.
    pub(crate) parts: Vec<Part>,
    pub(crate) load: Option<LoadReport>,
}

/// Measures.
///
/// # Errors
///
/// What keeps it from being tried at all. That nothing arrives, and the like, is an outcome.
pub(crate) fn measure(
    node: &Node,
    measurement: &Measurement,
    progress: &Progress,
) -> Result<Measured, LabError> {
    let timing = Timing {
        omit: measurement.omit,
        duration: measurement.duration,
    };
    let run = || {
        from_all(node, measurement, timing, &|now| {
            progress.update(&format!("{}: {now}", measurement.name));
        })
    };
    let Some(load) = &measurement.load else {
        return run();
    };
    let load_timing = Timing {
        omit: RAMP,
        duration: timing
            .omit
            .saturating_add(timing.duration)
            .saturating_add(TAIL),
    };
    thread::scope(|scope| {
        let loading = scope.spawn(|| fill(node, load, load_timing));
        thread::sleep(RAMP);
        let measured = run()?;
        let load = loading
            .join()
            .map_err(|_| LabError::Panicked("fill a path"))??;
        Ok(Measured {
            load: Some(load),
            ..measured
        })
    })
}

/// From all of its places at once.
fn from_all(
    node: &Node,
    measurement: &Measurement,
    timing: Timing,
    on_progress: &(dyn Fn(String) + Sync),
) -> Result<Measured, LabError> {
    let Measurement { to, what, .. } = measurement;
    let way = measurement.way();
    let one = |from: &Place, on_progress: &(dyn Fn(String) + Sync)| {
        between(node, from, to, way, what, timing, on_progress)
    };
    if measurement.beside.is_empty() {
        return Ok(Measured {
            outcome: one(&measurement.from, on_progress)?,
            parts: Vec::new(),
            load: None,
        });
    }
    let outcomes = thread::scope(|scope| {
        let others: Vec<_> = measurement
            .beside
            .iter()
            .map(|from| scope.spawn(move || one(from, &|_| ())))
            .collect();
        let first = one(&measurement.from, on_progress);
        let others = others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or(Err(LabError::Panicked("measure from several places")))
        });
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        all
    });
    let (mut parts, mut found) = (Vec::new(), Vec::new());
    for (from, outcome) in measurement.senders().zip(outcomes) {
        match outcome? {
            Err(why) => {
                return Ok(Measured {
                    outcome: Err(why),
                    parts: Vec::new(),
                    load: None,
                });
            }
            Ok(outcome) => {
                let goodput = outcome.rate();
                parts.push(Part {
                    from: from.clone(),
                    goodput,
                });
                found.push(outcome);
            }
        }
    }
    let together = Outcome::together(found).ok_or(LabError::Panicked("add up what it found"))?;
    Ok(Measured {
        outcome: Ok(together),
        parts,
        load: None,
    })
}

#[derive(Clone, Copy)]
struct Timing {
    omit: Duration,
    duration: Duration,
}

fn fill(node: &Node, load: &Load, timing: Timing) -> Result<LoadReport, LabError> {
    let (way, nothing) = (Way::default(), |_| ());
    let outcome = between(
        node, &load.from, &load.to, way, &load.what, timing, &nothing,
    )?;
    let (goodput, error) = match outcome {
        Ok(outcome) => (outcome.rate(), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(LoadReport {
        kind: load.what.kind().to_owned(),
        from: load.from.clone(),
        to: load.to.clone(),
        goodput,
        error,
    })
}

fn between(
    node: &Node,
    from: &Place,
    to: &Place,
    way: Way<'_>,
    what: &What,
    timing: Timing,
    on_progress: &(dyn Fn(String) + Sync),
) -> Result<Result<Outcome, TrafficError>, LabError> {
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
) -> Result<Outcome, TrafficError> {
    let Timing { omit, duration } = timing;
    let on_sample = |sample: Sample| on_progress(live(sample));
    match what {
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
    }
}

fn live(sample: Sample) -> String {
    format!(
        "{}  {:.1} s",
        crate::report::rounded(sample.rate()),
        sample.at.as_secs_f64()
    )
}
