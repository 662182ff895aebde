//! Patterns of the schema, each compiled once.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;

static COMPILED: LazyLock<Mutex<BTreeMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);

/// True when the text matches; never for a pattern that is none.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains_key(pattern) {
        compiled.insert(pattern.to_owned(), Regex::new(pattern).ok());
    }
    let regex = compiled.get(pattern).and_then(Option::as_ref);
    regex.is_some_and(|regex| regex.is_match(text))
}
