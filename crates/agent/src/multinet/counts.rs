//! Counts of the agent's part in the attachments of pods, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use netqos_api::multinet::Answer;

/// Counts since the agent started.
#[derive(Debug, Default)]
pub(crate) struct MultinetCounts {
    answered: AtomicU64,
    try_again: AtomicU64,
    refused: AtomicU64,
    written: AtomicU64,
    gone: AtomicU64,
    failed: AtomicU64,
}

/// The result of a write of `network-status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusWrite {
    /// The pod has it.
    Written,
    /// The pod is gone.
    Gone,
    /// The API server refused it, or did not answer.
    Failed,
}

impl MultinetCounts {
    /// Counts an answer to the plugin.
    pub(crate) fn count_answer(&self, answer: &Answer) {
        let count = match answer {
            Answer::Annotations { .. } | Answer::Nads(_) => &self.answered,
            Answer::TryAgain(_) => &self.try_again,
            Answer::Refused(_) => &self.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write of `network-status`.
    pub(crate) fn count_write(&self, write: StatusWrite) {
        let count = match write {
            StatusWrite::Written => &self.written,
            StatusWrite::Gone => &self.gone,
            StatusWrite::Failed => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of answers for each result.
    pub(crate) fn answers(&self) -> [(&'static str, u64); 3] {
        [
            ("answered", read(&self.answered)),
            ("try_again", read(&self.try_again)),
            ("refused", read(&self.refused)),
        ]
    }

    /// Returns the number of writes for each result.
    pub(crate) fn writes(&self) -> [(&'static str, u64); 3] {
        [
            ("written", read(&self.written)),
            ("pod_gone", read(&self.gone)),
            ("failed", read(&self.failed)),
        ]
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
