//! terway-qos divides the lines; here it is told how, by files.
//!
//! | file | what it says |
//! |---|---|
//! | `/var/lib/terway/qos/global_bps_config` | the line and its shares, such that terway-qos takes them |
//! | `/var/lib/terway/qos/pod.json` | each pod's priority, cgroup and limits |
//! | `/var/lib/terway/qos/per_cgroup_bps_limit` | the same limits once more: until it read `pod.json`, terway-qos knew them from here only, and kept those of a file that is gone, so that it is there also when it is empty |
//! | `/var/run/koordinator/net/node` | the line and its shares, exactly, for who follows the proposal |
//! | `/var/run/koordinator/net/pods` | each pod with the rules of its flows, likewise |
//!
//! The first three are put in place all or not at all, and each at once: terway-qos reads a file as
//! soon as it changes, and takes half of one for less. The folder is terway-qos' own, and where it is
//! not there, neither is terway-qos.

mod files;
mod limits;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_api::koordinator::net_files::{NetPod, node_json, pods_json};
use netqos_api::terway::{GlobalBps, PodEntry, pod_json};
use netqos_core::classes::{ClassPlan, LineShares, PartId, Share, Shares, TrafficClass};
use netqos_core::{BitRate, Direction};

use crate::{ClassBackend, Error, Outcome, Result, Standing, Traffic, Trouble};
use files::{Folder, invalid};

/// Where terway-qos reads.
pub const TERWAY_FOLDER: &str = "/var/lib/terway/qos";
/// Where who follows the proposal reads.
pub const NET_FOLDER: &str = "/var/run/koordinator/net";
/// What stands for the lines in [`ClassBackend::standing`] where it is not one whose name is known: the
/// files name none.
pub const ALL_LINES: &str = "*";

const GLOBAL: &str = "global_bps_config";
const PODS: &str = "pod.json";
const CGROUPS: &str = "per_cgroup_bps_limit";
const NODE: &str = "node";
const NET_PODS: &str = "pods";
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// The backend that tells terway-qos what to do.
#[derive(Clone, Debug)]
pub struct TerwayQos {
    terway: PathBuf,
    net: PathBuf,
    /// The lines of the last plan.
    lines: Vec<Arc<str>>,
}

impl Default for TerwayQos {
    fn default() -> Self {
        Self::new(TERWAY_FOLDER, NET_FOLDER)
    }
}

impl TerwayQos {
    /// Writes what terway-qos reads to the one folder, and what the proposal has to the other.
    pub fn new(terway: impl Into<PathBuf>, net: impl Into<PathBuf>) -> Self {
        Self {
            terway: terway.into(),
            net: net.into(),
            lines: Vec::new(),
        }
    }

    fn folders(&self) -> [Folder<'_>; 2] {
        [
            Folder::new(&self.terway, &[GLOBAL, PODS, CGROUPS]),
            Folder::new(&self.net, &[NODE, NET_PODS]),
        ]
    }
}

impl ClassBackend for TerwayQos {
    fn kind(&self) -> BackendKind {
        BackendKind::TerwayQos
    }

    fn apply(&mut self, plan: &ClassPlan) -> Result<Outcome> {
        if !self.terway.is_dir() {
            let what = "is not there, and so neither is terway-qos, which reads there; where the agent runs \
                        in a container, it has to be mounted (agent.classBackends of the chart)";
            let source = io::Error::new(io::ErrorKind::NotFound, what);
            let path = self.terway.clone();
            return Err(Error::File { path, source });
        }
        let mut outcome = Outcome::default();
        let troubles = &mut outcome.troubles;
        let unknown = plan.lines.iter().find(|(_, shares)| shares.is_open());
        let shares = match unknown {
            None => together(plan, troubles),
            Some((line, _)) => {
                let what = "terway-qos divides no line of which it is not known what it carries; it is \
                            told of the limits of pods alone";
                troubles.push(Trouble {
                    line: Some(line.clone()),
                    part: None,
                    what: what.to_owned(),
                });
                None
            }
        };
        // What is all zero holds nobody back.
        let global = shares.as_ref().map(GlobalBps::for_terway);
        if let Some(shares) = &shares {
            limits::clamped(plan, shares, troubles);
        }
        let entries = entries(plan, troubles);
        limits::untold(plan, troubles);
        let [terway, net] = self.folders();
        outcome.changes = terway.hold(&[
            (GLOBAL, global.unwrap_or_default().to_string()),
            (CGROUPS, limits::per_cgroup(&entries)),
            (PODS, pod_json(entries)),
        ])?;
        let node = shares.as_ref().map(node_json);
        let written = match node {
            Some(node) => net
                .make()
                .and_then(|()| net.hold(&[(NODE, node), (NET_PODS, pods_json(&net_pods(plan)))])),
            None => net.empty(),
        };
        match written {
            Ok(changes) => outcome.changes += changes,
            Err(error) => troubles.push(Trouble {
                line: None,
                part: None,
                what: error.to_string(),
            }),
        }
        self.lines = plan.lines.keys().cloned().collect();
        outcome.lines.clone_from(&self.lines);
        Ok(outcome)
    }

    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>> {
        let [terway, _] = self.folders();
        let (Some(global), Some(pods)) = (terway.read(GLOBAL)?, terway.read(PODS)?) else {
            return Ok(BTreeMap::new());
        };
        let global =
            GlobalBps::parse(&global).map_err(|error| invalid(&self.terway.join(GLOBAL), error))?;
        let pods: BTreeMap<Arc<str>, PodEntry> =
            serde_json::from_str(&pods).map_err(|error| invalid(&self.terway.join(PODS), error))?;
        if global == GlobalBps::default() {
            return Ok(BTreeMap::new());
        }
        let line = match &self.lines[..] {
            [line] => line.clone(),
            _ => ALL_LINES.into(),
        };
        let standing = standing_of(&global, &pods, &self.terway.join(GLOBAL))?;
        Ok(BTreeMap::from([(line, standing)]))
    }

    /// terway-qos has the packets.
    fn traffic(&mut self, _: &str) -> Result<Traffic> {
        Ok(Traffic::new())
    }

    fn teardown(&mut self) -> Result<()> {
        let [terway, net] = self.folders();
        let emptied = [terway.empty(), net.empty().inspect(|_| net.remove())];
        let errors: Vec<Error> = emptied.into_iter().filter_map(Result::err).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Error::Several(errors)),
        }
    }
}

/// The lines as the one that terway-qos knows: it counts what goes over all of them together.
fn together(plan: &ClassPlan, troubles: &mut Vec<Trouble>) -> Option<LineShares> {
    let mut lines = plan.lines.values();
    let first = *lines.next()?;
    let sum = lines.try_fold(first, |sum, line| {
        Some(LineShares {
            ingress: added(&sum.ingress, &line.ingress)?,
            egress: added(&sum.egress, &line.egress)?,
        })
    });
    if plan.lines.len() > 1 {
        let names: Vec<&str> = plan.lines.keys().map(|name| &**name).collect();
        troubles.push(Trouble {
            line: None,
            part: None,
            what: format!(
                "terway-qos counts all lines together: a class is guaranteed its part of what {} carry \
                 in all, and not of each",
                names.join(" and ")
            ),
        });
    }
    sum.or(Some(first))
}

/// Two lines' shares as those of one. `None`: more than can be said.
fn added(one: &Shares, other: &Shares) -> Option<Shares> {
    let sum = |a: BitRate, b: BitRate| {
        let sum = a.bits_per_second().checked_add(b.bits_per_second());
        sum.map(BitRate::from_bits_per_second)
    };
    let share = |class| {
        let (one, other) = (one.of(class), other.of(class));
        Some(Share {
            min: sum(one.min, other.min)?,
            max: sum(one.max, other.max)?,
        })
    };
    Shares::try_new(
        sum(one.total, other.total)?,
        share(TrafficClass::LatencySensitive)?,
        share(TrafficClass::BestEffort)?,
    )
    .ok()
}

/// What terway-qos is told of the pods. It knows a pod by its cgroup, and nothing of one without.
fn entries(plan: &ClassPlan, troubles: &mut Vec<Trouble>) -> Vec<PodEntry> {
    let mut entries = Vec::new();
    for (uid, pod) in &plan.pods {
        let Some(cgroup) = pod.place.cgroup.as_deref().and_then(Path::to_str) else {
            troubles.push(Trouble {
                line: None,
                part: Some(PartId {
                    pod: uid.clone(),
                    flow: None,
                }),
                what: format!(
                    "{}: its cgroup is not known, by which terway-qos knows a pod",
                    pod.id.name
                ),
            });
            continue;
        };
        let name = (&*pod.id.name.namespace, &*pod.id.name.name);
        let rates = limits::rates(pod);
        entries.push(PodEntry::new(name, uid, pod.class, cgroup, rates));
    }
    entries
}

fn net_pods(plan: &ClassPlan) -> Vec<NetPod> {
    let pods = plan.pods.iter().map(|(uid, pod)| NetPod {
        id: netqos_core::PodId {
            uid: uid.clone(),
            ..pod.id.clone()
        },
        class: pod.class,
        cgroup: pod.place.cgroup.clone(),
        asked: pod.asked,
        flows: pod.flows.clone(),
    });
    pods.collect()
}

fn standing_of(
    global: &GlobalBps,
    pods: &BTreeMap<Arc<str>, PodEntry>,
    path: &Path,
) -> Result<Standing> {
    let shares = global.shares().map_err(|mistakes| {
        let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        invalid(path, mistakes.join("; "))
    })?;
    let mut standing = Standing::default();
    for direction in DIRECTIONS {
        for class in TrafficClass::ALL {
            let Share { min, max } = shares.of(direction).of(class);
            standing.classes.insert((direction, class), (min, max));
        }
        for (uid, pod) in pods {
            let bytes = match direction {
                Direction::Ingress => pod.qos_config.ingress_bandwidth,
                Direction::Egress => pod.qos_config.egress_bandwidth,
            };
            if bytes > 0 {
                let id = PartId {
                    pod: uid.clone(),
                    flow: None,
                };
                let most = BitRate::from_bits_per_second(bytes.saturating_mul(8));
                standing
                    .parts
                    .insert((direction, id), (BitRate::default(), most));
            }
        }
    }
    Ok(standing)
}
