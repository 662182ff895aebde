//! Making one planned queue, whatever of it is there already.

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_core::Attachment;
use netqos_netlink::link::{Link, LinkChange};

use crate::endpoint::Side;
use crate::error::Doing;
use crate::hook::{self, HookKind, HookQdisc};
use crate::owner::Owner;
use crate::plan::Planned;
use crate::queue::{self, Found};
use crate::record::QueueRecord;
use crate::{Error, Result, Shape, Shaped, backstop, detour};

/// Makes the queues of one attachment.
pub(crate) struct Installer<'a> {
    pub(crate) attachment: &'a Attachment,
    /// What ranks; `None` where it cannot be had.
    pub(crate) pins: Option<&'a Pins>,
    pub(crate) choice: HookChoice,
}

/// A link, and the queue that it shall carry.
struct Carrier {
    link: Link,
    found: Found,
    hook_qdisc: HookQdisc,
    shape: Shape,
}

impl Installer<'_> {
    /// Makes one queue, and completes its record. Returns the number of dropped packets, too.
    pub(crate) fn install(
        &self,
        side: &mut Side,
        planned: Planned,
        record: &mut QueueRecord,
    ) -> Result<(Shaped, u32)> {
        let limit = &planned.limit;
        let link = match (planned.carrier, &planned.detour_from) {
            (None, Some(from)) => {
                let ring = Shape::new(limit, from).ring();
                side.socket
                    .add_ifb(&record.link.name, from.mtu, ring)
                    .doing("adding link")?
            }
            (Some(link), _) => link,
            (None, None) => return Err(Error::QdiscMissing),
        };
        record.link.index = link.index;
        self.tag(side, &link, record.link.tagged)?;
        if planned.detour_from.is_some() && !link.is_up {
            side.socket.set_link_up(&link, true).doing("set link up")?;
        }
        let carrier = Carrier {
            shape: Shape::at(limit, &link, planned.is_running),
            link,
            found: planned.found,
            hook_qdisc: planned.hook_qdisc,
        };
        let dropped = self.queue(side, &carrier, record)?;
        if record.link.tx_queue_len.is_some() {
            let link = side.socket.link_by_index(carrier.link.index);
            let link = link.doing("get host device")?;
            let set = record.link.set_tx_queue_len;
            if set.is_some_and(|set| set != link.tx_queue_len) {
                // The bands of before are long enough.
                record.link.tx_queue_len = None;
            }
        }
        if let (Some(from_record), Some(from)) = (&record.detour_from, &planned.detour_from) {
            self.tag(side, from, from_record.tagged)?;
            detour::apply(&mut side.socket, from, &carrier.link)?;
            record.no_backstop_because =
                backstop::apply(side, from, &carrier.link, &self.attachment.tag())?;
            record.backstop = record.no_backstop_because.is_none();
        }
        let queue = Shaped {
            direction: record.direction,
            side: record.side,
            is_ifb: planned.detour_from.is_some(),
            no_backstop_because: record.no_backstop_because.clone(),
            hook: record.hook,
            unranked_because: record.unranked_because.clone(),
            shape: carrier.shape,
            mac: carrier.link.mac(),
            link: carrier.link.name,
        };
        Ok((queue, dropped))
    }

    /// Makes the queue, ranked if it can be. That it cannot may show only now, on a kernel that
    /// loads programs but lacks the hook or the bands; where nobody insists, it does without.
    fn queue(&self, side: &mut Side, carrier: &Carrier, record: &mut QueueRecord) -> Result<u32> {
        let (link, shape) = (&carrier.link, &carrier.shape);
        let Some(pins) = self.pins.filter(|_| record.hook != HookKind::None) else {
            let found = &carrier.found;
            return queue::apply(
                &mut side.socket,
                link,
                found,
                shape,
                false,
                &mut record.band_limit,
            );
        };
        match self.ranked(side, carrier, record, pins) {
            Err(why) if self.choice == HookChoice::Auto && why.is_unsupported() => {
                if let Some(limiter) = record.limiter.take() {
                    let owner = Owner::new(self.attachment, record.name());
                    pins.limiters().release(limiter, owner.id)?;
                }
                record.hook = HookKind::None;
                record.band_limit = None;
                record.unranked_because = Some(why.to_string());
                let found = Found::read(&mut side.socket, link)?;
                queue::apply(
                    &mut side.socket,
                    link,
                    &found,
                    shape,
                    false,
                    &mut record.band_limit,
                )
            }
            made => made,
        }
    }

    /// Makes the queue with bands, and puts the program that fills them in front of it.
    fn ranked(
        &self,
        side: &mut Side,
        carrier: &Carrier,
        record: &mut QueueRecord,
        pins: &Pins,
    ) -> Result<u32> {
        let (link, shape) = (&carrier.link, &carrier.shape);
        let found = &carrier.found;
        let dropped = queue::apply(
            &mut side.socket,
            link,
            found,
            shape,
            true,
            &mut record.band_limit,
        )?;
        let settings = shape.settings(Owner::new(self.attachment, record.name()));
        let limiter = pins.limiters().claim(&settings, record.limiter)?;
        record.limiter = Some(limiter);
        let path = hook::link_path(pins, &self.attachment.tag(), record.name());
        let there = carrier.hook_qdisc;
        hook::attach(side, link, there, record.hook, pins, limiter, &path)?;
        Ok(dropped)
    }

    fn tag(&self, side: &mut Side, link: &Link, tagged: bool) -> Result<()> {
        let tag = self.attachment.tag();
        if !tagged || link.alias.as_deref() == Some(&tag) {
            return Ok(());
        }
        let change = LinkChange {
            alias: Some(tag.to_string()),
            ..LinkChange::default()
        };
        side.socket.change_link(link, &change).doing("tag link")
    }
}
