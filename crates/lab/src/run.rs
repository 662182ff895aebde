//! A whole run: build, measure, take away.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use netqos_agent::ProblemStatus;

use crate::agent;
use crate::attempts::until_it_holds;
use crate::change::Changed;
use crate::expectation::{configured, divided, failures};
use crate::manifest::{Change, Manifests, Measurement, PodManifest};
use crate::measure::{Measured, measure};
use crate::network::Files;
use crate::node::{self, Node, Plan};
use crate::plugins::{self, Shaper};
use crate::record::Record;
use crate::report::{
    Comparison, Environment, Kept, KeptAgent, LineReport, MeasurementReport, PodReport, Report,
    RuleReport, ShaperReport, Verdict, rounded, timestamp,
};
use crate::standing::Standing;
use crate::{LabError, Progress};

/// How long the agent has until what a measurement changed is as before.
const PUT_BACK: Duration = Duration::from_secs(1);
/// The side without netqos.
const STOCK: &str = "stock";

/// How a scenario is run.
#[derive(Debug)]
pub struct Options {
    /// The lab stays up when it is done, or when it has failed.
    pub keep: bool,
    /// How often a measurement is made at most until what it is expected to find holds.
    pub attempts: NonZeroU32,
    /// Where progress is shown.
    pub progress: Progress,
    /// The agent's executable; `None`: what `NETQOS_AGENT` names, else the one beside this program.
    pub agent: Option<PathBuf>,
}

/// Runs the scenario of a folder. Whatever happens, the lab is taken away in the end, unless it is
/// to be kept.
///
/// SIGINT, SIGTERM and SIGHUP are caught meanwhile: then the lab is taken away, and the process
/// exits with 128 and the signal's number, as a shell would say it.
///
/// # Errors
///
/// What kept it from being measured, see [`LabError`]. An expectation that failed is not an error
/// but in the report.
pub fn run(folder: &Path, options: &Options) -> Result<Report, LabError> {
    let manifests = Manifests::read(folder)?;
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    let plugin_dirs = plugins::folders();
    plugins::check(&manifests.network, &plugin_dirs)?;
    for second in &manifests.objects.networks {
        plugins::check(&second.list, &plugin_dirs)?;
    }
    if manifests.pods.iter().any(PodManifest::selects_networks) {
        plugins::check_multinet(&plugin_dirs)?;
    }
    for host in &manifests.scenario.outside {
        plugins::check(&node::outside_network(host)?, &plugin_dirs)?;
    }
    let agent = match manifests.need_an_agent() {
        false => None,
        true => Some(agent::executable(options.agent.as_deref())?),
    };

    let source = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let record = Record::create(&manifests.scenario.name, &source)?;
    let started = timestamp(record.started);
    let lab = Standing::new(record);
    let run = Run {
        lab: &lab,
        manifests: &manifests,
        attempts: options.attempts,
        progress: &options.progress,
        plugin_dirs,
        agent,
    };
    lab.until_told_to_end(&options.progress, || {
        let result = run.report(started);
        if options.keep {
            let kept = lab.keep()?.map(|record| kept(&record));
            if result.is_err() {
                options.progress.note(&format!("lab {} is kept", lab.run()));
            }
            return result.map(|report| Report { kept, ..report });
        }
        // The first error is the one that counts; what is left over is told, too.
        match (result, lab.tear_down()) {
            (result, Ok(())) => result,
            (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(left)) => {
                options.progress.note(&left.to_string());
                Err(error)
            }
        }
    })?
}

struct Run<'a> {
    lab: &'a Standing,
    manifests: &'a Manifests,
    attempts: NonZeroU32,
    progress: &'a Progress,
    plugin_dirs: Vec<PathBuf>,
    /// The agent's executable, where one is needed.
    agent: Option<PathBuf>,
}

impl Run<'_> {
    fn report(&self, started: String) -> Result<Report, LabError> {
        let network = &self.manifests.network;
        let names = self.manifests.objects.nodes();
        let mut nodes = Vec::new();
        for name in &names {
            self.progress.update("building pods");
            // What it is called sets it apart where there are others.
            let side = if names.len() > 1 { name.as_str() } else { "" };
            let agent = self.agent.as_deref();
            nodes.push(self.build(name, side, self.plugin_dirs.clone(), agent)?);
        }
        self.progress.note(&format!(
            "lab {}: {} pods on network {:?}",
            self.lab.run(),
            self.manifests.pods.len(),
            network.name
        ));
        let mut pods: Vec<_> = nodes.iter().flat_map(PodReport::all).collect();
        let Some(first) = nodes.first() else {
            return Err(LabError::Panicked("build a node"));
        };
        let mut warnings: Vec<_> = nodes
            .iter()
            .flat_map(|node| node.warnings.clone())
            .collect();
        let shaper = first.shaper.as_ref();
        if let Some(shaper) = shaper.filter(|shaper| !shaper.is_netqos()) {
            warnings.push(format!(
                "the bandwidth plugin of this network is not netqos': {} ({})",
                shaper.path.display(),
                shaper.about
            ));
        }
        let all = self.manifests.scenario.measurements.iter();
        let measurements = self.measure_all(&nodes, "", self.attempts, all)?;
        let (mut rules, mut lines) = (Vec::new(), Vec::new());
        for node in nodes.iter().filter(|_| self.agent.is_some()) {
            let status = agent::status(&node.files)?;
            rules.extend(RuleReport::all(&status));
            lines.extend(LineReport::all(&node.name, &status));
            warnings.extend(status.problems.iter().map(|problem| {
                let ProblemStatus {
                    kind,
                    name,
                    reason,
                    message,
                } = problem;
                format!("the agent: {kind} {name}: {reason}: {message}")
            }));
        }
        if !lines.is_empty() {
            self.say_classes(&nodes, &mut pods)?;
        }
        let kinds = network.plugins.iter().map(|p| p.kind.clone()).collect();
        let environment = Environment::now(&network.name, kinds, shaper, &first.files);
        let comparison = self.compare(shaper)?;
        Ok(Report {
            scenario: self.manifests.scenario.name.clone(),
            description: self.manifests.scenario.description.clone(),
            started,
            environment,
            pods,
            lines,
            rules,
            measurements,
            comparison,
            warnings,
            kept: None,
        })
    }

    fn build(
        &self,
        name: &str,
        side: &str,
        plugin_dirs: Vec<PathBuf>,
        agent: Option<&Path>,
    ) -> Result<Node, LabError> {
        let plan = Plan {
            manifests: self.manifests,
            name,
            side,
            plugin_dirs,
            agent,
        };
        plan.build(self.lab)
    }

    /// Says of each pod which class it is of.
    fn say_classes(&self, nodes: &[Node], pods: &mut [PodReport]) -> Result<(), LabError> {
        for node in nodes {
            let desired = agent::desired_lines(&node.files)?;
            for pod in self.manifests.pods_of(&node.name).map(|it| &it.pod) {
                let class = desired["pods"][pod.uid.as_str()]["class"].as_str();
                let mut reports = pods.iter_mut();
                if let Some(report) = reports.find(|report| report.name == pod.name) {
                    report.class = class.map(str::to_owned);
                }
            }
        }
        Ok(())
    }

    /// The measurements that ask for it once more, on a node like the first with the plugin that
    /// people have.
    fn compare(&self, shaper: Option<&Shaper>) -> Result<Option<Comparison>, LabError> {
        let measurements = &self.manifests.scenario.measurements;
        if !measurements.iter().any(|measurement| measurement.compare) {
            return Ok(None);
        }
        let left_out = |why: &str| {
            Ok(Some(Comparison {
                shaper: None,
                measurements: Vec::new(),
                left_out_because: Some(why.to_owned()),
            }))
        };
        let Some(shaper) = shaper else {
            return left_out("the network has no bandwidth plugin that could be another");
        };
        if !shaper.is_netqos() {
            return left_out("what is measured above is without netqos already");
        }
        if self
            .manifests
            .pods
            .iter()
            .any(PodManifest::selects_networks)
        {
            return left_out(
                "its pods select networks, and what attaches them to these is netqos' own plugin",
            );
        }
        let Some(plugin_dirs) = plugins::without_netqos(&self.plugin_dirs) else {
            return left_out(
                "the bandwidth plugin of containernetworking is not installed \
                 (Debian: apt-get install containernetworking-plugins)",
            );
        };
        let names = self.manifests.objects.nodes();
        let name = names.first().map_or("", String::as_str);
        let nodes = [self.build(name, STOCK, plugin_dirs, None)?];
        let compared = measurements
            .iter()
            .filter(|measurement| measurement.compare);
        Ok(Some(Comparison {
            shaper: nodes[0].shaper.as_ref().map(ShaperReport::of),
            // What is expected of netqos is no reason to measure another again.
            measurements: self.measure_all(
                &nodes,
                "without netqos: ",
                NonZeroU32::MIN,
                compared,
            )?,
            left_out_because: None,
        }))
    }

    fn measure_all<'m>(
        &self,
        nodes: &[Node],
        prefix: &str,
        attempts: NonZeroU32,
        measurements: impl Iterator<Item = &'m Measurement>,
    ) -> Result<Vec<MeasurementReport>, LabError> {
        measurements
            .map(|measurement| {
                let node = node_of(nodes, measurement)?;
                self.progress
                    .update(&format!("{prefix}{}", measurement.name));
                let report = until_it_holds(
                    attempts,
                    || self.measure(node, measurement),
                    |failed| {
                        let line = line(failed);
                        self.progress.done(&format!("{prefix}{line}; once more"));
                    },
                )?;
                self.progress.done(&format!("{prefix}{}", line(&report)));
                Ok(report)
            })
            .collect()
    }

    fn measure(
        &self,
        node: &Node,
        measurement: &Measurement,
    ) -> Result<MeasurementReport, LabError> {
        let (from, to) = node.ends(&measurement.from, &measurement.to, measurement.way())?;
        let configured = configured(node, measurement, &from, &to);
        let changed = Changed::nothing(&node.files);
        let make = |change: &Change| changed.make(change);
        let measured = measure(node, measurement, self.progress, &make);
        let by = measurement.expect.divided_by;
        // Before what was changed is as it was.
        let divided = by.map(|by| match agent::status(&node.files) {
            Ok(status) => divided(by, &status).err(),
            Err(error) => Some(error.to_string()),
        });
        if changed.put_back()? {
            thread::sleep(PUT_BACK);
        }
        let Measured {
            outcome,
            parts,
            load,
            flows,
            changes,
        } = measured?;
        let (result, failures) = match outcome {
            Ok(outcome) => {
                let mut failures = failures(&measurement.expect, configured.as_ref(), &outcome);
                if let Some(divided) = divided {
                    failures.get_or_insert_default().extend(divided);
                }
                (Some(outcome), failures)
            }
            Err(error) => (None, Some(vec![error.to_string()])),
        };
        Ok(MeasurementReport {
            name: measurement.name.clone(),
            description: measurement.description.clone(),
            kind: measurement.kind().to_owned(),
            from: measurement.from.clone(),
            beside: measurement.beside.clone(),
            to: measurement.to.clone(),
            family: measurement.family,
            interface: measurement.interface.clone(),
            expected_dscp: measurement.expect.dscp,
            configured,
            load,
            result,
            parts,
            flows,
            changes,
            verdict: match &failures {
                None => Verdict::Informational,
                Some(failures) if failures.is_empty() => Verdict::Held,
                Some(_) => Verdict::Failed,
            },
            failures: failures.unwrap_or_default(),
            attempts: 1,
            failed_attempts: Vec::new(),
        })
    }
}

/// The node that a measurement is made on: that of its pods, else the first.
fn node_of<'n>(nodes: &'n [Node], measurement: &Measurement) -> Result<&'n Node, LabError> {
    let load = measurement.load.iter();
    let of_load = load.flat_map(|load| [&load.from, &load.to]);
    let ends = measurement.senders().chain([&measurement.to]);
    let mut places = ends.chain(of_load);
    let has_pods = places.find_map(|place| nodes.iter().find(|node| node.has(place)));
    let node = has_pods.or(nodes.first());
    node.ok_or(LabError::Panicked("find the node of a measurement"))
}

/// A measurement in one line.
fn line(report: &MeasurementReport) -> String {
    let mut found = Vec::new();
    if report.kind == "dscp" {
        found.push(format!("DSCP {}", report.marks_seen()));
    } else if let Some(outcome) = &report.result {
        if let Some(rate) = outcome.rate() {
            found.push(rounded(rate).to_string());
        }
        if let Some(times) = outcome.times() {
            found.push(format!("p50 {:.2?}  p99 {:.2?}", times.p50, times.p99));
        }
        if let Some(loss) = outcome.loss_percent() {
            found.push(format!("{loss:.1} % lost"));
        }
    }
    let verdict = match report.verdict {
        Verdict::Held => "  ✓".to_owned(),
        Verdict::Failed => format!("  ✗ {}", report.failures.join("; ")),
        Verdict::Informational => String::new(),
    };
    let attempt = match report.attempts {
        1 => String::new(),
        attempts => format!("  (attempt {attempts})"),
    };
    format!("{}: {}{verdict}{attempt}", report.name, found.join("  "))
}

fn kept(record: &Record) -> Kept {
    let mut namespaces = Vec::new();
    for node in &record.nodes {
        let side = match node.side.as_str() {
            "" => String::new(),
            side => format!(" ({side})"),
        };
        namespaces.push((format!("node{side}"), record.node_netns(node)));
        for pod in node.pods.iter().chain(&node.outside) {
            namespaces.push((format!("{}{side}", pod.name), pod.netns.clone()));
        }
    }
    let with_agent = record.nodes.iter().filter(|node| node.agent.is_some());
    let files = with_agent.map(|node| Files::of(record, node));
    Kept {
        agents: files
            .map(|files| KeptAgent {
                objects: files.objects(),
                run: files.run(),
            })
            .collect(),
        run: record.run.clone(),
        namespaces,
        folder: record.folder(),
    }
}
