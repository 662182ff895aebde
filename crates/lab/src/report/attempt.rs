//! What came of measuring something before it was measured again.

use serde::Serialize;

use super::{LoadReport, MeasurementReport, Outcome, Part};

/// An attempt that did not hold, and was followed by another.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// What came from each place, where there were several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// What else went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// What of the expectations did not come true, one sentence each.
    pub failures: Vec<String>,
}

impl FailedAttempt {
    pub(crate) fn of(report: MeasurementReport) -> Self {
        Self {
            result: report.result,
            parts: report.parts,
            load: report.load,
            failures: report.failures,
        }
    }
}

impl MeasurementReport {
    /// What came of all attempts but the last, one sentence each.
    pub(crate) fn told_attempts(&self) -> impl Iterator<Item = String> {
        let all = self.attempts;
        let numbered = (1_u32..).zip(&self.failed_attempts);
        numbered.map(move |(number, failed)| {
            let why = failed.failures.join("; ");
            format!("attempt {number} of {all} did not hold: {why}")
        })
    }
}
