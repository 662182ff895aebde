//! The limits of one attachment: put in force, and found in force.

use std::path::Path;

use netqos_api::{EgressWay, HookChoice, ifb_name};
use netqos_bpf::Pins;
use netqos_core::{Attachment, Direction, Limit, Limits};
use netqos_netlink::link::{Link, LinkChange, optional};

use crate::endpoint::{Endpoint, HostLinks, Side};
use crate::error::Doing;
use crate::hook::{self, HookKind, HookQdisc};
use crate::record::{LinkRecord, QueueRecord, Record, Records, SideName};
use crate::{Error, Paths, Result, Shape, detour, legacy, queue};

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
        let mut record = self.plan(request, &endpoint, &mut pod, &pins)?;
        if let Some(before) = before {
            self.retire(&before, &mut record, &mut pod)?;
        }
        self.records.write(&record)?;
        let mut applied = Applied::default();
        for index in 0..record.queues.len() {
            let direction = record.queues[index].direction;
            let Some(limit) = request.limits.of(direction) else {
                continue;
            };
            let side = match record.queues[index].side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut pod,
            };
            let queue = &mut record.queues[index];
            applied.queues.push(install(
                side,
                queue,
                request.attachment,
                &limit,
                pins.as_ref().ok(),
            )?);
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
    ) -> Result<Record> {
        let mut queues = Vec::new();
        for direction in [Direction::Ingress, Direction::Egress] {
            if request.limits.of(direction).is_none() {
                continue;
            }
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
            let (carrier, name) = if through_ifb {
                ifb_for(side, link, request.attachment)?
            } else {
                queue::validate(&mut side.socket, link)?;
                (Some(link.clone()), link.name.clone())
            };
            // Written down before it is made, on every record of the link: whichever goes last
            // removes it.
            let makes_clsact = HookQdisc::read(&mut side.socket, link)? == HookQdisc::Absent;
            let choice = hook::choose(&mut side.socket, carrier.as_ref(), pins, request.hook)?;
            queues.push(QueueRecord {
                direction,
                side: side_name,
                link: LinkRecord {
                    name,
                    index: carrier.as_ref().map_or(0, |link| link.index),
                    made_clsact: makes_clsact && !through_ifb,
                    tagged: carrier.as_ref().is_none_or(is_taggable),
                },
                detour_from: through_ifb.then(|| LinkRecord {
                    name: link.name.clone(),
                    index: link.index,
                    made_clsact: makes_clsact,
                    tagged: is_taggable(link),
                }),
                hook: choice.kind,
                limiter: None,
                unranked_because: choice.why_none,
            });
        }
        Ok(Record {
            attachment: request.attachment.clone(),
            netns: request.netns.to_owned(),
            limits: request.limits,
            queues,
        })
    }

    /// Takes over what an earlier call did and is still wanted; removes what is not.
    fn retire(&mut self, before: &Record, record: &mut Record, pod: &mut Side) -> Result<()> {
        for old in &before.queues {
            let same = record.queues.iter_mut().find(|new| {
                new.direction == old.direction
                    && new.side == old.side
                    && new.link.name == old.link.name
                    && new.hook == old.hook
                    && new.detour_from.is_some() == old.detour_from.is_some()
            });
            if let Some(new) = same {
                new.link.made_clsact |= old.link.made_clsact;
                if let (Some(new), Some(old)) = (&mut new.detour_from, &old.detour_from) {
                    new.made_clsact |= old.made_clsact;
                }
                continue;
            }
            let side = match old.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut *pod,
            };
            crate::teardown::queue(side, old, &before.attachment, self.paths.bpffs())?;
        }
        Ok(())
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

/// Makes one queue, whatever of it is there already.
fn install(
    side: &mut Side,
    queue: &mut QueueRecord,
    attachment: &Attachment,
    limit: &Limit,
    pins: Option<&Pins>,
) -> Result<Shaped> {
    let from = match &queue.detour_from {
        Some(from) => Some(
            side.socket
                .link_by_index(from.index)
                .doing("get host device")?,
        ),
        None => None,
    };
    let link = match &from {
        Some(from) => {
            let there =
                optional(side.socket.link_by_name(&queue.link.name)).doing("get ifb device")?;
            match there {
                Some(there) => there,
                None => {
                    let ring = Shape::new(limit, from).ring();
                    side.socket
                        .add_ifb(&queue.link.name, from.mtu, ring)
                        .doing("adding link")?
                }
            }
        }
        None => side
            .socket
            .link_by_index(queue.link.index)
            .doing("get host device")?,
    };
    queue.link.index = link.index;
    tag(side, &link, queue.link.tagged, attachment)?;
    let shape = Shape::new(limit, &link);
    queue::apply(
        &mut side.socket,
        &link,
        &shape,
        queue.hook != HookKind::None,
    )?;
    if let (Some(pins), true) = (pins, queue.hook != HookKind::None) {
        let limiter = pins
            .limiters()
            .claim(&shape.settings(owner(attachment, queue.direction)))?;
        queue.limiter = Some(limiter);
        let path = hook::link_path(pins, attachment, queue.direction);
        hook::attach(side, &link, queue.hook, pins, limiter, &path)?;
    }
    if let (Some(record), Some(from)) = (&mut queue.detour_from, &from) {
        tag(side, from, record.tagged, attachment)?;
        detour::apply(&mut side.socket, from, &link)?;
    }
    Ok(Shaped {
        direction: queue.direction,
        side: queue.side,
        is_ifb: from.is_some(),
        hook: queue.hook,
        unranked_because: queue.unranked_because.clone(),
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
            queue::validate(&mut side.socket, &link)?;
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
