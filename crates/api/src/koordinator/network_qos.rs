//! What a class or a pod is to get of the network: Koordinator's `NetworkQOS`.

use netqos_core::Direction;
use serde_json::{Map, Value};

use super::amount::{Amount, AmountError};

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
    /// passed over.
    pub(super) fn read(
        object: &Map<String, Value>,
        path: &str,
        mistakes: &mut Vec<Mistake>,
    ) -> Self {
        let mut amount = |key: &str| {
            let value = field(object, key).filter(|value| !value.is_null())?;
            Amount::from_value(value)
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
