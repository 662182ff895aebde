//! Nobody divides the lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_core::classes::ClassPlan;

use crate::{ClassBackend, Outcome, Result, Standing};

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

    fn teardown(&mut self) -> Result<()> {
        Ok(())
    }
}
