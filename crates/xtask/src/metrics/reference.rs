//! All metrics that are served, read from what is served.

use anyhow::{Context as _, bail};

/// A metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As its samples have it; a histogram's have `_bucket`, `_sum` or `_count` behind it.
    pub name: String,
    /// As OpenMetrics calls it.
    pub kind: String,
    /// In the order in which they are served, without a histogram's own.
    pub labels: Vec<String>,
    /// What it is.
    pub help: String,
}

/// The metrics of all processes.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    metrics: Vec<(&'static str, Metric)>,
}

impl Registry {
    /// Asks each process for a sample of everything.
    ///
    /// # Errors
    /// What it says cannot be read, or a metric has no sample, so that its labels are not known.
    pub fn of_all() -> anyhow::Result<Self> {
        let mut registry = Self::default();
        registry.add("netqos-agent", &netqos_agent::metrics_sample()?)?;
        registry.add("netqos-controller", &netqos_controller::Metrics::sample()?)?;
        Ok(registry)
    }

    /// Adds what a process serves.
    ///
    /// # Errors
    /// As [`of_all`](Self::of_all).
    pub fn add(&mut self, component: &'static str, served: &str) -> anyhow::Result<()> {
        let metrics = parse(served).with_context(|| component.to_owned())?;
        let metrics = metrics.into_iter().map(|metric| (component, metric));
        self.metrics.extend(metrics);
        Ok(())
    }

    /// The processes.
    pub fn components(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self
            .metrics
            .iter()
            .map(|(component, _)| *component)
            .collect();
        all.dedup();
        all
    }

    /// The labels of a sample's name, a histogram's own among them; `None`: nobody serves it.
    pub fn labels(&self, sample: &str) -> Option<Vec<&str>> {
        self.metrics.iter().find_map(|(_, metric)| {
            let part = sample.strip_prefix(metric.name.as_str())?;
            let own: &[&str] = match (metric.kind.as_str(), part) {
                ("histogram", "_bucket") => &["le"],
                ("histogram", "_sum" | "_count") => &[],
                (kind, "") if kind != "histogram" => &[],
                _ => return None,
            };
            let labels = metric.labels.iter().map(String::as_str);
            Some(labels.chain(own.iter().copied()).collect())
        })
    }

    /// The rows of a process, in Markdown.
    pub fn table(&self, component: &str) -> String {
        let mut table = "| name | type | labels | what |\n|---|---|---|---|\n".to_owned();
        let rows = self.metrics.iter().filter(|(of, _)| *of == component);
        for (_, metric) in rows {
            let Metric {
                name,
                kind,
                labels,
                help,
            } = metric;
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{} ", labels.join(", ")),
            };
            table.push_str(&format!("| `{name}` | {kind} | {labels}| {help} |\n"));
        }
        table
    }
}

/// Reads the form of OpenMetrics.
fn parse(text: &str) -> anyhow::Result<Vec<Metric>> {
    let mut all: Vec<Metric> = Vec::new();
    let mut help = (String::new(), String::new());
    let mut samples = 1;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').with_context(|| line.to_owned())?;
            help = (name.to_owned(), text.trim_end_matches('.').to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').with_context(|| line.to_owned())?;
            anyhow::ensure!(samples > 0, "there is no sample before {line}");
            anyhow::ensure!(help.0 == name, "{name} has no text");
            samples = 0;
            all.push(Metric {
                name: match kind {
                    "counter" => format!("{name}_total"),
                    "info" => format!("{name}_info"),
                    _ => name.to_owned(),
                },
                kind: kind.to_owned(),
                labels: Vec::new(),
                help: help.1.clone(),
            });
        } else if !line.starts_with('#') {
            let Some(metric) = all.last_mut() else {
                bail!("a sample of nothing: {line}")
            };
            anyhow::ensure!(
                line.starts_with(&metric.name),
                "{line}: not of {}",
                metric.name
            );
            samples += 1;
            for label in labels(line) {
                if label != "le" && !metric.labels.iter().any(|known| known == label) {
                    metric.labels.push(label.to_owned());
                }
            }
        }
    }
    anyhow::ensure!(samples > 0, "the last metric has no sample");
    Ok(all)
}

/// The names of a sample's labels. Values of the sample hold none of the form's own characters.
fn labels(line: &str) -> impl Iterator<Item = &str> {
    let inside = line
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let inside = inside.map_or("", |(labels, _)| labels);
    let pairs = inside.split(',').filter_map(|label| label.split_once('='));
    pairs.map(|(name, _)| name)
}
