//! One message.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use netqos_core::{ObjectName, OneLine};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::{Code, Level};

/// An object that is spoken of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its kind, or `File` where no object could be read.
    pub kind: Arc<str>,
    /// Its namespace; empty where it has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Something that is to be said of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which kind of message.
    pub code: &'static Code,
    /// Of which object.
    pub subject: Subject,
    /// Where that is described: file and document. Empty: in the cluster.
    pub place: String,
    /// The field, where it is about one.
    pub field: String,
    /// What is so.
    pub text: String,
}

impl Subject {
    /// An object of this kind and name.
    pub(crate) fn new(kind: &str, name: &ObjectName) -> Self {
        Self {
            kind: kind.into(),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        }
    }

    /// A node.
    pub(crate) fn node(name: &str) -> Self {
        Self::new("Node", &ObjectName::new("", name))
    }
}

impl Message {
    /// A message about no field in particular.
    pub(crate) fn new(code: &'static Code, subject: Subject, text: impl Into<String>) -> Self {
        Self {
            code,
            subject,
            place: String::new(),
            field: String::new(),
            text: text.into(),
        }
    }

    /// The same, about a field.
    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// The same, of an object that is described there.
    pub(crate) fn in_place(mut self, place: &str) -> Self {
        place.clone_into(&mut self.place);
        self
    }

    /// How much it matters.
    pub fn level(&self) -> Level {
        self.code.level
    }

    /// By what messages are sorted.
    pub(crate) fn order(&self) -> impl Ord {
        let Self {
            code,
            subject,
            place,
            field,
            text,
        } = self;
        (Reverse(code.level), subject, code.code, place, field, text)
    }
}

impl fmt::Display for Subject {
    /// `NetworkQoS games/free`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        let (kind, name) = (OneLine(kind), OneLine(name));
        match namespace.is_empty() {
            true => write!(f, "{kind} {name}"),
            false => write!(f, "{kind} {}/{name}", OneLine(namespace)),
        }
    }
}

impl fmt::Display for Message {
    /// `Error [NQOS0103] (NetworkQoS games/free, free.yaml:1, document 1) spec.priority: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            subject,
            place,
            field,
            text,
        } = self;
        write!(f, "{} [{}] ({subject}", code.level, code.code)?;
        if !place.is_empty() && **place != *subject.name {
            write!(f, ", {}", OneLine(place))?;
        }
        f.write_str(") ")?;
        if !field.is_empty() {
            write!(f, "{}: ", OneLine(field))?;
        }
        write!(f, "{}", OneLine(text))
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("level", &self.code.level)?;
        map.serialize_entry("type", self.code.name)?;
        map.serialize_entry("kind", &self.subject.kind)?;
        for (key, value) in [
            ("namespace", &*self.subject.namespace),
            ("name", &*self.subject.name),
            ("place", self.place.as_str()),
            ("field", self.field.as_str()),
        ] {
            if !value.is_empty() {
                map.serialize_entry(key, value)?;
            }
        }
        map.serialize_entry("message", &self.text)?;
        map.serialize_entry("remedy", self.code.remedy)?;
        map.end()
    }
}
