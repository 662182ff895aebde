//! What it is installed with.

use std::fs;

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kustomize/base");

/// The object of this kind in this file.
pub(crate) fn object(file: &str, kind: &str) -> Value {
    let text = fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
    let objects = serde_saphyr::from_multiple::<Value>(&text).unwrap();
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
