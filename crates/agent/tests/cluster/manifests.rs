//! What it is installed with.

use serde_json::Value;

/// The object of this kind.
pub(crate) fn object(text: &str, kind: &str) -> Value {
    let objects = serde_saphyr::from_multiple::<Value>(text).unwrap();
    let mut of_kind = objects.into_iter().filter(|it| it["kind"] == kind);
    of_kind.next().unwrap()
}

/// The strings of a list.
pub(crate) fn words(list: &Value) -> Vec<String> {
    let words = list.as_array().unwrap().iter();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}
