//! Messages about documents that cannot be read: where, why, and what to do.

use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

/// A parser's text for a value that follows the whole of a document, and its translations.
const PARSER_TEXTS: [(&str, &str); 1] = [(
    "did not find expected <document start>",
    "the document goes on behind its end; check the indentation, or put --- between two documents",
)];

/// The message of an error in a document that starts on this line of its text.
pub(super) fn message(error: &Error, first_line: usize) -> String {
    let error = error.without_snippet();
    let why = reason(error);
    match error.location() {
        Some(at) if at.line() > 0 => {
            let line = first_line + usize::try_from(at.line()).unwrap_or(1) - 1;
            format!("line {line}, column {}: {why}", at.column())
        }
        _ => why,
    }
}

/// The message about a key that an object has twice.
pub(super) fn twice(key: &str) -> String {
    format!("the key {key:?} is there twice; remove one of the two")
}

/// The kind of a value, with its article.
pub(super) fn article(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::AliasError { error, .. } => reason(error.without_snippet()),
        Error::DuplicateMappingKey { key: Some(key), .. } => twice(key),
        Error::DuplicateMappingKey { key: None, .. } => {
            "a key is there twice; remove one of the two".to_owned()
        }
        Error::NonFiniteFloat { value, .. } => {
            format!("{value} is not a finite number; write one, or put quotes around a text")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias (*NAME) is inside the value that it refers to; write the value out".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "an alias (*NAME) refers to no anchor (&NAME) of the document; add the anchor, or put \
             quotes around a text"
                .to_owned()
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            too_large("its aliases (*NAME) expand to too many values")
        }
        Error::Budget { breach, .. } => beyond(breach),
        Error::Eof { .. } => "the document ends too early; complete it".to_owned(),
        Error::ExternalMessage { msg, .. } => {
            let mut known = PARSER_TEXTS.iter();
            let known = known.find(|(text, _)| msg.contains(text));
            match known {
                Some((_, message)) => (*message).to_owned(),
                None => format!("not valid YAML: {}", one_line(msg)),
            }
        }
        Error::Message { msg, .. } => one_line(msg),
        other => one_line(&other.to_string()),
    }
}

/// The message about a document that is larger than any that is read.
fn beyond(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { depth } => {
            format!("lists and objects are nested {depth} levels deep; nest them less")
        }
        BudgetBreach::MergeKeys { merge_keys } => {
            format!("{merge_keys} merge keys (<<) are too many; write their values out")
        }
        BudgetBreach::Aliases { aliases } => {
            format!("{aliases} aliases (*NAME) are too many; write their values out")
        }
        BudgetBreach::Anchors { anchors } => {
            format!("{anchors} anchors (&NAME) are too many; write their values out")
        }
        BudgetBreach::Nodes { nodes } => {
            too_large(&format!("with its aliases it has {nodes} values or more"))
        }
        _ => too_large("with its aliases it has too many values"),
    }
}

fn too_large(what: &str) -> String {
    format!("the document is too large: {what}; write aliases out, or split the document")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
