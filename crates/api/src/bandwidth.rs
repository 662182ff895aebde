//! The configuration of the `bandwidth` plugin, as it arrives on standard input.
//!
//! ```json
//! {
//!   "cniVersion": "1.0.0", "name": "mynet", "type": "bandwidth",
//!   "capabilities": {"bandwidth": true, "io.kubernetes.cri.pod-annotations": true},
//!   "egress": "ifb", "hook": "auto", "unit": "Kbps", "bpffs": "/sys/fs/bpf",
//!   "runtimeConfig": {
//!     "bandwidth": {"ingressRate": 10000000, "ingressBurst": 4294967295},
//!     "io.kubernetes.cri.pod-annotations": {"netqos.io/ingress-latency": "25ms"}
//!   }
//! }
//! ```
//!
//! Where the limits come from, the first that is there and no mixture:
//!
//! 1. `ingressRate`, `ingressBurst`, `egressRate`, `egressBurst` beside the other keys (any of the
//!    four, even with the value 0): the administrator's word, the same for every pod;
//! 2. `runtimeConfig.bandwidth`, what runtimes send;
//! 3. `runtimeConfig.trafficShaping`, what KEP-2819 describes.
//!
//! With 2 and 3, the pod's burst and latency annotations are applied on top when the runtime hands
//! the annotations over. A mistake in those is a warning: it must not keep the pod from starting.
//!
//! Keys are matched without regard to (ASCII) case, at every level, as the well-known plugin does
//! by way of Go's encoding/json: containerd capitalises them. Of several that match, Go takes the
//! last in the document; that order is not known here, so the exact spelling is taken, and without
//! one the last in the order of their bytes. `null` is as good as absent, except that a static key
//! still hides the runtime's (also Go's way).

mod choice;
mod error;
mod limits;
mod object;
#[cfg(test)]
mod tests;
mod traffic_shaping;

use std::collections::BTreeMap;

use netqos_core::Limits;
use serde_json::{Map, Value};

pub use choice::{EgressWay, Environment, HookChoice};
pub use error::BandwidthConfigError;
pub use limits::CHOOSE_BURSTS;

use crate::{RateUnit, ShapingExtras, capability};
use object::Object;

/// The keys that only versions 1.5 of the well-known plugin knew.
const SUBNET_KEYS: [&str; 2] = ["unshapedSubnets", "shapedSubnets"];

/// What one call of the `bandwidth` plugin is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthConfig {
    /// What the pod's interface is to be held to; unlimited when nothing asks for a limit.
    pub limits: Limits,
    /// Where the traffic from the pod is shaped (`egress`).
    pub egress: EgressWay,
    /// How the eBPF programs are attached (`hook`).
    pub hook: HookChoice,
    /// Where the BPF file system is mounted (`bpffs`), an absolute path; `None`: where it usually
    /// is.
    pub bpffs: Option<String>,
    /// What was ignored and why, one sentence each, for the log.
    pub warnings: Vec<String>,
}

impl BandwidthConfig {
    /// Reads the configuration. What it does not say is taken from the `environment`.
    ///
    /// # Errors
    ///
    /// Those of the well-known plugin in its words, and what netqos' own keys do not allow; see
    /// [`BandwidthConfigError`].
    pub fn parse(
        config: &Map<String, Value>,
        environment: Environment<'_>,
    ) -> Result<Self, BandwidthConfigError> {
        let config = Object::root(config);
        let mut warnings = Vec::new();
        let unit = unit(&config)?;
        let runtime = config.object("runtimeConfig")?;

        let limits = if limits::is_static(&config) {
            warn_of_hidden_extras(runtime.as_ref(), &mut warnings);
            limits::read(&config)?
        } else if let Some(runtime) = &runtime {
            let limits = runtime_limits(runtime, unit, &mut warnings)?;
            let extras = extras(runtime, &mut warnings);
            let unused = extras.without_limit(limits);
            warnings.extend(unused.iter().map(ToString::to_string));
            extras.apply_to(limits)
        } else {
            Limits::default()
        };
        warn_of_subnets(&config, &mut warnings);

        Ok(Self {
            limits,
            egress: EgressWay::choose(config.text("egress")?, environment)?,
            hook: HookChoice::choose(config.text("hook")?, environment)?,
            bpffs: bpffs(&config)?,
            warnings,
        })
    }
}

fn runtime_limits(
    runtime: &Object<'_>,
    unit: RateUnit,
    warnings: &mut Vec<String>,
) -> Result<Limits, BandwidthConfigError> {
    if let Some(argument) = runtime.object(capability::BANDWIDTH)? {
        warn_of_subnets(&argument, warnings);
        return limits::read(&argument);
    }
    match runtime.object(capability::TRAFFIC_SHAPING)? {
        Some(argument) => traffic_shaping::read(&argument, unit),
        None => Ok(Limits::default()),
    }
}

/// The pod's burst and latency annotations, as far as they can be read.
fn extras(runtime: &Object<'_>, warnings: &mut Vec<String>) -> ShapingExtras {
    let annotations = match runtime.object(capability::POD_ANNOTATIONS) {
        Ok(Some(annotations)) => annotations,
        Ok(None) => return ShapingExtras::default(),
        Err(error) => {
            warnings.push(error.to_string());
            return ShapingExtras::default();
        }
    };
    // Annotation keys are not field names: their case counts.
    let mut strings = BTreeMap::new();
    for (key, value) in annotations.entries() {
        match value.as_str() {
            Some(value) => {
                strings.insert(key.clone(), value.to_owned());
            }
            None => warnings.push(annotations.type_error(key, value, "string").to_string()),
        }
    }
    let (extras, errors) = ShapingExtras::read(&strings);
    warnings.extend(errors.iter().map(ToString::to_string));
    extras
}

fn unit(config: &Object<'_>) -> Result<RateUnit, BandwidthConfigError> {
    let Some(name) = config.text("unit")? else {
        return Ok(RateUnit::default());
    };
    RateUnit::from_name(name).ok_or_else(|| BandwidthConfigError::UnknownValue {
        key: "unit".to_owned(),
        value: name.to_owned(),
        known: "\"Kbps\" and \"bps\"",
    })
}

fn bpffs(config: &Object<'_>) -> Result<Option<String>, BandwidthConfigError> {
    match config.text("bpffs")? {
        Some(path) if !path.starts_with('/') => Err(BandwidthConfigError::UnknownValue {
            key: "bpffs".to_owned(),
            value: path.to_owned(),
            known: "absolute paths",
        }),
        path => Ok(path.map(str::to_owned)),
    }
}

/// The administrator's limit is not for the pod to change.
fn warn_of_hidden_extras(runtime: Option<&Object<'_>>, warnings: &mut Vec<String>) {
    let Some(runtime) = runtime else {
        return;
    };
    let found = extras(runtime, &mut Vec::new());
    warnings.extend(found.annotations().map(|annotation| {
        format!("annotation {annotation} is ignored: the plugin's configuration sets the limits")
    }));
}

fn warn_of_subnets(config: &Object<'_>, warnings: &mut Vec<String>) {
    for key in SUBNET_KEYS {
        if config.has_elements(key) {
            warnings.push(format!(
                "{} is ignored: only versions 1.5 of the bandwidth plugin knew it; \
                 all of the pod's traffic is shaped",
                config.path_of(key)
            ));
        }
    }
}
