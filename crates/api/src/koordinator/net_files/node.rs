//! `node`: the line and its shares.

use netqos_core::classes::LineShares;
use serde_json::{Map, Value};

use super::super::Mistake;
use crate::terway::GlobalBps;

/// The file for a line that is shared like this.
pub fn node_json(shares: &LineShares) -> String {
    // Names and numbers only: there is nothing that JSON cannot say.
    serde_json::to_string_pretty(&GlobalBps::of_shares(shares)).unwrap_or_default() + "\n"
}

/// Reads the file. What is not there is zero, and names that are not known are passed over.
///
/// # Errors
/// Everything that cannot be followed.
pub fn parse_node(text: &str) -> Result<LineShares, Vec<Mistake>> {
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| vec![Mistake::new("node", format!("is no JSON object: {error}"))])?;
    let known = serde_json::to_value(GlobalBps::default());
    let is_known = |name: &str| known.as_ref().is_ok_and(|known| known.get(name).is_some());
    let wrong: Vec<_> = object
        .iter()
        .filter(|(name, value)| is_known(name) && !value.is_u64())
        .map(|(name, value)| {
            Mistake::new(name, format!("{value} is no number of bytes per second"))
        })
        .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let numbers: GlobalBps = serde_json::from_value(Value::Object(object))
        .map_err(|error| vec![Mistake::new("node", error)])?;
    numbers.shares()
}
