//! The errors in a network selection.

use std::fmt;

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

/// The number of items that a message names.
const MOST_NAMED: usize = 5;

/// Returns the first five items with a separator between them, and the number of the others.
pub fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut items = items.into_iter();
    let named = items.by_ref().take(MOST_NAMED);
    let named: Vec<String> = named.map(|it| it.to_string()).collect();
    let named = named.join(separator);
    match items.count() {
        0 => named,
        more => format!("{named}, and {} more", with_commas(more)),
    }
}

/// `9,995`.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
