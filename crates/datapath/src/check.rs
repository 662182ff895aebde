//! CHECK: what was put in force is there, unchanged.

use std::collections::BTreeMap;
use std::path::Path;

use netqos_bpf::Pins;
use netqos_core::{Attachment, Limit};
use netqos_netlink::link::Link;
use netqos_netlink::qdisc::Statistics;

use crate::endpoint::Side;
use crate::error::Doing;
use crate::hook::{self, HookKind};
use crate::limits::Request;
use crate::owner::Owner;
use crate::record::{QueueName, QueueRecord, Record, SideName};
use crate::stall::Pace;
use crate::{Error, LimitDatapath, Result, Shape, backstop, detour, legacy, queue};

impl LimitDatapath {
    /// CHECK: everything that [`apply`](Self::apply) makes for this request is there, unchanged.
    ///
    /// # Errors
    /// The first piece that is missing or changed.
    pub fn check(&mut self, request: &Request<'_>) -> Result<()> {
        self.inspect(request).map(drop)
    }

    /// Checks everything that [`apply`](Self::apply) makes for this request. Returns the state of its queues.
    ///
    /// # Errors
    /// Returns an error if a part is missing or changed.
    pub fn inspect(&mut self, request: &Request<'_>) -> Result<Vec<QueueStatus>> {
        let record = self.records.read(request.attachment)?;
        self.inspect_recorded(request, record.as_ref())
    }

    /// Like [`inspect`](Self::inspect), with the attachment's record, which the caller has read.
    ///
    /// # Errors
    /// Returns an error if a part is missing or changed.
    pub fn inspect_recorded(
        &mut self,
        request: &Request<'_>,
        record: Option<&Record>,
    ) -> Result<Vec<QueueStatus>> {
        if request.limits.is_unlimited() && record.is_none() {
            return Ok(Vec::new());
        }
        let mut pod = Side::pod(request.netns)?;
        let endpoint = self.locate(request, &mut pod, request.ends(record))?;
        let Some(record) = record else {
            legacy::check(&mut self.host.socket, &endpoint, request)?;
            return Ok(Vec::new());
        };
        let mut queues = Vec::new();
        // That the node needs a queue in the pod may be found later.
        let ingress = record.ingress_way();
        let wanted: BTreeMap<QueueName, Limit> =
            endpoint.queues(&request.limits, ingress).collect();
        for name in QueueName::ALL {
            let direction = name.direction();
            match (wanted.get(&name), record.queue(name)) {
                (None, None) => {}
                (Some(limit), Some(queue)) => {
                    let place = endpoint.place(name, request.egress);
                    let (found_on, found, through_ifb) = place?;
                    if through_ifb != queue.detour_from.is_some() {
                        return Err(Error::Changed {
                            direction,
                            link: queue.link.name.clone(),
                            what: "the limit is in force in another way than is asked for"
                                .to_owned(),
                        });
                    }
                    let side = match queue.side {
                        SideName::Host => &mut self.host,
                        SideName::Pod => &mut pod,
                    };
                    let bpffs = self.paths.bpffs();
                    let attachment = request.attachment;
                    let found = Some(found).filter(|_| found_on == queue.side);
                    queues.push(check_queue(side, queue, found, attachment, limit, bpffs)?);
                }
                (Some(_), None) => {
                    let place = endpoint.place(name, request.egress);
                    return place.and(Err(Error::QdiscMissing));
                }
                (None, Some(queue)) => {
                    return Err(Error::Changed {
                        direction,
                        link: queue.link.name.clone(),
                        what: "a limit is in force that is not wanted".to_owned(),
                    });
                }
            }
        }
        Ok(queues)
    }

    /// Drops the packets in this queue of a request. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the queue does not exist or the kernel refuses.
    pub fn empty(&mut self, request: &Request<'_>, name: QueueName) -> Result<u32> {
        let _lock = self.records.lock(request.attachment)?;
        let mut record = self.records.read(request.attachment)?;
        let mut queues = record.iter_mut().flat_map(|record| &mut record.queues);
        let queue = queues.find(|queue| queue.name() == name);
        let queue = queue.ok_or(Error::QdiscMissing)?;
        let mut pod = Side::pod(request.netns)?;
        let socket = match queue.side {
            SideName::Host => &mut self.host.socket,
            SideName::Pod => &mut pod.socket,
        };
        let link = queue.link.find(socket).doing("find link")?;
        let limit = request.limits.of(name.direction());
        let limit = limit.ok_or(Error::QdiscMissing)?;
        let found = queue::Found::read(socket, &link)?;
        let shape = Shape::at(&limit, &link, true);
        if found.has_bands() {
            queue.band_limit = Some(shape.band_limit(link.tx_queue_len));
            if !shape.fits(link.tx_queue_len) {
                queue.link.tx_queue_len.get_or_insert(link.tx_queue_len);
                queue.link.set_tx_queue_len = Some(shape.ring());
            }
            record.iter().try_for_each(|it| self.records.write(it))?;
        }
        let queued = found.statistics().queued_packets;
        let dropped = queue::empty(socket, &link, &found, &shape, queued)?;
        self.dropped += u64::from(dropped);
        Ok(dropped)
    }
}

/// The state of a programmed queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Which of the attachment's queues it is.
    pub queue: QueueName,
    /// The rate at which it must send.
    pub pace: Pace,
    /// The kernel's counters and its backlog.
    pub statistics: Statistics,
}

fn check_queue(
    side: &mut Side,
    queue: &QueueRecord,
    found: Option<&Link>,
    attachment: &Attachment,
    limit: &Limit,
    bpffs: &Path,
) -> Result<QueueStatus> {
    let changed = |what: String| Error::Changed {
        direction: queue.direction,
        link: queue.link.name.clone(),
        what,
    };
    // The queue of a limit without an ifb is at an end of the interface itself.
    let link = match found.filter(|found| found.index == queue.link.index) {
        Some(found) => found.clone(),
        None => queue.link.find(&mut side.socket).map_err(|error| {
            if queue.detour_from.is_some() {
                Error::IfbMissing(error.to_string())
            } else {
                Error::Netlink {
                    doing: "get host device",
                    source: error,
                }
            }
        })?,
    };
    let socket = &mut side.socket;
    let is_ranked = queue.hook != HookKind::None;
    let mut shape = Shape::new(limit, &link);
    // A later plugin of the chain may lower the MTU. Settings for larger frames still limit correctly.
    if let Some(mtu) = queue.mtu.filter(|mtu| *mtu > link.mtu) {
        let made = Shape::for_packets(limit, mtu, link.gso_max_size);
        if queue::check(socket, &link, &made, is_ranked).is_ok() {
            shape = made;
        }
    }
    let statistics = queue::check(socket, &link, &shape, is_ranked)?;
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
        if settings != Some(shape.settings(Owner::new(attachment, queue.name()))) {
            return Err(changed(
                "the limiter is missing or has other settings".to_owned(),
            ));
        }
        let path = hook::link_path(&pins, &attachment.tag(), queue.name());
        if let Some(what) = hook::fault(side, &link, queue.hook, &pins, limiter, &path)? {
            return Err(changed(what));
        }
    }
    if let Some(from) = &queue.detour_from {
        if !link.is_up {
            return Err(changed(
                "it is down, and swallows what is sent to it".to_owned(),
            ));
        }
        let from = from.find(&mut side.socket).doing("get host device")?;
        if !detour::is_applied(&mut side.socket, &from, &link)? {
            return Err(changed(format!(
                "traffic of {} is not redirected to it",
                from.name
            )));
        }
        if queue.backstop
            && let Some(what) = backstop::fault(side, &from, &link, &attachment.tag())?
        {
            return Err(changed(what));
        }
    }
    Ok(QueueStatus {
        queue: queue.name(),
        pace: shape.pace(),
        statistics,
    })
}
