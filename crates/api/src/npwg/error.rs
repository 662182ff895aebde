//! The errors in a network selection.

use std::fmt;

use netqos_core::OneLine;

/// An error in an annotation that selects networks.
///
/// The message names the entry, counted from 1, with the network's name where it has one, and the key:
/// `entry 2 ("net-b"): ips[0]: "10.1.0.300" is not an IP address`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SelectionError {
    /// The entry, from 1; `None` for the list as a whole.
    pub entry: Option<usize>,
    /// The network that the entry names; empty if it names none.
    pub network: String,
    /// The key of the JSON form, such as `bandwidth.ingressRate`; empty for the entry as a whole, and in the short
    /// form.
    pub key: String,
    /// The error.
    pub message: String,
}

/// The longest part of a tenant's text that a message repeats, in characters.
const MOST_QUOTED: usize = 80;

impl SelectionError {
    /// An error of the list as a whole.
    pub(super) fn of_list(message: impl Into<String>) -> Self {
        Self {
            entry: None,
            network: String::new(),
            key: String::new(),
            message: message.into(),
        }
    }

    /// An error of an entry as a whole.
    pub(super) fn of_entry(message: impl Into<String>) -> Self {
        Self::of_key("", message)
    }

    /// An error in the value of a key.
    pub(super) fn of_key(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            ..Self::of_list(message)
        }
    }

    /// The same with the entry that it is in: its index, from 0, and the network that it names.
    pub(super) fn in_entry(self, index: usize, network: &str) -> Self {
        Self {
            entry: Some(index + 1),
            network: shortened(network, MOST_QUOTED),
            ..self
        }
    }
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = self.entry {
            write!(f, "entry {entry}")?;
            if !self.network.is_empty() {
                write!(f, " ({:?})", self.network)?;
            }
            f.write_str(": ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// A text of a tenant, quoted as far as a message may repeat it.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text, MOST_QUOTED))
}

/// A text of a tenant without quotation marks, as far as a message may repeat it, with control characters escaped.
pub fn escaped(text: &str) -> String {
    shortened(text, MOST_QUOTED).escape_debug().to_string()
}

/// The first characters of a text, with `…` in place of the others.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The number of refusals, or names, that a message repeats. A tenant writes any number of them.
pub const MOST_NAMED: usize = 5;

/// The longest text of one of them, in characters.
const MOST_OF_ONE: usize = 200;

/// Returns the first [`MOST_NAMED`] of these, each shortened and in one line, and the number of the others.
pub fn first_named<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> (Vec<String>, usize) {
    let mut all = all.into_iter();
    let named = all.by_ref().take(MOST_NAMED);
    let named = named.map(|it| OneLine(shortened(&it.to_string(), MOST_OF_ONE)).to_string());
    (named.collect(), all.count())
}

/// Returns the first [`MOST_NAMED`] of these with a separator between them, and the number of the others.
pub fn listed<T: fmt::Display>(all: impl IntoIterator<Item = T>, separator: &str) -> String {
    let (named, more) = first_named(all);
    let named = named.join(separator);
    match more {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}
