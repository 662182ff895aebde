//! GC: what an attachment left that no longer exists.

use std::collections::HashSet;

use netqos_bpf::Pins;
use netqos_core::Attachment;

use crate::endpoint::HostLinks;
use crate::error::Errors;
use crate::teardown::{owners, strip};
use crate::{LimitDatapath, Result};

impl LimitDatapath {
    /// Removes what carries netqos' tag for this network, unless `keeps` says that its attachment
    /// is alive. Nothing else is touched.
    ///
    /// # Errors
    /// What could not be removed; the rest is.
    pub fn collect(&mut self, network: &str, keeps: &dyn Fn(&Attachment) -> bool) -> Result<()> {
        let is_stale =
            |attachment: &Attachment| attachment.network() == network && !keeps(attachment);
        let mut errors = Errors::default();
        for record in self.records.all()? {
            if is_stale(&record.attachment) {
                errors.note(self.teardown(&record.attachment, None, HostLinks::Unknown));
            }
        }
        // What is left are links whose record was lost.
        errors.note(strip(&mut self.host, &is_stale, self.paths.bpffs()));
        errors.note(self.collect_limiters());
        errors.finish()
    }

    /// Limiters that no record owns. A record is written before its limiters are claimed, so those
    /// of an ADD that is under way are safe.
    fn collect_limiters(&mut self) -> Result<()> {
        let Some(pins) = Pins::open(self.paths.bpffs())? else {
            return Ok(());
        };
        let limiters = pins.limiters().all()?;
        let owned: HashSet<u64> = self
            .records
            .all()?
            .iter()
            .flat_map(|record| owners(&record.attachment))
            .collect();
        for (id, limiter) in limiters {
            if !owned.contains(&limiter.settings.owner) {
                pins.limiters().release(id, limiter.settings.owner)?;
            }
        }
        Ok(())
    }
}
