//! Messages about documents that cannot be read: where, why, and what to do.

use granit_parser::{ErrorKind, Marker, ScanError};
use serde_json::Value;

/// How many keys of a document, or of a JSON object, are named that are there twice.
pub(super) const NAMED: usize = 10;

pub(super) const BEHIND: &str =
    "the document goes on behind its end; check the indentation, or put --- between two documents";
pub(super) const ENDS: &str = "the document ends too early; complete it";
pub(super) const INSIDE_ITSELF: &str =
    "an alias (*NAME) is inside the value that it refers to; write the value out";
pub(super) const MERGE: &str = "a merge (<<) takes an object or a list of objects; write one";
pub(super) const NULL_KEY: &str = "null is no key; write one, or put quotes around a text";
pub(super) const DEEP: &str = "lists and objects are nested too deep; nest them less";
pub(super) const TAB: &str = "a tab indents a line; write spaces";
pub(super) const PLAIN_IN_BRACKETS: &str =
    "a text between brackets has a ?, or a : in front or at its end; put quotes around it";
pub(super) const KEY_OVER_LINES: &str = "a key between brackets goes over lines; write it on one";
pub(super) const TOO_MANY_REPAIRS: &str =
    "too many comments have no space in front of them, or quotes a \\; write and remove them";
/// Of a line that begins with three hyphens, and goes on.
pub(super) const MARK: &str = "a text follows --- on its line, where kubectl reads none; write it on the next line, \
                               or indent a text that begins with ---";

/// The message of an error in a document that starts on this line of its text.
pub(super) fn message(error: &ScanError, first_line: usize) -> String {
    format!("{}: {}", place(*error.marker(), first_line), reason(error))
}

/// `line 5, column 3`.
pub(super) fn place(at: Marker, first_line: usize) -> String {
    let line = first_line + at.line().saturating_sub(1);
    format!("line {line}, column {}", at.col() + 1)
}

/// The message about a key that an object has twice.
pub(super) fn twice(key: &str) -> String {
    format!("the key {key:?} is there twice; remove one of the two")
}

pub(super) fn not_finite(value: f64) -> String {
    let text = if value.is_nan() { ".nan" } else { ".inf" };
    format!("{text} is not a finite number; write one, or put quotes around a text")
}

pub(super) fn no_key(key: &Value) -> String {
    format!("{} is no key; write a text", article(key))
}

pub(super) fn wrong_tag(text: &str, tag: &str) -> String {
    format!("{text:?} is no !!{tag}; write one, or remove the tag")
}

pub(super) fn too_many_aliased() -> String {
    "the document is too large: its aliases (*NAME) expand to too many values; write aliases out, or split the \
     document"
        .to_owned()
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

fn reason(error: &ScanError) -> String {
    let reason = match error.kind() {
        ErrorKind::ExpectedDocumentStart => BEHIND,
        ErrorKind::DirectiveDisallowed => {
            "kubectl reads no directives, such as %YAML; remove the line"
        }
        ErrorKind::UnknownAnchor => {
            "an alias (*NAME) refers to no anchor (&NAME) of the document; add the anchor, or put quotes around a text"
        }
        ErrorKind::RecursionLimitExceeded => DEEP,
        ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofImplicitFlowMapping => ENDS,
        _ => return format!("not valid YAML: {}", error.info()),
    };
    reason.to_owned()
}
