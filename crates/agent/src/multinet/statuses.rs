//! The annotations `network-status` that pods should have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use netqos_api::multinet::{PodName, PodRecord};
use netqos_api::npwg::write_status;
use netqos_core::Digest;

/// The annotations by pods.
pub type StatusAnnotations = BTreeMap<PodName, StatusAnnotation>;

/// The annotation of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusAnnotation {
    /// The time of the record.
    pub(crate) time: SystemTime,
    pub(crate) text: Arc<str>,
    pub(crate) digest: Digest,
}

impl StatusAnnotation {
    /// The annotation of a record of this time, with its pod. `None`: it is not of a pod, or not all its networks are made.
    pub(crate) fn of(record: &PodRecord, time: SystemTime) -> Option<(PodName, Self)> {
        let text = write_status(record.status.as_ref()?);
        let digest = Digest::of(&text);
        let text = text.into();
        Some((record.pod.clone()?, Self { time, text, digest }))
    }
}
