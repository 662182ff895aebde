//! Where YAML 1.1, as goyaml v2 scans it, differs from the parser, which is of YAML 1.2: what the parser alone refuses
//! is rewritten, and what it alone reads is refused.

use std::borrow::Cow;

use granit_parser::{ErrorKind, Event, ScalarStyle, ScanError, Span, StructureStyle};

use super::fault;

/// How deep lists and objects may be nested, as in JSON: each level takes a part of a thread's stack.
const DEPTH: usize = 127;

/// The text of a document.
pub(super) struct Source<'a> {
    pub(super) text: Cow<'a, str>,
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(text: &'a str) -> Self {
        Self { text: text.into() }
    }
}

impl Source<'_> {
    /// The text with spaces for the tabs that lines begin with, which mean the same in lists and objects with
    /// brackets.
    pub(super) fn without_tabs(&self) -> String {
        let lines = self.text.split_inclusive('\n').map(|line| {
            let text = line.trim_start_matches('\t');
            " ".repeat(line.len() - text.len()) + text
        });
        lines.collect()
    }

    /// Rewrites what the parser refuses. False where kubectl does not read it, either.
    pub(super) fn repair(&mut self, fault: &ScanError) -> bool {
        let at = fault.marker().byte_offset().unwrap_or(self.text.len());
        let rest = self.text.get(at..).unwrap_or_default();
        match fault.kind() {
            // A comment needs no space in front of it.
            ErrorKind::CommentNotSeparated if rest.starts_with('#') => {
                let end = at + rest.lines().next().map_or(0, str::len);
                self.text.to_mut().replace_range(at..end, "");
                true
            }
            // Between double quotes, \' is a quote.
            ErrorKind::UnknownQuotedScalarEscape => {
                let mut bytes = rest.bytes().enumerate();
                while let Some((_, byte)) = bytes.next() {
                    if byte == b'\\'
                        && let Some((quote, b'\'')) = bytes.next()
                    {
                        self.text.to_mut().remove(at + quote - 1);
                        return true;
                    }
                }
                false
            }
            _ => false,
        }
    }
}

/// What is known of a text up to an event.
pub(super) struct Form<'a> {
    text: &'a str,
    /// The end of the last event.
    end: usize,
    /// The last event was a scalar without quotes.
    is_plain: bool,
    /// Of each list and object that is open: it has brackets.
    brackets: Vec<bool>,
}

impl<'a> Form<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            end: 0,
            is_plain: false,
            brackets: Vec::new(),
        }
    }

    /// # Errors
    /// Returns an error if a value of so many levels has no place here.
    pub(super) fn go_deeper(&self, levels: usize) -> Result<(), &'static str> {
        match self.brackets.len() + levels {
            0..=DEPTH => Ok(()),
            _ => Err(fault::DEEP),
        }
    }

    /// Goes on to an event.
    ///
    /// # Errors
    /// Returns an error if kubectl reads no text of this form.
    pub(super) fn check(&mut self, event: &Event<'_>, at: Span) -> Result<(), &'static str> {
        let range = at.byte_range().unwrap_or(self.end..self.end);
        let between = self.text.get(self.end..range.start).unwrap_or_default();
        let text = self.text.get(range.clone()).unwrap_or_default();
        let in_brackets = self.brackets.last() == Some(&true);
        // Lines of a text without quotes, but for those of an object that stands in brackets as a whole.
        let has_tab = |text: &str| text.contains("\n\t") && self.brackets.first() != Some(&true);
        let blank = between.len() - between.trim_start().len();
        if self.is_plain && has_tab(&between[..blank]) {
            return Err(fault::TAB);
        }
        if !in_brackets && has_tab_in_indentation(between, self.end == 0, self.is_plain) {
            return Err(fault::TAB);
        }
        let behind = self.text.get(range.end..).unwrap_or_default();
        if in_brackets && text.contains('\n') && behind.trim_start_matches(' ').starts_with(':') {
            return Err(fault::KEY_OVER_LINES);
        }
        match event {
            Event::SequenceStart(style, ..) | Event::MappingStart(style, ..) => {
                self.go_deeper(1)?;
                self.brackets.push(*style == StructureStyle::Flow);
            }
            Event::SequenceEnd | Event::MappingEnd => drop(self.brackets.pop()),
            Event::Scalar(_, ScalarStyle::Plain, ..) => {
                let ends_with_colon = behind
                    .strip_prefix(':')
                    .is_some_and(|it| it.starts_with([',', '[', ']', '{', '}']));
                if has_tab(text) {
                    return Err(fault::TAB);
                }
                if in_brackets && (text.starts_with(':') || text.contains('?') || ends_with_colon) {
                    return Err(fault::PLAIN_IN_BRACKETS);
                }
            }
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..)
                if text.contains("\n\t") =>
            {
                return Err(fault::TAB);
            }
            _ => {}
        }
        self.is_plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..));
        self.end = self.end.max(range.end);
        Ok(())
    }
}

/// Returns true if a tab stands where a line, or an entry behind `-` or `?`, is indented. `is_first` says that the
/// text begins a line, and `is_plain` that it follows a scalar without quotes, whose lines may have tabs behind
/// spaces.
fn has_tab_in_indentation(text: &str, is_first: bool, is_plain: bool) -> bool {
    text.split('\n').enumerate().any(|(number, line)| {
        let (mut rest, mut is_indentation) = (line, number > 0 || is_first);
        loop {
            let behind = rest.trim_start_matches(' ');
            let may_be_plain = is_plain && rest.len() == line.len() && behind.len() < line.len();
            if is_indentation && behind.starts_with('\t') && !may_be_plain {
                return true;
            }
            rest = behind.trim_start_matches([' ', '\t']);
            let token = rest.split([' ', '\t']).next().unwrap_or_default();
            if token.is_empty() || token.starts_with('#') {
                return false;
            }
            is_indentation = matches!(token, "-" | "?");
            rest = &rest[token.len()..];
        }
    })
}
