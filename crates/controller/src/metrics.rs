//! What is counted.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

type Labels = Vec<(&'static str, String)>;

/// The metrics of a controller; clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    leader: Gauge<i64>,
    elsewhere: Gauge<i64>,
    objects: Family<Labels, Gauge>,
    /// What only who leads knows, as the two below: there is no sample where nobody does.
    sets: Family<Labels, Gauge>,
    slices: Family<Labels, Gauge>,
    policies: Family<Labels, Gauge>,
    agents: Family<Labels, Gauge>,
    node_slo_elsewhere: Gauge<i64>,
    /// As sets.
    node_slos: Family<Labels, Gauge>,
    slo_config_problems: Family<Labels, Gauge>,
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
        let labels = vec![
            ("version", netqos_version::RELEASE),
            ("commit", netqos_version::commit()),
        ];
        registered.register("build", "The controller that is running", Info::new(labels));
        let registry = &mut registered;
        let metrics = Self {
            registry: Arc::default(),
            leader: register(registry, "leader", "1 where this replica leads, and writes"),
            elsewhere: register(
                registry,
                "network_qos_elsewhere",
                "1 where NetworkQoS objects are enforced by something else, and left to it",
            ),
            objects: register(registry, "objects", "Objects that are known"),
            sets: register(
                registry,
                "peer_sets",
                "Distinct selectors of peers on a network; of who leads",
            ),
            slices: register(
                registry,
                "peer_slices",
                "Slices that there are to be; of who leads",
            ),
            policies: register(
                registry,
                "policies",
                "NetworkQoS objects, by whether they are ready and the reason why; of who leads",
            ),
            agents: register(
                registry,
                "agents",
                "Nodes with a report, by the version of the agent that wrote it",
            ),
            node_slo_elsewhere: register(
                registry,
                "node_slo_elsewhere",
                "1 where NodeSLO objects are left to Koordinator's manager",
            ),
            node_slos: register(
                registry,
                "node_slos",
                "Nodes with a NodeSLO of ours to be, by its state: current, kept as it was since what is \
                 said cannot be followed, left to who else has written it; of who leads",
            ),
            slo_config_problems: register(
                registry,
                "slo_config_problems",
                "What is wrong with the ConfigMap slo-controller-config, by reason; of who leads",
            ),
            writes: register(
                registry,
                "writes",
                "Requests by which this replica wrote, by resource and what became of them",
            ),
            busy: Counter::default(),
        };
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

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// All of them as text, each with a sample that has all of its labels, whatever the values: what
    /// docs/metrics.md is made from.
    ///
    /// # Errors
    /// None that a test would not have found: they cannot be written.
    pub fn sample() -> Result<String, std::fmt::Error> {
        let metrics = Self::default();
        metrics.knows("Pod", 1);
        metrics.sets(1);
        metrics.slices(1);
        metrics.policy(true, "Ready", 1);
        metrics.agent("0.1.0", 1);
        metrics.node_slos("current", 1);
        metrics.slo_config_problems("SLOConfigUnreadable", 0);
        metrics.wrote("networkqospeerslices", Outcome::Done);
        let mut text = String::new();
        metrics.with_registry(|registry| encode(&mut text, registry))?;
        Ok(text)
    }

    /// Does something with all of them.
    pub(crate) fn with_registry<T>(&self, act: impl FnOnce(&Registry) -> T) -> T {
        let registry = self.registry.lock();
        act(&registry.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// This replica leads from now on, or does no more: then it has nothing to say of what only who leads
    /// knows, which would be counted twice.
    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
        if !leads {
            self.sets.clear();
            self.slices.clear();
            self.policies.clear();
            self.node_slos.clear();
            self.slo_config_problems.clear();
        }
    }

    /// Whether policies are enforced by something else.
    pub(crate) fn elsewhere(&self, elsewhere: bool) {
        self.elsewhere.set(elsewhere.into());
    }

    pub(crate) fn knows(&self, kind: &str, many: usize) {
        let labels = vec![("kind", kind.to_owned())];
        self.objects.get_or_create(&labels).set(number(many));
    }

    pub(crate) fn sets(&self, many: usize) {
        self.sets.get_or_create(&Vec::new()).set(number(many));
    }

    pub(crate) fn slices(&self, many: usize) {
        self.slices.get_or_create(&Vec::new()).set(number(many));
    }

    /// One more policy, or one fewer, is ready or not for a reason.
    pub(crate) fn policy(&self, ready: bool, reason: &str, more: i64) {
        let labels = vec![("ready", ready.to_string()), ("reason", reason.to_owned())];
        self.policies.get_or_create(&labels).inc_by(more);
    }

    /// One more node, or one fewer, has an agent of this version.
    pub(crate) fn agent(&self, version: &str, more: i64) {
        let labels = vec![("version", version.to_owned())];
        let known = self.agents.get_or_create(&labels);
        if known.inc_by(more) + more <= 0 {
            drop(known);
            // One that no agent has any more is nobody's.
            self.agents.remove(&labels);
        }
    }

    /// Whether NodeSLO objects are written by somebody else.
    pub(crate) fn node_slo_elsewhere(&self, elsewhere: bool) {
        self.node_slo_elsewhere.set(elsewhere.into());
    }

    /// This many nodes' are in a state.
    pub(crate) fn node_slos(&self, state: &'static str, many: usize) {
        let labels = vec![("state", state.to_owned())];
        self.node_slos.get_or_create(&labels).set(number(many));
    }

    /// The ConfigMap has this many problems of a kind.
    pub(crate) fn slo_config_problems(&self, reason: &'static str, many: usize) {
        let labels = vec![("reason", reason.to_owned())];
        let known = self.slo_config_problems.get_or_create(&labels);
        known.set(number(many));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_no_agent_has_any_more_is_not_counted() {
        let metrics = Metrics::default();
        let text = || {
            let mut text = String::new();
            let written = metrics.with_registry(|registry| encode(&mut text, registry));
            written.unwrap();
            text
        };
        metrics.agent("0.1.0", 1);
        metrics.agent("0.1.0", 1);
        metrics.agent("0.1.0", -1);
        let with_one = text();
        assert!(
            with_one.contains("agents{version=\"0.1.0\"} 1\n"),
            "{with_one}"
        );
        metrics.agent("0.1.0", -1);
        assert!(!text().contains("agents{version"), "{}", text());
    }
}
