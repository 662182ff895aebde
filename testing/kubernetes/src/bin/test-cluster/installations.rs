//! What the installation gives with the chart's defaults, and with the CNI plugin, to pods of each CNI list, for each
//! congestion control and rate.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::run;
use serde_json::Value;

use crate::context::{Context, eventually, expect_between};
use crate::limits::NAMESPACE;
use crate::pods::{Pod, Template, create};
use crate::{install, leave};

/// In Mbit/s.
const RATES: [u32; 3] = [1, 10, 100];
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The payload of a full frame, which the limit counts as a whole.
const PAYLOAD: f64 = 1448.0 / 1514.0;
const LEAST: f64 = 0.9;
const MOST: f64 = 1.02;
/// The list of a node.
const LIST: &str = "/etc/cni/net.d/10-pods.conflist";
/// Prints the bytes that eth0 has received so far.
const BYTES: &str = "cat /sys/class/net/eth0/statistics/rx_bytes";

/// What limits pods by a plugin in the CNI list.
#[derive(Clone, Copy)]
enum Plugin {
    None,
    Upstream,
    Netqos,
}

impl Plugin {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "no plugin",
            Self::Upstream => "upstream plugin",
            Self::Netqos => "netqos' plugin",
        }
    }
}

/// Measures every cell that was not measured yet.
pub fn measure_all(context: &mut Context) -> anyhow::Result<String> {
    let mut results = Results::read(context)?;
    measure_missing(context, &mut results)?;
    results.summary()
}

fn measure_missing(context: &mut Context, results: &mut Results) -> anyhow::Result<()> {
    let lists: Vec<String> = context
        .nodes
        .iter()
        .map(|node| list(context, node))
        .collect::<anyhow::Result<_>>()?;
    for (plugins, has_plugin) in [
        (&[Plugin::None, Plugin::Upstream][..], false),
        (&[Plugin::Netqos], true),
    ] {
        let missing: Vec<Plugin> = plugins
            .iter()
            .copied()
            .filter(|plugin| results.lacks(*plugin))
            .collect();
        if missing.is_empty() {
            continue;
        }
        match has_plugin {
            true => install::chart(
                context,
                &install::deploy().join("helm/netqos"),
                &context.values.clone(),
            )?,
            false => install::by_default(context)?,
        };
        for plugin in missing {
            for (node, list) in context.nodes.iter().zip(&lists) {
                put_list(context, node, list, plugin)?;
            }
            for congestion_control in CONGESTION_CONTROLS {
                // Pods of other steps have no container that measures.
                let image = format!("localhost/netqos:{}", env!("CARGO_PKG_VERSION"));
                context.measuring_image = Some(image);
                let measured = measure(context, congestion_control);
                context.measuring_image = None;
                results.put(plugin, congestion_control, measured)?;
            }
        }
        leave::by_helm(context)?;
    }
    Ok(())
}

fn list(context: &Context, node: &str) -> anyhow::Result<String> {
    run(context.node(node)?.command("cat")?.arg(LIST))
}

/// Puts a node's list, with the upstream plugin or without it.
fn put_list(context: &Context, node: &str, list: &str, plugin: Plugin) -> anyhow::Result<()> {
    let mut list: Value = serde_json::from_str(list)?;
    if matches!(plugin, Plugin::None) {
        let plugins = list["plugins"]
            .as_array_mut()
            .context("the list has no plugins")?;
        plugins.retain(|plugin| plugin["type"] != "bandwidth");
    }
    // A runtime reads a list that is renamed whole.
    let script = format!("cat >{LIST}.new <<'END'\n{list}\nEND\nmv {LIST}.new {LIST}");
    run(context.node(node)?.command("sh")?.args(["-euc", &script]))?;
    // containerd hears of it.
    thread::sleep(Duration::from_secs(2));
    Ok(())
}

/// Measures pods of all rates, those that are born with annotations and those that get them while they receive.
fn measure(context: &Context, congestion_control: &str) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let free = Template::plain(
        NAMESPACE,
        "server",
        context.nodes.last().context("no node")?,
    );
    let cases: Vec<(String, u32, bool)> = RATES
        .into_iter()
        .flat_map(|rate| {
            [
                (format!("born-{rate}"), rate, true),
                (format!("annotated-{rate}"), rate, false),
            ]
        })
        .collect();
    let rates: BTreeMap<u32, [String; 2]> = RATES
        .into_iter()
        .map(|rate| {
            let annotation = |way| format!("kubernetes.io/{way}-bandwidth={rate}M");
            (rate, ["ingress", "egress"].map(annotation))
        })
        .collect();
    let templates = cases.iter().map(|(name, rate, is_born)| Template {
        annotations: rates[rate]
            .iter()
            .filter(|_| *is_born)
            .filter_map(|it| it.split_once('='))
            .collect(),
        ..Template::plain(NAMESPACE, name, &context.nodes[0])
    });
    let templates: Vec<Template<'_>> = [free].into_iter().chain(templates).collect();
    let pods = create(context, &templates)?;
    let (free, pods) = pods.split_first().context("no pods")?;
    let began = Instant::now();
    let born = in_force(context, &cases, true)?;
    let born = format!(
        "born: in force {:.1} s after Ready",
        born.duration_since(began).as_secs_f64()
    );

    let annotated: Vec<(&Pod, u32)> = pods
        .iter()
        .zip(&cases)
        .filter(|(_, case)| !case.2)
        .map(|(pod, case)| (pod, case.1))
        .collect();
    let from = free.address.to_string();
    // What they send would wait in their sockets, and count later.
    let flows: Vec<_> = annotated
        .iter()
        .map(|(pod, _)| pod.fetch(kubectl, &from))
        .collect::<anyhow::Result<_>>()?;
    let bytes = || {
        annotated
            .iter()
            .map(|(pod, _)| Ok(pod.shell(kubectl, BYTES)?.trim().parse()?))
            .collect::<anyhow::Result<Vec<f64>>>()
    };
    let before = bytes()?;
    let began = Instant::now();
    for (pod, rate) in &annotated {
        let [ingress, egress] = &rates[rate];
        kubectl.line_in(
            NAMESPACE,
            &format!("annotate pod {} {ingress} {egress}", pod.name),
        )?;
    }
    let since = in_force(context, &cases, false)?
        .duration_since(began)
        .as_secs_f64();
    let passed = bytes()?
        .iter()
        .zip(before)
        .map(|(after, before)| (after - before) / 1e6)
        .fold(0.0, f64::max);
    drop(flows);
    let annotated = format!("annotated: in force after {since:.1} s and at most {passed:.0} MB");

    let measured: Vec<anyhow::Result<f64>> = thread::scope(|scope| {
        let ways = pods.iter().flat_map(|pod| ["-R", ""].map(|way| (pod, way)));
        let started: Vec<_> = ways
            .map(|(pod, way)| {
                scope.spawn(move || transfer(context, pod, free, way, congestion_control))
            })
            .collect();
        let ended = started.into_iter().map(|it| it.join());
        ended
            .map(|it| it.unwrap_or_else(|_| Err(anyhow::anyhow!("a measurement panicked"))))
            .collect()
    });
    let names = cases.iter().map(|(name, ..)| name.as_str());
    let delete = format!(
        "delete pod --now server {}",
        names.collect::<Vec<_>>().join(" ")
    );
    kubectl.line_in(NAMESPACE, &delete)?;
    let mut said = vec![born, annotated];
    for (index, measured) in measured.into_iter().enumerate() {
        let (name, rate, _) = &cases[index / 2];
        let what = format!("{name} {}", ["ingress", "egress"][index % 2]);
        let carries = f64::from(*rate) * PAYLOAD;
        said.push(expect_between(
            &what,
            measured?,
            LEAST * carries,
            MOST * carries,
        )?);
    }
    Ok(said.join(", "))
}

/// Waits until status says that the limits of these pods are in force.
fn in_force(
    context: &Context,
    cases: &[(String, u32, bool)],
    is_born: bool,
) -> anyhow::Result<Instant> {
    eventually(Duration::from_secs(30), || {
        let status = context.status(&context.nodes[0])?;
        for (name, rate, _) in cases.iter().filter(|case| case.2 == is_born) {
            let rate = format!("{rate} Mbit/s");
            let mut lines = status.lines().filter(|line| line.contains(name.as_str()));
            ensure!(
                lines.any(|line| line.contains(&rate) && line.contains("in force")),
                "{name} is not limited to {rate}:\n{status}"
            );
        }
        Ok(Instant::now())
    })
}

/// The goodput of ten seconds of TCP in Mbit/s.
fn transfer(
    context: &Context,
    pod: &Pod,
    server: &Pod,
    way: &str,
    congestion_control: &str,
) -> anyhow::Result<f64> {
    let server = server.address.to_string();
    let exec = ["-n", NAMESPACE, "exec", &pod.name, "-c", "netqos", "--"];
    let measure = [
        "/netqos",
        "traffic",
        "tcp",
        &server,
        "-C",
        congestion_control,
        "-t",
        "10s",
        "-q",
        "-o",
        "json",
    ];
    let way = Some(way).filter(|way| !way.is_empty());
    let command: Vec<&str> = exec.into_iter().chain(measure).chain(way).collect();
    let report: Value = serde_json::from_str(&context.kubectl().run(&command)?)?;
    let rate = report["goodput"]["bitsPerSecond"].as_f64();
    let rate = rate.with_context(|| format!("not a measurement: {report}"))?;
    Ok(rate / 1e6)
}

/// What was measured, by the versions of everything, plugin and congestion control.
struct Results {
    file: PathBuf,
    versions: String,
    cells: BTreeMap<String, String>,
    failed: Vec<String>,
}

impl Results {
    fn read(context: &Context) -> anyhow::Result<Self> {
        let cluster = context.cluster()?;
        let plugins = match cluster.bandwidth_plugin().starts_with("/opt") {
            true => "newest",
            false => "Debian's",
        };
        // That of the image.
        let netqos = install::deploy().join("../target/dist/netqos");
        let version = run(Command::new(netqos).arg("--version"))?;
        let text = fs::read_to_string(&context.results).unwrap_or_else(|_| "{}".to_owned());
        Ok(Self {
            file: context.results.clone(),
            versions: format!(
                "{}, {}, CNI plugins {plugins}",
                version.trim(),
                cluster.describe()
            ),
            cells: serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged; remove it", context.results.display()))?,
            failed: Vec::new(),
        })
    }

    fn key(&self, plugin: Plugin, congestion_control: &str) -> String {
        format!("{}, {}, {congestion_control}", self.versions, plugin.name())
    }

    fn lacks(&self, plugin: Plugin) -> bool {
        let mut all = CONGESTION_CONTROLS.iter();
        all.any(|it| !self.cells.contains_key(&self.key(plugin, it)))
    }

    /// Keeps what a cell gave; one that failed is measured again the next time.
    fn put(
        &mut self,
        plugin: Plugin,
        congestion_control: &str,
        measured: anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let key = self.key(plugin, congestion_control);
        match measured {
            Ok(measured) => {
                eprintln!("{key}: {measured}");
                self.cells.insert(key, measured);
                fs::write(&self.file, serde_json::to_string_pretty(&self.cells)?)?;
            }
            Err(error) => {
                eprintln!("{key}: FAILED {error:#}");
                self.failed.push(format!(
                    "{}, {congestion_control}: {error:#}",
                    plugin.name()
                ));
            }
        }
        Ok(())
    }

    fn summary(&self) -> anyhow::Result<String> {
        ensure!(self.failed.is_empty(), "{}", self.failed.join("; "));
        let own = self
            .cells
            .iter()
            .filter(|(key, _)| key.starts_with(&self.versions));
        let own: Vec<String> = own
            .map(|(key, measured)| format!("{}: {measured}", &key[self.versions.len() + 2..]))
            .collect();
        Ok(own.join("\n"))
    }
}
