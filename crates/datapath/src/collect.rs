//! GC: what an attachment left that no longer exists.

use std::collections::HashSet;

use netqos_bpf::{Pins, TcxLink};
use netqos_core::{Attachment, Limits, Tag};

use crate::endpoint::HostLinks;
use crate::error::Errors;
use crate::owner::{Owner, network as network_hash};
use crate::teardown::strip;
use crate::{LimitDatapath, Result, backstop};

impl LimitDatapath {
    /// Removes what netqos made for attachments of this network that are not among the living.
    /// Nothing of other networks, and nothing of others, is touched.
    ///
    /// # Errors
    /// What could not be removed; the rest is.
    pub fn collect(&mut self, network: &str, alive: &[Attachment]) -> Result<()> {
        let living: HashSet<Tag> = alive.iter().map(Attachment::tag).collect();
        let is_stale = |tag: &Tag| tag.is_of_network(network) && !living.contains(tag);
        let mut errors = Errors::default();
        for record in self.records.all()? {
            let attachment = &record.attachment;
            if attachment.network() == network && !alive.contains(attachment) {
                let unlimited = Limits::default();
                errors.note(self.teardown(attachment, None, HostLinks::Unknown, &unlimited));
            }
        }
        // What is left are links whose record was lost, and what has lost the link as well.
        errors.note(strip(&mut self.host, &is_stale, self.paths.bpffs()));
        let is_stale_tag = |text: &str| text.parse().is_ok_and(|tag| is_stale(&tag));
        errors.note(backstop::strip(&self.host, &is_stale_tag));
        errors.note(self.collect_limiters(network, alive));
        errors.note(self.collect_tcx_links(&is_stale));
        errors.note(self.records.tidy());
        errors.finish()
    }

    /// Limiters of this network whose owner neither lives nor has a record. A record is written
    /// before its limiters are claimed, so those of an ADD that is under way are safe.
    fn collect_limiters(&mut self, network: &str, alive: &[Attachment]) -> Result<()> {
        let Some(pins) = Pins::open(self.paths.bpffs())? else {
            return Ok(());
        };
        let limiters = pins.limiters().all()?;
        let records = self.records.all()?;
        let known = records.iter().map(|record| &record.attachment).chain(alive);
        let owners: HashSet<u64> = known.flat_map(Owner::all).map(|owner| owner.id).collect();
        for (id, limiter) in limiters {
            let settings = limiter.settings;
            if settings.network == network_hash(network) && !owners.contains(&settings.owner) {
                pins.limiters().release(id, settings.owner)?;
            }
        }
        Ok(())
    }

    /// tcx links, which are named by the tag and the direction.
    fn collect_tcx_links(&mut self, is_stale: &dyn Fn(&Tag) -> bool) -> Result<()> {
        let Some(pins) = Pins::open(self.paths.bpffs())? else {
            return Ok(());
        };
        for name in pins.link_names()? {
            let tag = name.rsplit_once(':').and_then(|(tag, _)| tag.parse().ok());
            if tag.is_some_and(|tag| is_stale(&tag))
                && let Some(link) = TcxLink::open(&pins.link_path(&name))?
            {
                link.detach()?;
            }
        }
        Ok(())
    }
}
