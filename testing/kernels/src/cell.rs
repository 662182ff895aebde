//! A test on one kernel, in a machine with some settings.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::Judge;
use crate::kernel::Kernel;

/// The longest that a cell may take: `make test-kernels` can then be interrupted, and continues.
pub const LONGEST: Duration = Duration::from_mins(15);

/// A test on one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub kernel: Kernel,
    /// The row of the table, and the second part of its name.
    pub row: &'static Row,
}

/// A capability, which each kernel is tested for, or a variation, which one kernel is.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As in `--only KERNEL/NAME`.
    pub name: &'static str,
    /// Its words in the table of docs/kernels.md.
    pub title: &'static str,
    /// A function of `guest`.
    pub test: &'static str,
    pub machine: Machine,
    pub judge: Judge,
    /// The outcome that it has to have on all kernels but these.
    pub expected: Outcome,
    pub except: &'static [(Kernel, Outcome)],
}

/// The settings of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Words `NAME=VALUE` for the test, which finds them as variables.
    pub arguments: &'static str,
    /// More of the kernel's command line.
    pub command_line: &'static str,
    /// Modules that it does not have.
    pub without: &'static [&'static str],
    /// `NAME=VALUE`, set before the test.
    pub sysctls: &'static [&'static str],
    /// Two network cards (virtio) on one wire, each with this number of queues; 0: none.
    pub card_queues: u8,
}

/// Whether netqos works, as a run has shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As on any kernel.
    Works,
    /// By other means, or not all of it.
    WorksOtherwise,
    /// Not at all, and it says so.
    Missing,
}

/// What a run has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// What was measured, or is missing; in a line.
    pub shown: String,
}

impl Machine {
    /// One processor, no network card, all modules.
    pub const DEFAULT: Self = Self {
        arguments: "",
        command_line: "",
        without: &[],
        sysctls: &[],
        card_queues: 0,
    };
}

impl Row {
    /// A test on a machine with default settings, which has to work.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        test: &'static str,
        judge: Judge,
    ) -> Self {
        Self {
            name,
            title,
            test,
            machine: Machine::DEFAULT,
            judge,
            expected: Outcome::Works,
            except: &[],
        }
    }

    pub const fn with(mut self, arguments: &'static str) -> Self {
        self.machine.arguments = arguments;
        self
    }

    pub const fn without(mut self, modules: &'static [&'static str]) -> Self {
        self.machine.without = modules;
        self
    }

    pub const fn sysctls(mut self, sysctls: &'static [&'static str]) -> Self {
        self.machine.sysctls = sysctls;
        self
    }

    pub const fn command_line(mut self, words: &'static str) -> Self {
        self.machine.command_line = words;
        self
    }

    pub const fn card(mut self, queues: u8) -> Self {
        self.machine.card_queues = queues;
        self
    }

    pub const fn expect(mut self, outcome: Outcome) -> Self {
        self.expected = outcome;
        self
    }

    pub const fn except(mut self, outcomes: &'static [(Kernel, Outcome)]) -> Self {
        self.except = outcomes;
        self
    }
}

impl Row {
    /// The value of an argument of the test.
    pub fn argument(&self, name: &str) -> Option<&'static str> {
        let mut words = self.machine.arguments.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

impl Cell {
    /// The outcome that it has to have.
    pub fn expected(&self) -> Outcome {
        let exception = self.row.except.iter().find(|(of, _)| *of == self.kernel);
        exception.map_or(self.row.expected, |(_, outcome)| *outcome)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kernel, self.row.name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Works => "works",
            Self::WorksOtherwise => "works otherwise",
            Self::Missing => "missing",
        })
    }
}
