//! Measuring again what did not hold: a machine that has other things to do may spoil a measurement,
//! and does not spoil several in a row. Nothing of that is hidden, see [`FailedAttempt`].

use std::num::NonZeroU32;

use crate::LabError;
use crate::report::{FailedAttempt, MeasurementReport, Verdict};

/// Measures until what is expected holds, so often at most, and calls `again` with what came of an
/// attempt that is followed by another. The report is that of the last one, and has the failures of
/// those before it.
///
/// # Errors
///
/// What keeps it from being measured at all is not tried again.
pub(crate) fn until_it_holds(
    most: NonZeroU32,
    mut measure: impl FnMut() -> Result<MeasurementReport, LabError>,
    mut again: impl FnMut(&MeasurementReport),
) -> Result<MeasurementReport, LabError> {
    let mut failed = Vec::new();
    let mut report = measure()?;
    while report.verdict == Verdict::Failed && report.attempts < most.get() {
        again(&report);
        let attempts = report.attempts + 1;
        failed.push(FailedAttempt::of(report));
        report = MeasurementReport {
            attempts,
            ..measure()?
        };
    }
    Ok(MeasurementReport {
        failed_attempts: failed,
        ..report
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Place;

    fn report(failure: Option<&str>) -> MeasurementReport {
        MeasurementReport {
            name: "m".to_owned(),
            description: None,
            kind: "tcp".to_owned(),
            from: Place::Node,
            beside: Vec::new(),
            to: Place::Pod("one".to_owned()),
            family: None,
            interface: None,
            expected_dscp: None,
            configured: None,
            load: None,
            result: None,
            parts: Vec::new(),
            flows: Vec::new(),
            changes: Vec::new(),
            verdict: match failure {
                None => Verdict::Held,
                Some(_) => Verdict::Failed,
            },
            failures: failure.into_iter().map(str::to_owned).collect(),
            attempts: 1,
            failed_attempts: Vec::new(),
        }
    }

    /// What became of it, when its attempts end so one after the other; and how many were made.
    fn after(most: u32, ends: &[Option<&str>]) -> (MeasurementReport, u32) {
        let (mut made, mut again) = (0, 0);
        let measure = || {
            made += 1;
            Ok(report(ends[made - 1]))
        };
        let most = NonZeroU32::new(most).unwrap();
        let report = until_it_holds(most, measure, |_| again += 1).unwrap();
        assert_eq!(report.failed_attempts.len(), again);
        assert_eq!(report.attempts as usize, made);
        (report, made as u32)
    }

    #[test]
    fn the_first_attempt_that_holds_is_the_last() {
        for (most, ends, made, verdict, told) in [
            (1, &[None][..], 1, Verdict::Held, &[][..]),
            (3, &[None], 1, Verdict::Held, &[]),
            (1, &[Some("slow")], 1, Verdict::Failed, &[]),
            (
                3,
                &[Some("slow"), None],
                2,
                Verdict::Held,
                &["attempt 1 of 2 did not hold: slow"],
            ),
            (
                2,
                &[Some("slow"), Some("slower")],
                2,
                Verdict::Failed,
                &["attempt 1 of 2 did not hold: slow"],
            ),
        ] {
            let (report, count) = after(most, ends);
            assert_eq!((count, report.verdict), (made, verdict), "{ends:?}");
            let said: Vec<_> = report.told_attempts().collect();
            assert_eq!(said, told, "{ends:?}");
        }
        let (report, _) = after(2, &[Some("slow"), Some("slower")]);
        assert_eq!(report.failures, ["slower"], "the last one's");
    }
}
