//! What was looked at, and what came of it.

use serde::Serialize;

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What came of it.
    pub state: State,
    /// What was looked at, in a word or two.
    pub what: String,
    /// What is so.
    pub message: String,
    /// What to do; empty where nothing has to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is as it should be.
    Ok,
    /// It works, though not all of it.
    Warning,
    /// It does not work so.
    Failed,
}

impl Line {
    /// All is well.
    pub fn ok(what: &str, message: impl Into<String>) -> Self {
        Self {
            state: State::Ok,
            what: what.to_owned(),
            message: message.into(),
            remedy: String::new(),
        }
    }

    /// It works, though not all of it.
    pub fn warning(what: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Warning,
            remedy: remedy.into(),
            ..Self::ok(what, message)
        }
    }

    /// It does not work so.
    pub fn failed(what: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Failed,
            ..Self::warning(what, message, remedy)
        }
    }

    /// In a line, and what to do in another one.
    pub fn print(&self) {
        let mark = match self.state {
            State::Ok => '✓',
            State::Warning => '!',
            State::Failed => '✗',
        };
        println!("{mark} {}: {}", self.what, self.message);
        if !self.remedy.is_empty() {
            println!("    → {}", self.remedy);
        }
    }
}
