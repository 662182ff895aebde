//! What is in force on the node is told to the controller.
//!
//! ```text
//!   engine ── NodeReport, when it is another one ──► writer ── server-side apply ──► API server
//! ```
//!
//! The engine never waits for it: it leaves the newest report where the writer finds it. One write is
//! at some time from two to five seconds after something has changed, and at least five after the one
//! before, so that thousands of agents that one change concerns do not write at once, and that what
//! passes by itself, such as a pod that runs a moment before its interface is found, is not written.
//! What cannot be written is tried again, later each time; what is written then is how things are by
//! then.
//!
//! What nobody has changed is written again every ten minutes: a report that somebody has deleted, or
//! changed, is there again then. That the server has it already costs it no more than the request.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use netqos_cluster::{Client, Undeclared, WriteError, apply};
use netqos_core::{NodeReport, ObjectName, ObjectRef, Problem, ReportedProblem};
use netqos_k8s::NetworkQoSNodeReport;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// As whom the server knows who wrote it.
const MANAGER: &str = "netqos-agent";
/// The least time between two writes, and the most that a first one waits.
const APART: Duration = Duration::from_secs(5);
/// How long a first one waits at least.
const LASTS: Duration = Duration::from_secs(2);
/// How long it waits after the first failure, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long where the kind does not exist: a definition is not installed by the minute.
const UNKNOWN: Duration = Duration::from_secs(300);

/// The fields that not all versions of the definition have, and without which what is told is true. That
/// there are more problems than are named is none of them: who is not told would take it for all.
const OPTIONAL: [&str; 2] = ["agentPod", "uid"];

fn leave_out(fields: &Undeclared, report: &mut NetworkQoSNodeReport) {
    report.agent_pod.take_if(|_| fields.has("agentPod"));
    for policy in &mut report.policies {
        policy.uid.take_if(|_| fields.has("uid"));
    }
}

/// Writes each new report, and the last one again after `refresh`, until nobody reports any more.
pub(crate) async fn write(client: Client, mut reports: Receiver<NodeReport>, refresh: Duration) {
    let mut written = None;
    let mut earliest = Instant::now();
    let mut failures = 0;
    // Not all agents at the same time, where they have been started so.
    let next = || Instant::now() + refresh - random(refresh / 10);
    let mut refresh_at = next();
    // What the definition does not have, where it is one of an older version.
    let mut undeclared = Undeclared::among(&OPTIONAL);
    loop {
        let has_changed = match timeout_at(refresh_at, reports.changed()).await {
            Ok(Err(_)) => return,
            Ok(Ok(())) => {
                let lasts = LASTS + random(APART - LASTS);
                sleep_until(earliest.max(Instant::now() + lasts)).await;
                true
            }
            Err(_) => false,
        };
        // Also where something changes all the time.
        if Instant::now() >= refresh_at {
            refresh_at = next();
            undeclared = Undeclared::among(&OPTIONAL);
            let is_any = written.take().is_some();
            if !has_changed && !is_any {
                continue;
            }
        }
        loop {
            let report = reports.borrow_and_update().clone();
            if written.as_ref() == Some(&report) {
                break;
            }
            earliest = Instant::now() + APART;
            let mut object = NetworkQoSNodeReport::of(&report);
            leave_out(&undeclared, &mut object);
            match apply(&client, MANAGER, &object).await {
                Ok(()) => {
                    failures = 0;
                    written = Some(report);
                    break;
                }
                Err(WriteError::Undeclared(why)) if undeclared.add(&why) => {
                    let fields: Vec<&str> = undeclared.fields().collect();
                    tracing::warn!(
                        "what is in force here is told without {}: the definition of \
                         networkqosnodereports is an older one ({why})",
                        fields.join(", ")
                    );
                }
                Err(why) => {
                    match failures {
                        0 => tracing::warn!(
                            "what is in force here cannot be told to the controller: {why}"
                        ),
                        _ => tracing::debug!(failures, "the report is not written: {why}"),
                    }
                    sleep(pause(&why, failures)).await;
                    failures += 1;
                }
            }
        }
    }
}

fn pause(why: &WriteError, failures: u32) -> Duration {
    let (first, most) = AGAIN;
    let pause = match why {
        WriteError::UnknownKind(_) => UNKNOWN,
        _ => first.saturating_mul(1 << failures.min(16)).min(most),
    };
    pause / 2 + random(pause / 2)
}

/// Any time up to this.
fn random(most: Duration) -> Duration {
    let bits = RandomState::new().build_hasher().finish();
    most.mul_f64((bits >> 11) as f64 / (1_u64 << 53) as f64)
}

/// A problem in a report. What stands in a file, or has no kind of its own, is the node's.
pub(crate) fn reported(problem: &Problem, node: &str) -> ReportedProblem {
    let (kind, object) = match &problem.object {
        ObjectRef::Policy(name) => ("NetworkQoS", name.clone()),
        ObjectRef::Pod(name) => ("Pod", name.clone()),
        ObjectRef::Quota(name) => ("NetworkQoSQuota", ObjectName::new("", name)),
        ObjectRef::Profile(name) => ("BandwidthProfile", name.clone()),
        ObjectRef::Node(name) => ("Node", ObjectName::new("", name)),
        ObjectRef::File(_) => ("Node", ObjectName::new("", node)),
    };
    ReportedProblem {
        kind: kind.to_owned(),
        object,
        reason: problem.reason.to_string(),
        message: problem.message.clone(),
    }
}
