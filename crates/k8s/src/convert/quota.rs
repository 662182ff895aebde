//! Quotas.

use std::collections::BTreeSet;

use netqos_core::{BitRate, Dscp, Priority, Quota};

use super::label_selector;
use super::metadata;
use super::policy::KILOBITS;
use super::selector::at_most;
use crate::field::item;
use crate::{FieldError, NetworkQoSQuota};

/// The most DSCP values: all there are.
const MARKS: usize = 64;
/// The most rules that a policy may have by its schema.
const RULES: i64 = 20;

/// A `NetworkQoSQuota`. It obeys every limit of the schema and of its CEL rule.
///
/// # Errors
/// The first field that breaks one.
pub fn quota(object: &NetworkQoSQuota) -> Result<Quota, FieldError> {
    let spec = &object.spec;
    let mut quota = Quota::new(&metadata::name(&object.metadata)?);
    if let Some(selector) = &spec.namespace_selector {
        quota.namespaces =
            label_selector(selector).map_err(|error| error.inside("spec.namespaceSelector"))?;
    }
    if let Some(bounds) = &spec.priority {
        let priority = |value: i64, path: &str| {
            Priority::try_new(value).map_err(|error| FieldError::new(path, error))
        };
        if let Some(min) = bounds.min {
            quota.min_priority = priority(min, "spec.priority.min")?;
        }
        if let Some(max) = bounds.max {
            quota.max_priority = priority(max, "spec.priority.max")?;
        }
        if quota.min_priority > quota.max_priority {
            return Err(FieldError::new("spec.priority.min", "min is more than max"));
        }
    }
    if let Some(kilobits) = spec.max_rate {
        let bits = u64::try_from(kilobits)
            .ok()
            .filter(|_| kilobits <= KILOBITS);
        let bits = bits.filter(|kilobits| *kilobits > 0);
        let bits = bits.ok_or_else(|| {
            let message = format!("{kilobits} is not between 1 and {KILOBITS}");
            FieldError::new("spec.maxRate", message)
        })?;
        quota.max_rate = Some(BitRate::from_bits_per_second(bits * 1_000));
    }
    if let Some(values) = &spec.dscp {
        at_most(values.len(), MARKS, "spec.dscp")?;
        let mut marks = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            let mark = Dscp::try_new(*value);
            let wrong = |error| FieldError::new(item("spec.dscp", index), error);
            marks.insert(mark.map_err(wrong)?);
        }
        quota.dscp = Some(marks);
    }
    if let Some(rules) = spec.max_rules {
        let most = u16::try_from(rules).ok().filter(|_| rules <= RULES);
        quota.max_rules = Some(most.ok_or_else(|| {
            let message = format!("{rules} is not between 0 and {RULES}");
            FieldError::new("spec.maxRules", message)
        })?);
    }
    Ok(quota)
}
