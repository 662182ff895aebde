//! Deciding where each queue of an attachment goes, before anything is changed.

use netqos_api::{HookChoice, ifb_name};
use netqos_bpf::TcxHook;
use netqos_core::{Attachment, Limit, Tag};
use netqos_netlink::link::{Link, optional};

use crate::endpoint::Side;
use crate::error::Doing;
use crate::hook::{self, HookKind, HookQdisc};
use crate::limits::{LeftOut, Request, Site};
use crate::queue::Found;
use crate::record::{LinkRecord, QueueName, QueueRecord, Record, SideName};
use crate::{Error, LimitDatapath, Result, Shape, clsact, legacy};

/// A queue, and what was found where it belongs.
pub(crate) struct Planned {
    pub(crate) limit: Limit,
    /// The link carries the traffic of a running pod.
    pub(crate) is_running: bool,
    pub(crate) record: QueueRecord,
    /// The link that will carry it; `None` for an ifb that has to be made.
    pub(crate) carrier: Option<Link>,
    /// The link whose traffic is sent through it.
    pub(crate) detour_from: Option<Link>,
    pub(crate) found: Found,
    pub(crate) hook_qdisc: HookQdisc,
}

impl LimitDatapath {
    /// Decides where each queue goes; fails where one cannot, before anything is changed.
    pub(crate) fn plan(
        &mut self,
        request: &Request<'_>,
        site: &mut Site,
        before: Option<&Record>,
        left_out: &mut LeftOut,
    ) -> Result<Vec<Planned>> {
        let mut plan = Vec::new();
        for (queue, limit) in site.endpoint.queues(&request.limits, left_out.ingress) {
            match self.plan_queue(request, site, before, queue, limit) {
                Ok(planned) => plan.push(planned),
                Err(why) => {
                    let place = site.endpoint.place(queue, request.egress);
                    let side = place.map_or(SideName::Pod, |(side, ..)| side);
                    left_out.note(queue, side, why)?;
                }
            }
        }
        match plan.is_empty() {
            true => left_out.fail().map(|()| plan),
            false => Ok(plan),
        }
    }

    fn plan_queue(
        &mut self,
        request: &Request<'_>,
        site: &mut Site,
        before: Option<&Record>,
        queue: QueueName,
        limit: Limit,
    ) -> Result<Planned> {
        let Site {
            pod,
            endpoint,
            pins,
        } = site;
        let (side_name, link, through_ifb) = endpoint.place(queue, request.egress)?;
        let side = match side_name {
            SideName::Host => &mut self.host,
            SideName::Pod => pod,
        };
        let at_link = HookQdisc::read(&mut side.socket, link)?;
        // Written down before it is made, on every record of the link, those of rules too:
        // whichever goes last removes it.
        let made_clsact = match at_link {
            HookQdisc::Absent => true,
            HookQdisc::Ingress => false,
            HookQdisc::Clsact => {
                clsact::is_made_by_rules(&self.paths, request.attachment, side_name, link.index)
            }
        };
        let (carrier, name) = if through_ifb {
            ifb_for(side, link, request.attachment, queue)?
        } else {
            (Some(link.clone()), link.name.clone())
        };
        let (found, hook_qdisc) = match &carrier {
            Some(ifb) if through_ifb => (
                Found::read(&mut side.socket, ifb)?,
                HookQdisc::read(&mut side.socket, ifb)?,
            ),
            Some(link) => (Found::read(&mut side.socket, link)?, at_link),
            None => (Found::default(), HookQdisc::Absent),
        };
        if let Some(carrier) = &carrier {
            // An ifb was found by its being ours, or the well-known plugin's for this pod.
            let is_ours = through_ifb
                || carrier.alias.as_deref() == Some(&request.attachment.tag())
                || before.is_some_and(|before| knows(before, side_name, carrier));
            let made_by_other = side_name == SideName::Host && legacy::made(&found, &limit);
            found.validate(carrier, is_ours || made_by_other)?;
        }
        let has_foreign_tcx = match &carrier {
            Some(link) if request.hook == HookChoice::Auto => {
                side.inside(|| TcxHook::Egress.has_foreign(link.index))?
            }
            _ => false,
        };
        let is_running = request.is_running && !through_ifb;
        let choice = hook::choose(
            &name,
            hook_qdisc,
            has_foreign_tcx,
            pins,
            request.hook,
            is_running,
        )?;
        let detour_from = through_ifb.then(|| link.clone());
        // The record precedes the change.
        let is_ranked = choice.kind != HookKind::None;
        let shape = Shape::at(&limit, carrier.as_ref().unwrap_or(link), is_running);
        let length = carrier.as_ref().map_or(0, |link| link.tx_queue_len);
        let band_limit = (is_ranked && !found.has_bands()).then(|| shape.band_limit(length));
        let is_set = carrier.is_some() && is_ranked && !shape.fits(length);
        Ok(Planned {
            limit,
            is_running,
            record: QueueRecord {
                direction: queue.direction(),
                in_pod: queue == QueueName::IngressInPod,
                side: side_name,
                link: LinkRecord {
                    name,
                    index: carrier.as_ref().map_or(0, |link| link.index),
                    made_clsact: made_clsact && !through_ifb,
                    tagged: carrier.as_ref().is_none_or(is_taggable),
                    tx_queue_len: is_set.then_some(length),
                    set_tx_queue_len: is_set.then(|| shape.ring()),
                },
                detour_from: detour_from.as_ref().map(|from| LinkRecord {
                    name: from.name.clone(),
                    index: from.index,
                    made_clsact,
                    tagged: is_taggable(from),
                    tx_queue_len: None,
                    set_tx_queue_len: None,
                }),
                backstop: through_ifb,
                no_backstop_because: None,
                hook: choice.kind,
                band_limit,
                mtu: Some(carrier.as_ref().unwrap_or(link).mtu),
                limiter: None,
                unranked_because: choice.why_none,
            },
            carrier,
            detour_from,
            found,
            hook_qdisc,
        })
    }
}

/// True when an earlier call put its queue on this link.
fn knows(before: &Record, side: SideName, link: &Link) -> bool {
    before
        .queues
        .iter()
        .any(|queue| queue.side == side && queue.link.index == link.index)
}

/// True when both are the same queue, at the same place and made in the same way. The pod can rename its links; an ifb may
/// have been made again.
pub(crate) fn is_same(old: &QueueRecord, new: &QueueRecord) -> bool {
    let place = |queue: &QueueRecord| {
        let link = (queue.detour_from.is_none()).then_some(queue.link.index);
        // The backstop has the name of the link that leads to an ifb.
        let ifb = queue.detour_from.as_ref();
        let ifb = ifb.map(|from| (from.index, from.name.clone(), queue.link.name.clone()));
        (queue.name(), queue.side, queue.hook, link, ifb)
    };
    place(old) == place(new)
}

/// What an earlier call made stays ours to remove, though this one found it there, and for
/// whichever queue it was made; so does the transmit queue length that it found.
pub(crate) fn inherit(before: &Record, plan: &mut [Planned]) {
    let known: Vec<(SideName, &LinkRecord)> = before
        .queues
        .iter()
        .flat_map(|queue| {
            let both = [Some(&queue.link), queue.detour_from.as_ref()];
            both.into_iter().flatten().map(|link| (queue.side, link))
        })
        .collect();
    for planned in plan {
        let same = before
            .queues
            .iter()
            .find(|old| is_same(old, &planned.record));
        planned.record.limiter = same.and_then(|old| old.limiter);
        let band_limit = same.and_then(|old| old.band_limit);
        planned.record.band_limit = band_limit.or(planned.record.band_limit);
        let QueueRecord {
            side,
            link,
            detour_from,
            ..
        } = &mut planned.record;
        for link in [Some(link), detour_from.as_mut()].into_iter().flatten() {
            for (_, old) in known
                .iter()
                .filter(|(on, old)| on == side && old.index == link.index)
            {
                link.made_clsact |= old.made_clsact;
            }
        }
        let link = &mut planned.record.link;
        let mut queues = before.queues.iter();
        let old =
            queues.find(|old| old.side == planned.record.side && old.link.index == link.index);
        if let Some(LinkRecord {
            tx_queue_len: Some(length),
            set_tx_queue_len,
            ..
        }) = old.map(|it| &it.link)
        {
            link.tx_queue_len = Some(*length);
            link.set_tx_queue_len = link.set_tx_queue_len.or(*set_tx_queue_len);
        }
    }
}

/// Finds the ifb of this attachment, or the name for a new one.
fn ifb_for(
    side: &mut Side,
    from: &Link,
    attachment: &Attachment,
    queue: QueueName,
) -> Result<(Option<Link>, String)> {
    let (network, container) = (attachment.network(), attachment.container());
    let name_for = |container: &str| match queue {
        QueueName::IngressInPod => ifb_name(network, container).replacen("bwp", "nqi", 1),
        _ => ifb_name(network, container),
    };
    // The second name serves a second interface on the same network, for which the well-known
    // plugin's name is taken.
    let second = format!("{container}{}", attachment.interface());
    for name in [name_for(container), name_for(&second)] {
        let Some(link) = optional(side.socket.link_by_name(&name)).doing("get ifb device")? else {
            return Ok((None, name));
        };
        let is_ours = link.alias.as_deref() == Some(&attachment.tag())
            || legacy::leads_to(&mut side.socket, from, &link)?;
        if is_ours && link.kind == "ifb" {
            return Ok((Some(link), name));
        }
    }
    Err(Error::ForeignIfb(name_for(&second)))
}

/// True when the alias is free for our tag, or holds one.
fn is_taggable(link: &Link) -> bool {
    match link.alias.as_deref() {
        None | Some("") => true,
        Some(alias) => alias.parse::<Tag>().is_ok(),
    }
}
