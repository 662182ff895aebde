//! The results of the steps.

use std::time::Instant;

use serde::Serialize;

/// The result of a step.
#[derive(Debug, Serialize)]
pub struct Row {
    step: &'static str,
    passed: bool,
    seconds: f64,
    /// The measurements, or the error.
    result: String,
}

impl Row {
    /// The result of a step that began at this instant.
    pub fn of<E: std::fmt::Display>(
        step: &'static str,
        began: Instant,
        result: &Result<String, E>,
    ) -> Self {
        Self {
            step,
            passed: result.is_ok(),
            seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            result: match result {
                Ok(measured) => measured.clone(),
                Err(error) => format!("{error:#}"),
            },
        }
    }

    /// Returns true if the step has shown what it is there for.
    pub fn passed(&self) -> bool {
        self.passed
    }

    /// Prints the row as progress, and adds it to others. Returns [`Row::passed`].
    pub fn keep(self, rows: &mut Vec<Self>) -> bool {
        let passed = self.passed;
        eprintln!("{}", self.line());
        rows.push(self);
        passed
    }

    fn line(&self) -> String {
        let passed = if self.passed { "ok" } else { "FAILED" };
        let Self {
            step,
            seconds,
            result,
            ..
        } = self;
        format!("{step:<22} {passed:<7} {seconds:>6.1} s  {result}")
    }
}

/// All rows, with a line above.
pub fn table(rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    format!(
        "{:<22} {:<7} {:>8}  MEASURED\n{}\n",
        "STEP",
        "RESULT",
        "TIME",
        lines.join("\n")
    )
}
