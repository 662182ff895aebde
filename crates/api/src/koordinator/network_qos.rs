//! What a class or a pod is to get of the network: Koordinator's `NetworkQOS`.

use netqos_core::{BitRate, Direction};
use serde_json::{Map, Value};

use super::amount::{Amount, AmountError};
use crate::near;

/// The fields of a class; those of a pod are all but the last.
pub(super) const NETWORK_KEYS: [&str; 5] = [
    "ingressRequest",
    "ingressLimit",
    "egressRequest",
    "egressLimit",
    "enable",
];

/// `NetworkQOS`: what is guaranteed, and what is the most, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkQos {
    /// To the pods.
    pub ingress: Ask,
    /// From the pods.
    pub egress: Ask,
}

/// What is asked for in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// What is guaranteed.
    pub request: Option<Amount>,
    /// What is never exceeded.
    pub limit: Option<Amount>,
}

/// Something in a document that cannot be followed, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Mistake {
    /// The field, from the document's root, like `clusterStrategy.lsClass.networkQOS.ingressLimit`.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

impl Mistake {
    pub(crate) fn new(path: impl Into<String>, what: impl ToString) -> Self {
        Self {
            path: path.into(),
            what: what.to_string(),
        }
    }
}

impl NetworkQos {
    /// What is asked for in this direction.
    pub const fn of(&self, direction: Direction) -> &Ask {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Reads the four fields of an object at this path; what is null counts as absent. Others are
    /// passed over. Rates are at least as much as this.
    pub(super) fn read(
        object: &Map<String, Value>,
        path: &str,
        least: BitRate,
        mistakes: &mut Vec<Mistake>,
    ) -> Self {
        let mut amount = |key: &str| {
            let value = field(object, key).filter(|value| !value.is_null())?;
            Amount::from_value_of_at_least(value, least)
                .map_err(|error: AmountError| mistakes.push(Mistake::new(join(path, key), error)))
                .ok()
        };
        Self {
            ingress: Ask {
                request: amount("ingressRequest"),
                limit: amount("ingressLimit"),
            },
            egress: Ask {
                request: amount("egressRequest"),
                limit: amount("egressLimit"),
            },
        }
    }
}

/// A field, whatever the case of its name, as Go's encoding/json finds it: the exact name goes first.
pub(super) fn field<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    object.get(name).or_else(|| {
        let mut others = object.iter();
        others
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// The path of a field.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Finds keys that nobody reads, and that are likely meant to be one of these.
pub(super) fn check_keys(
    object: &Map<String, Value>,
    ours: &[&str],
    path: &str,
    mistakes: &mut Vec<Mistake>,
) {
    for key in object.keys().filter(|key| !is_one_of(key, ours)) {
        if let Some(meant) = near(key, ours.iter().copied()) {
            let what = format!("netqos and Koordinator read no such key; write {meant}");
            mistakes.push(Mistake::new(join(path, key), what));
        }
    }
}

/// Whether a key is one of these, whatever its case.
pub(super) fn is_one_of(key: &str, keys: &[&str]) -> bool {
    keys.iter().any(|it| it.eq_ignore_ascii_case(key))
}
