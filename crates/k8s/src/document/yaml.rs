//! YAML as kubectl reads it (sigs.k8s.io/yaml, which has goyaml v2 below it): plain scalars by YAML 1.1, the
//! last of two equal keys, merges in the order of their text, and one document of a text.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::fault;
use super::form::{Form, Source};

/// The values that the aliases of one file may add to it, as many as kubectl lets those of a document add.
const ALIASED_VALUES: usize = 400_000;
/// The bytes of text that they may add.
const ALIASED_BYTES: usize = 16 << 20;

/// How often a document is read again without what only the parser refuses.
const REPAIRS: usize = 100;

/// The size of values: how many they are, and how much text they have.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    values: usize,
    bytes: usize,
    /// The levels of lists and objects, of a node with an anchor.
    levels: usize,
}

/// A document.
pub(super) struct Read {
    pub(super) value: Value,
    /// What kubectl leaves out of it in silence.
    pub(super) left_out: Vec<String>,
}

/// Reads the document of a text that starts on a line of its file. `aliased` is what aliases have added to the
/// file so far.
pub(super) fn read(text: &str, first_line: usize, aliased: &mut Size) -> Result<Read, String> {
    let (mut source, mut has_tabs) = (Source::from(text), false);
    // Further ones are errors.
    for _ in 0..REPAIRS {
        // As kubectl: it reads no directives, and byte-order marks as letters.
        let options = granit_parser::options! {
            emit_comments: false, disallow_directives: true, bom_inside_document_as_content: true
        };
        let mut now_aliased = *aliased;
        let (value, left_out, fault) = {
            let spaces = has_tabs.then(|| source.without_tabs());
            let mut composer = Composer {
                parser: Parser::new_from_str_with_options(
                    spaces.as_deref().unwrap_or(&source.text),
                    options,
                ),
                form: Form::of(&source.text),
                first_line,
                anchors: HashMap::new(),
                size: Size::default(),
                in_aliases: 0,
                aliased: &mut now_aliased,
                left_out: Vec::new(),
                fault: None,
            };
            (composer.document(), composer.left_out, composer.fault)
        };
        match (value, fault) {
            (Err(_), Some(fault))
                if *fault.kind() == ErrorKind::TabInBlockIndentation && !has_tabs =>
            {
                has_tabs = true;
            }
            (Err(_), Some(fault)) if source.repair(&fault) => {}
            (value, _) => {
                *aliased = now_aliased;
                return value.map(|value| Read { value, left_out });
            }
        }
    }
    Err(fault::TOO_MANY_REPAIRS.to_owned())
}

struct Composer<'a, 'b> {
    parser: Parser<'a, StrInput<'a>>,
    form: Form<'a>,
    first_line: usize,
    /// The nodes with an anchor, by its number, and their sizes.
    anchors: HashMap<usize, (Node, Size)>,
    /// What was read, with what aliases refer to.
    size: Size,
    /// How many of these values came from aliases.
    in_aliases: usize,
    aliased: &'b mut Size,
    left_out: Vec<String>,
    /// The parser's error.
    fault: Option<ScanError>,
}

#[derive(Clone)]
enum Node {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Collection(Value),
}

impl<'a> Composer<'a, '_> {
    fn document(&mut self) -> Result<Value, String> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd, _) => return Ok(Value::Null),
                (event, at) => {
                    let value = self.value(event, at)?;
                    self.end()?;
                    return Ok(value);
                }
            }
        }
    }

    /// The end of the document. kubectl reads nothing that follows it.
    fn end(&mut self) -> Result<(), String> {
        let follows = match self.next()? {
            (Event::DocumentEnd, _) => match self.parser.next() {
                None | Some(Ok((Event::StreamEnd, _))) => return Ok(()),
                Some(Ok((_, at))) => fault::place(at.start, self.first_line),
                Some(Err(error)) => fault::place(*error.marker(), self.first_line),
            },
            (_, at) => fault::place(at.start, self.first_line),
        };
        self.left_out.push(format!("{follows}: {}", fault::BEHIND));
        Ok(())
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        match self.parser.next() {
            Some(Ok((event, at))) => match self.form.check(&event, at) {
                Ok(()) => Ok((event, at)),
                Err(why) => self.error(at, why),
            },
            Some(Err(error)) => {
                let why = fault::message(&error, self.first_line);
                self.fault = Some(error);
                Err(why)
            }
            None => Err(fault::ENDS.to_owned()),
        }
    }

    fn error<T>(&self, at: Span, why: impl std::fmt::Display) -> Result<T, String> {
        Err(format!(
            "{}: {why}",
            fault::place(at.start, self.first_line)
        ))
    }

    fn value(&mut self, event: Event<'a>, at: Span) -> Result<Value, String> {
        Ok(match self.node(event, at)? {
            Node::Null => Value::Null,
            Node::Bool(value) => value.into(),
            Node::Integer(value) => value.into(),
            Node::Float(value) => match number(value) {
                Some(number) => number.into(),
                None => return self.error(at, fault::not_finite(value)),
            },
            Node::Text(value) => value.into(),
            Node::Collection(value) => value,
        })
    }

    fn node(&mut self, event: Event<'a>, at: Span) -> Result<Node, String> {
        let before = self.size;
        self.size.values += 1;
        let (node, anchor) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                self.size.bytes += text.len();
                let kind = tag.as_ref().map(|tag| {
                    let kind = tag.suffix_in_namespace("tag:yaml.org,2002:");
                    kind.map_or_else(|| "!".to_owned(), |kind| kind.into_owned())
                });
                let plain = style == ScalarStyle::Plain;
                match scalar(&text, plain, kind.as_deref()) {
                    Ok(node) => (node, anchor),
                    Err(why) => return self.error(at, why),
                }
            }
            Event::SequenceStart(_, anchor, _) => (self.list()?, anchor),
            Event::MappingStart(_, anchor, _) => (self.object()?, anchor),
            _ => return self.error(at, fault::ENDS),
        };
        if anchor > 0 {
            let size = Size {
                values: self.size.values - before.values,
                bytes: self.size.bytes - before.bytes,
                levels: match &node {
                    Node::Collection(value) => levels(value),
                    _ => 0,
                },
            };
            self.copy(size, at)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Span) -> Result<Node, String> {
        let Some(&(_, size)) = self.anchors.get(&anchor) else {
            return self.error(at, fault::INSIDE_ITSELF);
        };
        if let Err(why) = self.form.go_deeper(size.levels) {
            return self.error(at, why);
        }
        self.size.values += size.values;
        self.size.bytes += size.bytes;
        self.in_aliases += size.values;
        self.copy(size, at)?;
        // The bound of goyaml for documents that are not very large.
        let (all, of_aliases) = (self.size.values, self.in_aliases);
        if all > 1000 && of_aliases > 100 && of_aliases.saturating_mul(100) > all.saturating_mul(99)
        {
            return self.error(at, fault::too_many_aliased());
        }
        match self.anchors.get(&anchor) {
            Some((node, _)) => Ok(node.clone()),
            None => self.error(at, fault::INSIDE_ITSELF),
        }
    }

    /// Counts what is copied for an anchor or an alias.
    fn copy(&mut self, size: Size, at: Span) -> Result<(), String> {
        self.aliased.values += size.values;
        self.aliased.bytes += size.bytes;
        if self.aliased.values > ALIASED_VALUES || self.aliased.bytes > ALIASED_BYTES {
            return self.error(at, fault::too_many_aliased());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Node, String> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::Collection(items.into())),
                (event, at) => items.push(self.value(event, at)?),
            }
        }
    }

    fn object(&mut self) -> Result<Node, String> {
        let (mut fields, mut merged) = (Map::new(), HashSet::new());
        loop {
            let (event, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::Collection(fields.into())),
                next => next,
            };
            if is_merge(&event) {
                for other in self.merge()? {
                    merged.extend(other.keys().cloned());
                    fields.extend(other);
                }
                continue;
            }
            let key = match self.node(event, at)? {
                Node::Text(key) => key,
                Node::Bool(key) => key.to_string(),
                Node::Integer(key) => key.to_string(),
                Node::Float(key) => float_key(key),
                Node::Null => return self.error(at, fault::NULL_KEY),
                Node::Collection(key) => return self.error(at, fault::no_key(&key)),
            };
            let (event, value_at) = self.next()?;
            let value = self.value(event, value_at)?;
            let is_twice = fields.contains_key(&key) && !merged.contains(&key);
            if is_twice && self.left_out.len() < fault::NAMED {
                let place = fault::place(at.start, self.first_line);
                self.left_out
                    .push(format!("{place}: {}", fault::twice(&key)));
            }
            fields.insert(key, value);
        }
    }

    /// The objects of a merge, the strongest last.
    fn merge(&mut self) -> Result<Vec<Map<String, Value>>, String> {
        let (event, at) = self.next()?;
        let is_list = matches!(event, Event::SequenceStart(..));
        let objects = match self.value(event, at)? {
            Value::Object(object) => vec![Value::Object(object)],
            Value::Array(list) if is_list => list,
            _ => return self.error(at, fault::MERGE),
        };
        let objects = objects.into_iter().rev().map(|object| match object {
            Value::Object(object) => Ok(object),
            _ => self.error(at, fault::MERGE),
        });
        objects.collect()
    }
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn is_merge(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, style, _, tag) if text == "<<" => match tag {
            None => *style == ScalarStyle::Plain,
            Some(tag) => tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("merge"),
        },
        _ => false,
    }
}

/// The value of a scalar, which may have a tag: the part behind `!!`, or `!` for any other.
fn scalar(text: &str, plain: bool, tag: Option<&str>) -> Result<Node, String> {
    let node = match tag {
        None if plain => by_form(text),
        Some("bool" | "int" | "float" | "null") => by_form(text),
        Some("binary") => {
            let text: String = text.split(['\r', '\n']).collect();
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|_| fault::wrong_tag("text", "binary"))?;
            Node::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => Node::Text(text.to_owned()),
    };
    match (tag, node) {
        (Some("float"), Node::Integer(value)) => Ok(Node::Float(value as f64)),
        (Some("bool"), node @ Node::Bool(_))
        | (Some("int"), node @ Node::Integer(_))
        | (Some("float"), node @ Node::Float(_))
        | (Some("null"), node @ Node::Null) => Ok(node),
        (Some(tag @ ("bool" | "int" | "float" | "null")), _) => Err(fault::wrong_tag(text, tag)),
        (_, node) => Ok(node),
    }
}

/// The value of a plain scalar, by the rules of goyaml v2: of YAML 1.1, but without base 60.
fn by_form(text: &str) -> Node {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Node::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Node::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Node::Null,
        ".nan" | ".NaN" | ".NAN" => Node::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Node::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Node::Float(f64::NEG_INFINITY),
        _ if text.starts_with('.') => float(text).unwrap_or_else(|| Node::Text(text.to_owned())),
        _ if text.starts_with(|first: char| first.is_ascii_digit() || "+-".contains(first)) => {
            let digits = text.replace('_', "");
            let number = integer(&digits).or_else(|| float(&digits));
            number.unwrap_or_else(|| Node::Text(text.to_owned()))
        }
        _ => Node::Text(text.to_owned()),
    }
}

fn integer(text: &str) -> Option<Node> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, unsigned.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, unsigned.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, unsigned.get(2..)?),
        [b'0', _, ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    // A second sign would be read.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(value) {
        _ if text.starts_with('-') => 0_i64.checked_sub_unsigned(value).map(Node::Integer),
        Ok(value) => Some(Node::Integer(value)),
        // An API server has no such integers.
        Err(_) if text.starts_with('+') => None,
        Err(_) => Some(Node::Float(value as f64)),
    }
}

fn float(text: &str) -> Option<Node> {
    let is_decimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let value: f64 = text.parse().ok().filter(|_| is_decimal)?;
    value.is_finite().then_some(Node::Float(value))
}

/// A floating-point number as Go writes it into JSON, and reads it again: 1e3 is the integer 1000. `None` if it
/// is not finite.
pub(super) fn number(value: f64) -> Option<Number> {
    match format!("{value}").parse::<i64>() {
        Ok(integer) => Some(integer.into()),
        Err(_) => Number::from_f64(value),
    }
}

/// A floating-point number as a key: `%g` of 32 bits.
fn float_key(value: f64) -> String {
    let narrow = value as f32;
    if !narrow.is_finite() {
        let text = if narrow.is_nan() {
            ".nan"
        } else if narrow > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        return text.to_owned();
    }
    let text = format!("{narrow:e}");
    match text
        .split_once('e')
        .map(|(digits, power)| (digits, power.parse::<i32>()))
    {
        Some((digits, Ok(power))) if !(-4..=5).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
        _ => narrow.to_string(),
    }
}
