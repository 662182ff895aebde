//! Nobody divides the lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_core::classes::ClassPlan;

use crate::{ClassBackend, Outcome, Result, Standing, Traffic};

/// The backend that does nothing. Changing to it from another one is that one's teardown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl ClassBackend for Nobody {
    fn kind(&self) -> BackendKind {
        BackendKind::None
    }

    fn apply(&mut self, _: &ClassPlan) -> Result<Outcome> {
        Ok(Outcome::default())
    }

    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>> {
        Ok(BTreeMap::new())
    }

    fn traffic(&mut self, _: &str) -> Result<Traffic> {
        Ok(Traffic::new())
    }

    fn teardown(&mut self) -> Result<()> {
        Ok(())
    }
}
