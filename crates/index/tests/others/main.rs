//! What an index makes of objects.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod agreement;
mod broken;
mod elsewhere;
mod endpoints;
mod explanation;
mod incremental;
mod manifests;
mod networks;
mod precedence;
mod primary;
mod profiles;
mod quotas;
mod recorded;
mod resolving;
mod selectors;
mod services;
mod sliced;
mod slicing;
mod written;

use netqos_core::PlanDelta;
use netqos_index::{Change, Index};
use netqos_testkit::index::{arbitrary, objects};

/// A change, and what it makes of the plan.
trait Applied {
    fn applied(&mut self, change: Change) -> PlanDelta;
}

impl Applied for Index {
    fn applied(&mut self, change: Change) -> PlanDelta {
        self.apply(change);
        self.take_delta()
    }
}
