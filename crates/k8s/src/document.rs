//! Texts of several documents, YAML or JSON, read as kubectl reads them, but that a document that cannot be read
//! hides none of the others.
//!
//! A line that begins with `---` ends a YAML document, wherever it stands, even inside of a text. JSON texts follow
//! each other without a mark.

mod fault;
mod form;
mod json;
mod yaml;

use std::fmt;

use serde_json::Value;

use crate::FieldError;
use yaml::{Read, Size};

/// How many JSON objects that are broken hide none that follows: each has the rest of the text read again.
const BROKEN: usize = 100;

/// One document of a text.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its place among the documents of the text, from 1; empty ones are not counted.
    pub number: usize,
    /// The line that it starts on, from 1.
    pub line: usize,
    /// What it says, or why it cannot be read.
    pub value: Result<Value, String>,
    /// What kubectl leaves out of it in silence: the first of two equal keys, and what follows its end.
    pub left_out: Vec<String>,
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
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut documents, mut aliased) = (Vec::new(), Size::default());
    let mut line = 1;
    // As for kubectl, what begins as JSON is JSON up to a document that is none, and YAML from there on.
    let (mut is_json, mut broken) = (is_object(rest), 0);
    while !rest.is_empty() {
        let (read, start, end) = match is_json.then(|| json::read(rest)).flatten() {
            Some((read, end)) => (Ok(read), blank(rest), end),
            None => {
                let (mark, mut end) = part(rest);
                let read = match rest.get(..mark) {
                    Some(mark) if !is_mark(mark) => {
                        Err(format!("line {line}, column 4: {}", fault::MARK))
                    }
                    _ => yaml::read(&rest[mark..end], line + usize::from(mark > 0), &mut aliased),
                };
                // Behind an object that is neither JSON nor YAML, JSON may go on.
                let object = rest
                    .get(..end)
                    .filter(|part| read.is_err() && broken < BROKEN && is_object(part));
                let next =
                    object.and_then(|part| Some(blank(part) + part.trim_start().find("\n{")? + 1));
                is_json = next.is_some();
                broken += usize::from(is_json);
                end = next.unwrap_or(end);
                (read, object.map_or(0, blank), end)
            }
        };
        let (value, left_out) = match read {
            Ok(Read { value, left_out }) => (Ok(value), left_out),
            Err(why) => (Err(why), Vec::new()),
        };
        if !matches!(value, Ok(Value::Null)) {
            documents.push(Document {
                number: documents.len() + 1,
                line: line + lines(&rest[..start]),
                value,
                left_out,
            });
        }
        line += lines(&rest[..end]);
        rest = &rest[end..];
    }
    documents
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The length of the white space in front.
fn blank(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The length of the mark that a text begins with, and of the text up to the next one.
fn part(text: &str) -> (usize, usize) {
    let (mut mark, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        match (line.starts_with("---"), at) {
            (true, 0) => mark = line.len(),
            (true, _) => break,
            _ => {}
        }
        at += line.len();
    }
    (mark, at)
}

/// Returns true unless something other than a comment follows the hyphens.
fn is_mark(line: &str) -> bool {
    let behind = line.get(3..).unwrap_or_default().trim();
    behind.is_empty() || behind.starts_with('#')
}
