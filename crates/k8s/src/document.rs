//! Texts of several documents, YAML or JSON, one of which may be broken without the others being
//! lost. A key that one object has twice makes its document wrong, in YAML as in JSON.
//!
//! A line that begins with `---` ends a YAML document, wherever it stands: inside of a text there is
//! none, by the rules of YAML. JSON texts follow each other without a mark.

mod fault;
mod unique;

use std::fmt;

use serde_json::Value;
use serde_saphyr::budget::Budget;

use crate::FieldError;
use unique::Unique;

/// One document of a text.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its place among the documents of the text, from 1; empty ones are not counted.
    pub number: usize,
    /// The line that it starts on, from 1.
    pub line: usize,
    /// What it says, or why it cannot be read.
    pub value: Result<Value, String>,
}

/// The place of a document in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPlace {
    /// The document's place among the documents of the text, from 1.
    pub document: usize,
    /// The line that it starts on, from 1.
    pub line: usize,
}

impl Document {
    /// Its place.
    pub fn place(&self) -> DocumentPlace {
        DocumentPlace {
            document: self.number,
            line: self.line,
        }
    }
}

impl DocumentPlace {
    /// The place in a file of this name: `objects.yaml:14, document 2`.
    pub fn in_file(&self, file: impl fmt::Display) -> String {
        format!("{file}:{}, document {}", self.line, self.document)
    }
}

impl fmt::Display for DocumentPlace {
    /// `document 2 (line 14)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {} (line {})", self.document, self.line)
    }
}

/// The items of a list of objects; `None` for an object that is not a list.
///
/// # Errors
/// Returns an error if `items` of a `List` is missing or not a list.
pub fn list_items(value: &Value) -> Option<Result<&[Value], FieldError>> {
    let kind = value.get("kind")?.as_str()?;
    // Kinds such as AllowList may be of objects.
    let is_list = kind == "List" || kind.ends_with("List") && value.get("items").is_some();
    is_list.then(|| match value.get("items") {
        Some(Value::Array(items)) => Ok(&items[..]),
        Some(Value::Null) => Ok(&[][..]),
        Some(other) => Err(FieldError::new(
            "items",
            format_args!(
                "a list of objects is expected, not {}",
                fault::article(other)
            ),
        )),
        None => Err(FieldError::new("items", "missing")),
    })
}

/// The documents of a text. A `List` is one document.
pub fn documents(text: &str) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{')
        && let Some(documents) = json(text)
    {
        return documents;
    }
    let mut documents = Vec::new();
    for (line, part) in parts(text) {
        let value = yaml(part, line);
        if !matches!(value, Ok(Value::Null)) {
            documents.push(Document {
                number: documents.len() + 1,
                line,
                value,
            });
        }
    }
    documents
}

/// The documents of a text that is JSON; `None` when it is not, or YAML that looks like it.
fn json(text: &str) -> Option<Vec<Document>> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Unique>();
    let (mut from, mut line) = (0, 1);
    while let Some(value) = stream.next() {
        let before = text.get(from..)?;
        let blank = before.len() - before.trim_start().len();
        line += lines(before.get(..blank)?);
        documents.push(Document {
            number: documents.len() + 1,
            line,
            value: value.ok()?.0.map_err(|key| fault::twice(&key)),
        });
        line += lines(text.get(from + blank..stream.byte_offset())?);
        from = stream.byte_offset();
    }
    Some(documents)
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The parts between the marks, each with the line that it starts on. A mark is part of what
/// follows it: there may be content behind it.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let mark = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if mark && at > start {
            parts.push((first, &text[start..at]));
            (start, first) = (at, index + 1);
        }
        at += line.len();
    }
    parts.push((first, &text[start..]));
    parts.retain(|(_, part)| part.lines().any(says_something));
    parts
}

/// False for comments, marks, and directives that stand alone.
fn says_something(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim_start();
    !line.is_empty() && !line.starts_with('#') && !line.starts_with('%')
}

/// One document, which starts on this line of the text. How much it may hold is bounded by its
/// length, and what aliases make of it by a fixed number.
fn yaml(text: &str, line: usize) -> Result<Value, String> {
    let mut budget = Budget::default();
    budget.max_nodes = budget.max_nodes.max(text.len());
    budget.max_events = budget.max_events.max(text.len().saturating_mul(2));
    budget.max_total_scalar_bytes = budget.max_total_scalar_bytes.max(text.len());
    let options = serde_saphyr::options! {
        budget: Some(budget),
        with_snippet: false,
        // As kubectl reads them: 010 is 8.
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|why| fault::message(&why, line))
}
