//! What is counted.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

type Labels = Vec<(&'static str, String)>;

/// The metrics of a controller; clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    leader: Gauge<i64>,
    objects: Family<Labels, Gauge>,
    sets: Gauge<i64>,
    slices: Gauge<i64>,
    policies: Family<Labels, Gauge>,
    writes: Family<Labels, Counter>,
    busy: Counter<f64, AtomicU64>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Done,
    Failed,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registered = Registry::with_prefix("netqos_controller");
        let labels = vec![("version", env!("CARGO_PKG_VERSION"))];
        registered.register("build", "The controller that is running", Info::new(labels));
        let metrics = Self {
            registry: Arc::default(),
            leader: Gauge::default(),
            objects: Family::default(),
            sets: Gauge::default(),
            slices: Gauge::default(),
            policies: Family::default(),
            writes: Family::default(),
            busy: Counter::default(),
        };
        let registry = &mut registered;
        registry.register(
            "leader",
            "1 where this replica leads, and writes",
            metrics.leader.clone(),
        );
        registry.register("objects", "Objects that are known", metrics.objects.clone());
        registry.register(
            "peer_sets",
            "Distinct selectors of peers on a network",
            metrics.sets.clone(),
        );
        registry.register(
            "peer_slices",
            "Slices that there are to be",
            metrics.slices.clone(),
        );
        registry.register(
            "policies",
            "NetworkQoS objects, by whether they are ready and the reason why",
            metrics.policies.clone(),
        );
        registry.register(
            "writes",
            "Requests by which this replica wrote, by resource and what became of them",
            metrics.writes.clone(),
        );
        registry.register_with_unit(
            "busy",
            "Time spent on what the API server told, without waiting for it",
            Unit::Seconds,
            metrics.busy.clone(),
        );
        Self {
            registry: Arc::new(Mutex::new(registered)),
            ..metrics
        }
    }
}

impl Metrics {
    /// All of them, in the form of OpenMetrics.
    ///
    /// # Errors
    /// None that a test would not have found: they cannot be written.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.lock();
        let registry = registry.unwrap_or_else(std::sync::PoisonError::into_inner);
        encode(&mut text, &registry)?;
        Ok(text)
    }

    /// The same where each metric has a sample with all of its labels, whatever the values: what
    /// docs/metrics.md is made from.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn sample() -> Result<String, std::fmt::Error> {
        let metrics = Self::default();
        metrics.knows("Pod", 1);
        metrics.policy(true, "Ready", 1);
        metrics.wrote("networkqospeerslices", Outcome::Done);
        metrics.text()
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    pub(crate) fn knows(&self, kind: &str, many: usize) {
        let labels = vec![("kind", kind.to_owned())];
        self.objects.get_or_create(&labels).set(number(many));
    }

    pub(crate) fn sets(&self, many: usize) {
        self.sets.set(number(many));
    }

    pub(crate) fn slices(&self, many: usize) {
        self.slices.set(number(many));
    }

    /// One more policy, or one fewer, is ready or not for a reason.
    pub(crate) fn policy(&self, ready: bool, reason: &str, more: i64) {
        let labels = vec![("ready", ready.to_string()), ("reason", reason.to_owned())];
        self.policies.get_or_create(&labels).inc_by(more);
    }

    pub(crate) fn wrote(&self, resource: &str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
        };
        let labels = vec![
            ("resource", resource.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        self.writes.get_or_create(&labels).inc();
    }

    pub(crate) fn worked(&self, seconds: f64) {
        self.busy.inc_by(seconds);
    }
}

fn number(many: usize) -> i64 {
    i64::try_from(many).unwrap_or(i64::MAX)
}
