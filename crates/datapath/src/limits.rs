//! The limits of one attachment: put in force, and found in force.

use std::path::Path;

use netqos_api::{EgressWay, HookChoice, ifb_name};
use netqos_bpf::Pins;
use netqos_core::{Attachment, Direction, Limit, Limits};
use netqos_netlink::link::{Link, LinkChange, optional};

use crate::endpoint::{Endpoint, HostLinks, Side};
use crate::error::Doing;
use crate::hook::{self, HookKind, HookQdisc};
use crate::queue::{self, Found};
use crate::record::{LinkRecord, QueueRecord, Record, Records, SideName};
use crate::{Error, Paths, Result, Shape, detour, legacy};

/// What an attachment shall be held to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whose interface.
    pub attachment: &'a Attachment,
    /// The file that names the pod's network namespace.
    pub netns: &'a Path,
    /// What the plugins before made on the host.
    pub host_links: HostLinks<'a>,
    /// What it is held to.
    pub limits: Limits,
    /// Where traffic from the pod is queued.
    pub egress: EgressWay,
    /// How the ranking program is attached.
    pub hook: HookChoice,
}

/// What is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// One for each limited direction.
    pub queues: Vec<Shaped>,
}

/// One limited direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped {
    /// Which.
    pub direction: Direction,
    /// The name of the link that carries the queue.
    pub link: String,
    /// The hardware address of that link.
    pub mac: String,
    /// On which side that link is.
    pub side: SideName,
    /// True when that link is an ifb of ours.
    pub is_ifb: bool,
    /// How the ranking program is attached.
    pub hook: HookKind,
    /// Why it is not, when it is not.
    pub unranked_because: Option<String>,
    /// The numbers.
    pub shape: Shape,
}

/// Puts limits in force, and takes them away, on the node (network namespace) in which it was
/// opened.
#[derive(Debug)]
pub struct LimitDatapath {
    pub(crate) paths: Paths,
    pub(crate) records: Records,
    pub(crate) host: Side,
}

impl LimitDatapath {
    /// Opens the kernel's door.
    pub fn open(paths: Paths) -> Result<Self> {
        let records = Records::new(paths.attachments());
        Ok(Self {
            records,
            paths,
            host: Side::host()?,
        })
    }

    /// The records of what is in force.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Puts the limits in force. What is right already is not touched; what an earlier call, or
    /// the well-known plugin, made for this attachment and is no longer wanted goes.
    ///
    /// # Errors
    /// Nothing of this attachment is in force then, and nothing is left behind.
    pub fn apply(&mut self, request: &Request<'_>) -> Result<Applied> {
        let _lock = self.records.lock(request.attachment)?;
        let before = self.records.read(request.attachment)?;
        if request.limits.is_unlimited() {
            if before.is_some() {
                self.teardown_locked(request.attachment, Some(request.netns), request.host_links)?;
            }
            self.records.remove(request.attachment, &_lock)?;
            return Ok(Applied::default());
        }
        let applied = self.apply_locked(request, before);
        if applied.is_err() {
            // The error that matters is the first; what cannot be undone GC will find by the record.
            let torn_down =
                self.teardown_locked(request.attachment, Some(request.netns), request.host_links);
            if torn_down.is_ok() {
                let _ = self.records.remove(request.attachment, &_lock);
            }
        }
        applied
    }

    fn apply_locked(&mut self, request: &Request<'_>, before: Option<Record>) -> Result<Applied> {
        let mut pod = Side::pod(request.netns)?;
        let endpoint = Endpoint::locate(
            &mut self.host,
            &mut pod,
            request.attachment.interface(),
            request.host_links,
        )?;
        let pins = match request.hook {
            HookChoice::None => Err(netqos_bpf::Error::Load("not asked for".to_owned())),
            _ => Pins::ensure(self.paths.bpffs()),
        };
        if let (Err(_), HookChoice::Tcx | HookChoice::Clsact) = (&pins, request.hook) {
            return Err(pins.err().map_or(Error::QdiscMissing, Error::Bpf));
        }
        if let Some(host) = &endpoint.host {
            legacy::retire(&mut self.host.socket, host, request.attachment)?;
        }
        let mut plan = self.plan(request, &endpoint, &mut pod, &pins)?;
        if let Some(before) = &before {
            if self.retire(before, &plan, &mut pod)? {
                plan = self.plan(request, &endpoint, &mut pod, &pins)?;
            }
            inherit(before, &mut plan);
        }
        let mut record = Record {
            attachment: request.attachment.clone(),
            netns: request.netns.to_owned(),
            limits: request.limits,
            queues: plan.iter().map(|planned| planned.record.clone()).collect(),
        };
        self.records.write(&record)?;
        let mut applied = Applied::default();
        for (planned, record) in plan.into_iter().zip(&mut record.queues) {
            let side = match record.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut pod,
            };
            let pins = pins.as_ref().ok();
            applied
                .queues
                .push(install(side, planned, record, request.attachment, pins)?);
        }
        self.records.write(&record)?;
        Ok(applied)
    }

    /// Decides where each queue goes; fails where one cannot, before anything is changed.
    fn plan(
        &mut self,
        request: &Request<'_>,
        endpoint: &Endpoint,
        pod: &mut Side,
        pins: &std::result::Result<Pins, netqos_bpf::Error>,
    ) -> Result<Vec<Planned>> {
        let mut planned = Vec::new();
        for direction in [Direction::Ingress, Direction::Egress] {
            let Some(limit) = request.limits.of(direction) else {
                continue;
            };
            let (side_name, link, through_ifb) = match (direction, &endpoint.host, request.egress) {
                (Direction::Ingress, Some(host), _) => (SideName::Host, host, false),
                (Direction::Ingress, None, _) => (SideName::Pod, &endpoint.pod, true),
                (Direction::Egress, Some(host), EgressWay::Ifb) => (SideName::Host, host, true),
                (Direction::Egress, ..) => (SideName::Pod, &endpoint.pod, false),
            };
            let side = match side_name {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut *pod,
            };
            let at_link = side.socket.qdiscs(link).doing("list qdiscs")?;
            // Written down before it is made, on every record of the link: whichever goes last
            // removes it.
            let made_clsact = HookQdisc::among(&at_link) == HookQdisc::Absent;
            let (carrier, name, qdiscs) = if through_ifb {
                let (ifb, name) = ifb_for(side, link, request.attachment)?;
                let qdiscs = match &ifb {
                    Some(ifb) => side.socket.qdiscs(ifb).doing("list qdiscs")?,
                    None => Vec::new(),
                };
                (ifb, name, qdiscs)
            } else {
                (Some(link.clone()), link.name.clone(), at_link)
            };
            let found = Found::among(&qdiscs);
            if let Some(carrier) = &carrier {
                found.validate(carrier)?;
            }
            let hook_qdisc = HookQdisc::among(&qdiscs);
            let choice = hook::choose(&name, hook_qdisc, pins, request.hook)?;
            let detour_from = through_ifb.then(|| link.clone());
            planned.push(Planned {
                limit,
                record: QueueRecord {
                    direction,
                    side: side_name,
                    link: LinkRecord {
                        name,
                        index: carrier.as_ref().map_or(0, |link| link.index),
                        made_clsact: made_clsact && !through_ifb,
                        tagged: carrier.as_ref().is_none_or(is_taggable),
                    },
                    detour_from: detour_from.as_ref().map(|from| LinkRecord {
                        name: from.name.clone(),
                        index: from.index,
                        made_clsact,
                        tagged: is_taggable(from),
                    }),
                    hook: choice.kind,
                    limiter: None,
                    unranked_because: choice.why_none,
                },
                carrier,
                detour_from,
                found,
                hook_qdisc,
            });
        }
        Ok(planned)
    }

    /// Removes what an earlier call made and is not wanted any more; says whether there was any.
    fn retire(&mut self, before: &Record, plan: &[Planned], pod: &mut Side) -> Result<bool> {
        let is_unwanted =
            |old: &&QueueRecord| !plan.iter().any(|planned| is_same(old, &planned.record));
        let mut any = false;
        for old in before.queues.iter().filter(is_unwanted) {
            let side = match old.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut *pod,
            };
            crate::teardown::queue(side, old, &before.attachment, self.paths.bpffs())?;
            any = true;
        }
        Ok(any)
    }

    /// CHECK: everything that [`apply`](Self::apply) makes for this request is there, unchanged.
    ///
    /// # Errors
    /// The first piece that is missing or changed.
    pub fn check(&mut self, request: &Request<'_>) -> Result<()> {
        if request.limits.is_unlimited() {
            return Ok(());
        }
        let mut pod = Side::pod(request.netns)?;
        let endpoint = Endpoint::locate(
            &mut self.host,
            &mut pod,
            request.attachment.interface(),
            request.host_links,
        )?;
        let Some(record) = self.records.read(request.attachment)? else {
            return legacy::check(&mut self.host.socket, &endpoint, request);
        };
        for direction in [Direction::Ingress, Direction::Egress] {
            let queue = record
                .queues
                .iter()
                .find(|queue| queue.direction == direction);
            match (request.limits.of(direction), queue) {
                (None, None) => {}
                (Some(limit), Some(queue)) => {
                    let side = match queue.side {
                        SideName::Host => &mut self.host,
                        SideName::Pod => &mut pod,
                    };
                    check_queue(side, queue, request.attachment, &limit, self.paths.bpffs())?;
                }
                (Some(_), None) => return Err(Error::QdiscMissing),
                (None, Some(queue)) => {
                    return Err(Error::Changed {
                        direction,
                        link: queue.link.name.clone(),
                        what: "a limit is in force that is not wanted".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// True when both are the same queue, at the same place and made in the same way.
fn is_same(old: &QueueRecord, new: &QueueRecord) -> bool {
    let place = |queue: &QueueRecord| {
        let from = queue.detour_from.as_ref().map(|from| from.name.clone());
        (
            queue.direction,
            queue.side,
            queue.hook,
            queue.link.name.clone(),
            from,
        )
    };
    place(old) == place(new)
}

/// What an earlier call made stays ours to remove, though this one found it there.
fn inherit(before: &Record, plan: &mut [Planned]) {
    for planned in plan {
        let new = &mut planned.record;
        let Some(old) = before.queues.iter().find(|old| is_same(old, new)) else {
            continue;
        };
        new.link.made_clsact |= old.link.made_clsact;
        if let (Some(new), Some(old)) = (&mut new.detour_from, &old.detour_from) {
            new.made_clsact |= old.made_clsact;
        }
    }
}

/// A queue, and what was found where it belongs.
struct Planned {
    limit: Limit,
    record: QueueRecord,
    /// The link that will carry it; `None` for an ifb that has to be made.
    carrier: Option<Link>,
    detour_from: Option<Link>,
    found: Found,
    hook_qdisc: HookQdisc,
}

/// Makes one queue, whatever of it is there already, and completes its record.
fn install(
    side: &mut Side,
    planned: Planned,
    record: &mut QueueRecord,
    attachment: &Attachment,
    pins: Option<&Pins>,
) -> Result<Shaped> {
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
    tag(side, &link, record.link.tagged, attachment)?;
    let shape = Shape::new(limit, &link);
    let is_ranked = record.hook != HookKind::None;
    queue::apply(&mut side.socket, &link, &planned.found, &shape, is_ranked)?;
    if let (Some(pins), true) = (pins, is_ranked) {
        let limiter = pins
            .limiters()
            .claim(&shape.settings(owner(attachment, record.direction)))?;
        record.limiter = Some(limiter);
        let path = hook::link_path(pins, attachment, record.direction);
        hook::attach(
            side,
            &link,
            planned.hook_qdisc,
            record.hook,
            pins,
            limiter,
            &path,
        )?;
    }
    if let (Some(from_record), Some(from)) = (&record.detour_from, &planned.detour_from) {
        tag(side, from, from_record.tagged, attachment)?;
        detour::apply(&mut side.socket, from, &link)?;
    }
    Ok(Shaped {
        direction: record.direction,
        side: record.side,
        is_ifb: planned.detour_from.is_some(),
        hook: record.hook,
        unranked_because: record.unranked_because.clone(),
        shape,
        mac: link.mac(),
        link: link.name,
    })
}

fn check_queue(
    side: &mut Side,
    queue: &QueueRecord,
    attachment: &Attachment,
    limit: &Limit,
    bpffs: &Path,
) -> Result<()> {
    let changed = |what: String| Error::Changed {
        direction: queue.direction,
        link: queue.link.name.clone(),
        what,
    };
    let link = side
        .socket
        .link_by_name(&queue.link.name)
        .map_err(|error| {
            if queue.detour_from.is_some() {
                Error::IfbMissing(error.to_string())
            } else {
                Error::Netlink {
                    doing: "get host device",
                    source: error,
                }
            }
        })?;
    let shape = Shape::new(limit, &link);
    queue::check(
        &mut side.socket,
        &link,
        &shape,
        queue.hook != HookKind::None,
    )?;
    if queue.link.tagged && link.alias.as_deref() != Some(&attachment.tag()) {
        return Err(changed(
            "the alias that says whose it is is missing".to_owned(),
        ));
    }
    if queue.hook != HookKind::None {
        let pins = Pins::open(bpffs)?
            .ok_or_else(|| changed("the programs that rank are not loaded".to_owned()))?;
        let limiter = queue.limiter.unwrap_or(0);
        let settings = pins
            .limiters()
            .get(limiter)?
            .map(|limiter| limiter.settings);
        if settings != Some(shape.settings(owner(attachment, queue.direction))) {
            return Err(changed(
                "the limiter is missing or has other settings".to_owned(),
            ));
        }
        let path = hook::link_path(&pins, attachment, queue.direction);
        if let Some(what) = hook::fault(side, &link, queue.hook, &pins, limiter, &path)? {
            return Err(changed(what));
        }
    }
    if let Some(from) = &queue.detour_from {
        let from = side
            .socket
            .link_by_name(&from.name)
            .doing("get host device")?;
        if !detour::is_applied(&mut side.socket, &from, &link)? {
            return Err(changed(format!(
                "traffic of {} is not redirected to it",
                from.name
            )));
        }
    }
    Ok(())
}

/// Finds the ifb of this attachment, or the name for a new one.
fn ifb_for(
    side: &mut Side,
    from: &Link,
    attachment: &Attachment,
) -> Result<(Option<Link>, String)> {
    let (network, container) = (attachment.network(), attachment.container());
    // The second name serves a second interface on the same network, for which the well-known
    // plugin's name is taken.
    let second = format!("{container}{}", attachment.interface());
    for name in [ifb_name(network, container), ifb_name(network, &second)] {
        let Some(link) = optional(side.socket.link_by_name(&name)).doing("get ifb device")? else {
            return Ok((None, name));
        };
        let is_ours = link.alias.as_deref() == Some(&attachment.tag())
            || legacy::leads_to(&mut side.socket, from, &link)?;
        if is_ours && link.kind == "ifb" {
            return Ok((Some(link), name));
        }
    }
    Err(Error::ForeignIfb(ifb_name(network, &second)))
}

/// True when the alias is free for our tag, or holds one.
fn is_taggable(link: &Link) -> bool {
    match link.alias.as_deref() {
        None | Some("") => true,
        Some(alias) => alias.parse::<Attachment>().is_ok(),
    }
}

fn tag(side: &mut Side, link: &Link, tagged: bool, attachment: &Attachment) -> Result<()> {
    let tag = attachment.tag();
    if !tagged || link.alias.as_deref() == Some(&tag) {
        return Ok(());
    }
    let change = LinkChange {
        alias: Some(tag),
        ..LinkChange::default()
    };
    side.socket.change_link(link, &change).doing("tag link")
}

/// The number by which a limiter knows whose it is.
pub(crate) fn owner(attachment: &Attachment, direction: Direction) -> u64 {
    // FNV-1a.
    format!("{}:{direction}", attachment.tag())
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
