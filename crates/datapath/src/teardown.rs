//! Taking limits away: what is ours goes, what was there before stays.

use std::path::Path;

use netqos_bpf::{Pins, TcxLink};
use netqos_core::{Attachment, Limit, Limits, Tag};
use netqos_netlink::link::{Link, LinkChange, gone, optional};

use crate::endpoint::{HostLinks, Side};
use crate::error::{Doing, Errors};
use crate::hook::{self, HookKind};
use crate::owner::Owner;
use crate::record::{LinkRecord, QueueName, QueueRecord, Record, SideName};
use crate::{LimitDatapath, Result, backstop, detour, legacy, queue as queues};

impl LimitDatapath {
    /// Takes the attachment's limits away, as far as they are there: it may be called when the
    /// namespace or the interface is gone, and again. By `limits` what the well-known plugin made
    /// is recognised.
    ///
    /// # Errors
    /// What could not be removed; the rest is.
    pub fn teardown(
        &mut self,
        attachment: &Attachment,
        netns: Option<&Path>,
        host_links: HostLinks<'_>,
        limits: &Limits,
    ) -> Result<()> {
        match self.records.lock(attachment) {
            Ok(lock) => {
                self.teardown_locked(attachment, netns, host_links, limits)?;
                self.records.remove(attachment, &lock)
            }
            // A folder that is full or read-only must not keep a pod from going; there can be
            // nobody else then who has the lock.
            Err(_) if matches!(self.records.read(attachment), Ok(None)) => {
                self.teardown_locked(attachment, netns, host_links, limits)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn teardown_locked(
        &mut self,
        attachment: &Attachment,
        netns: Option<&Path>,
        host_links: HostLinks<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let mut errors = Errors::default();
        let record = self.records.read(attachment)?;
        // Gone is as good as cleaned up. A path that names another pod's namespace by now does no
        // harm: the link in it does not carry our tag.
        let mut pod = match netns.or(record.as_ref().map(|record| record.netns.as_path())) {
            Some(path) => errors.note(Side::pod_to_clean(path)).flatten(),
            None => None,
        };
        match &record {
            Some(record) => {
                let replaced = self.replaced(record);
                for old in &record.queues {
                    let bpffs = self.paths.bpffs();
                    let dropped = errors.note(match side_of(old.side, &mut self.host, &mut pod) {
                        Some(side) => remove(side, old, attachment, bpffs, replaced),
                        None => release(old, attachment, bpffs).map(|()| 0),
                    });
                    self.dropped += u64::from(dropped.unwrap_or(0));
                }
                // Last, since without the record only the tag says whose the rest is.
                for old in &record.queues {
                    if let Some(side) = side_of(old.side, &mut self.host, &mut pod) {
                        errors.note(untag(side, old, attachment));
                    }
                }
            }
            None => {
                let tag = attachment.tag();
                for side in [Some(&mut self.host), pod.as_mut()].into_iter().flatten() {
                    errors.note(strip(side, &|it| *it == tag, self.paths.bpffs()));
                }
            }
        }
        errors.note(legacy::teardown(
            &mut self.host.socket,
            attachment,
            host_links,
            limits,
        ));
        errors.finish()
    }

    /// Returns the ingress limit of a record if another process may have made its own of the queue on the host.
    pub(crate) fn replaced(&self, record: &Record) -> Option<Limit> {
        let is_replaced = self.is_only_in_pod(&record.attachment);
        record.limits.ingress.filter(|_| is_replaced)
    }
}

/// The side of this name, unless it is that of a pod that is gone.
fn side_of<'s>(
    name: SideName,
    host: &'s mut Side,
    pod: &'s mut Option<Side>,
) -> Option<&'s mut Side> {
    match name {
        SideName::Host => Some(host),
        SideName::Pod => pod.as_mut(),
    }
}

/// Removes what is ours from the links that carry such a tag, without a record of what that is.
pub(crate) fn strip(side: &mut Side, is_meant: &dyn Fn(&Tag) -> bool, bpffs: &Path) -> Result<()> {
    let mut errors = Errors::default();
    // Open until the links are gone.
    let mut doors = Vec::new();
    for link in side.socket.links().doing("list links")? {
        let tag = link
            .alias
            .as_deref()
            .and_then(|alias| alias.parse::<Tag>().ok());
        let Some(tag) = tag.filter(|tag| is_meant(tag)) else {
            continue;
        };
        errors.note(release_all(&tag, bpffs));
        if link.kind == "ifb" {
            errors.note(gone(side.socket.delete_link(&link)).doing("delete ifb device"));
            continue;
        }
        if errors.note(detour::begins_at(&mut side.socket, &link)) == Some(true) {
            doors.push(errors.note(backstop::teardown(side, &link.name, &tag)));
            errors.note(detour::teardown(&mut side.socket, &link, false));
        }
        errors.note(hook::detach(side, &link, HookKind::Clsact, false));
        errors.note(queues::teardown(&mut side.socket, &link));
        let change = LinkChange {
            alias: Some(String::new()),
            ..LinkChange::default()
        };
        errors.note(gone(side.socket.change_link(&link, &change)).doing("untag link"));
    }
    errors.finish()
}

/// Removes one queue, everything that leads to it, and the tags of its links. Returns the number of dropped packets.
pub(crate) fn queue(
    side: &mut Side,
    old: &QueueRecord,
    attachment: &Attachment,
    bpffs: &Path,
    replaced: Option<Limit>,
) -> Result<u32> {
    let mut errors = Errors::default();
    let dropped = errors.note(remove(side, old, attachment, bpffs, replaced));
    errors.note(untag(side, old, attachment));
    errors.finish().map(|()| dropped.unwrap_or(0))
}

/// Removes one queue, and everything that leads to it. Returns the number of packets that its link lost when its
/// transmit queue length was restored. A queue on the host for another limit than the one that was `replaced` stays.
fn remove(
    side: &mut Side,
    old: &QueueRecord,
    attachment: &Attachment,
    bpffs: &Path,
    replaced: Option<Limit>,
) -> Result<u32> {
    let mut errors = Errors::default();
    let mut dropped = 0;
    // Open until the ifb is gone.
    let mut _door = None;
    // First the way that leads to the queue, else packets would meet a missing device. The backstop before the
    // redirect: where a redirect is left, and no record, both are looked for.
    if let Some(from) = &old.detour_from {
        if old.backstop {
            _door = errors.note(backstop::teardown(side, &from.name, &attachment.tag()));
        }
        if let Some(Some(link)) = errors.note(ours(side, from, attachment)) {
            errors.note(detour::teardown(&mut side.socket, &link, from.made_clsact));
        }
    }
    let link = errors.note(ours(side, &old.link, attachment)).flatten();
    if let Some(link) = &link {
        if old.detour_from.is_some() {
            errors.note(gone(side.socket.delete_link(link)).doing("delete ifb device"));
        } else {
            errors.note(hook::detach(side, link, old.hook, old.link.made_clsact));
            let replaced = replaced.filter(|_| old.name() == QueueName::Ingress);
            let is_others = match &replaced {
                Some(limit) => errors.note(queues::is_another(&mut side.socket, link, limit)),
                None => Some(false),
            };
            if is_others != Some(true) {
                errors.note(queues::teardown(&mut side.socket, link));
            }
            dropped = queues::restore_length(&mut side.socket, link, &old.link);
        }
    }
    errors.note(release(old, attachment, bpffs));
    errors.finish().map(|()| dropped)
}

/// Gives back what the queue has in the maps and among the pins.
fn release(old: &QueueRecord, attachment: &Attachment, bpffs: &Path) -> Result<()> {
    if old.hook == HookKind::None {
        return Ok(());
    }
    let Some(pins) = Pins::open(bpffs)? else {
        return Ok(());
    };
    if old.hook == HookKind::Tcx
        && let Some(held) = TcxLink::open(&hook::link_path(&pins, &attachment.tag(), old.name()))?
    {
        held.detach()?;
    }
    let owner = Owner::id_of(&attachment.tag(), old.name());
    release_limiter(&pins, old.limiter, owner)
}

/// The same without a record of what that is.
fn release_all(tag: &Tag, bpffs: &Path) -> Result<()> {
    let Some(pins) = Pins::open(bpffs)? else {
        return Ok(());
    };
    for queue in QueueName::ALL {
        if let Some(held) = TcxLink::open(&hook::link_path(&pins, tag, queue))? {
            held.detach()?;
        }
        release_limiter(&pins, None, Owner::id_of(tag, queue))?;
    }
    Ok(())
}

/// Gives a limiter back; one whose id was never written down is looked for by its owner.
fn release_limiter(pins: &Pins, id: Option<u16>, owner: u64) -> Result<()> {
    let limiters = pins.limiters();
    if let Some(id) = id {
        limiters.release(id, owner)?;
        return Ok(());
    }
    for (id, limiter) in limiters.all()? {
        if limiter.settings.owner == owner {
            limiters.release(id, owner)?;
        }
    }
    Ok(())
}

/// The link of this record, if it is still the one.
fn ours(side: &mut Side, record: &LinkRecord, attachment: &Attachment) -> Result<Option<Link>> {
    let found = optional(record.find(&mut side.socket)).doing("get host device")?;
    Ok(found.filter(|link| {
        let is_same = record.index == 0 || link.index == record.index;
        match (record.tagged, link.alias.as_deref()) {
            // Killed before it was tagged, or the alias was removed.
            (true, None | Some("")) | (false, _) => is_same,
            (true, Some(alias)) => *alias == *attachment.tag(),
        }
    }))
}

/// Removes the tag from the link that the queue was at, or that led to it.
fn untag(side: &mut Side, old: &QueueRecord, attachment: &Attachment) -> Result<()> {
    let record = old.detour_from.as_ref().unwrap_or(&old.link);
    let Some(link) = ours(side, record, attachment)? else {
        return Ok(());
    };
    // The other direction's queue may have had the same link.
    if !record.tagged || link.alias.as_deref() != Some(&attachment.tag()) {
        return Ok(());
    }
    let change = LinkChange {
        alias: Some(String::new()),
        ..LinkChange::default()
    };
    gone(side.socket.change_link(&link, &change)).doing("untag link")
}
