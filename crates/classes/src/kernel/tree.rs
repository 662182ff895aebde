//! An HTB on a link, made as its forms say, and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::thread;
use std::time::{Duration, Instant};

use netqos_bpf::classes::{Classes, LeafKey, Slot, Tree};
use netqos_core::classes::{PartId, TrafficClass};
use netqos_core::{BitRate, Direction};
use netqos_netlink::class::{HtbClass, InstalledClass};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::qdisc::{Htb, Installed};
use netqos_netlink::{Handle, Socket};

use super::exchange::{self, Quick};
use super::form::{Form, Forms, LINE};
use super::stalls::Stalls;
use crate::error::Doing;
use crate::lower::lower;
use crate::{Error, Result, Standing, Traffic, rate, traffic};

/// The longest that parts which go are waited for. A packet of 64 KiB, sent at 1 Mbit/s, is owed for half a
/// second.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// The classes of a link by their handles.
pub(super) type Installation = BTreeMap<Handle, InstalledClass>;

/// Where a tree of ours is, or may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root<'l> {
    /// The line, or its ifb.
    pub(super) link: &'l Link,
    /// What the programs know it by.
    pub(super) name: Tree,
}

impl<'l> Root<'l> {
    /// That of what is sent by a line.
    pub(super) fn of_line(link: &'l Link) -> Self {
        Self {
            link,
            name: Tree::new(link.index, Direction::Egress),
        }
    }

    /// That of what comes by a line, which is on its ifb.
    pub(super) fn of_ifb(line: &Link, ifb: &'l Link) -> Self {
        Self {
            link: ifb,
            name: Tree::new(line.index, Direction::Ingress),
        }
    }

    /// Its handle.
    pub(super) const fn root(&self) -> Handle {
        self.handle(0)
    }

    /// That of one of its classes.
    pub(super) const fn handle(&self, minor: u16) -> Handle {
        Handle::new(self.name.major(), minor)
    }

    /// The HTB classes of these forms.
    fn desired(&self, forms: &Forms) -> BTreeMap<Handle, HtbClass> {
        let slots = forms.slots.iter().flat_map(|form| {
            [
                (form.slot.inner(), form.inner),
                (form.slot.quick(), form.quick),
                (form.slot.bulk(), form.bulk),
            ]
        });
        let all = slots.chain([(LINE, forms.line)]);
        all.map(|(minor, class)| (self.handle(minor), class))
            .collect()
    }

    /// True when the tree that is there is ours.
    pub(super) fn is_ours(&self, socket: &mut Socket) -> Result<bool> {
        let there = socket.qdisc_at(self.link, Handle::ROOT);
        let there = there.doing("find the root qdisc")?;
        Ok(there.is_some_and(|there| self.is_of(&there)))
    }

    /// True for a tree of ours that is at the root.
    fn is_of(&self, root: &Installed) -> bool {
        root.handle == self.root() && root.htb().is_some()
    }
}

/// Makes a tree, or changes it to be as its forms say. What it has beyond that stays, and so does what waits
/// in it.
///
/// # Errors
/// Somebody else's qdisc is at the link's root; nothing has changed.
pub(super) fn apply(
    socket: &mut Socket,
    at: Root<'_>,
    forms: &Forms,
    programs: &Classes,
    stalls: &mut Stalls,
) -> Result<usize> {
    let link = at.link;
    let mut changes = 0;
    let htb = Htb {
        default: Slot::of(TrafficClass::System).bulk(),
    };
    match socket
        .qdisc_at(link, Handle::ROOT)
        .doing("find the root qdisc")?
    {
        Some(root) if at.is_of(&root) => {}
        Some(root) if !root.is_default() => {
            return Err(Error::ForeignQdisc {
                line: link.name.clone(),
                kind: root.kind,
                handle: root.handle.to_string(),
            });
        }
        // Until its classes are there everything passes.
        _ => {
            socket
                .put_qdisc(link, Handle::ROOT, at.root(), &htb)
                .doing("make the root of the classes")?;
            changes += 1;
        }
    }
    changes += exchange_at_old_rates(socket, at, forms, programs)?;
    let there = list(socket, link)?;
    let lowered = lower(socket, link, &there, &at.desired(forms)).doing("lower classes")?;
    changes += lowered;
    let there = match lowered {
        0 => there,
        _ => list(socket, link)?,
    };
    let put = |socket: &mut Socket, above: Handle, minor: u16, class: &HtbClass| -> Result<usize> {
        let name = at.handle(minor);
        // What is at the top has, as the kernel tells it, no tree above it.
        let told = if above == at.root() {
            Handle::ROOT
        } else {
            above
        };
        match there.get(&name) {
            Some(found) if *found == *class && found.parent == told => return Ok(0),
            // A class is not moved; a part whose class is another one now goes first.
            Some(found) if found.parent != told => {
                remove(socket, link, name, &there)?;
            }
            _ => {}
        }
        socket
            .put_class(link, above, name, class)
            .doing("put a class")?;
        Ok(1)
    };
    changes += put(socket, at.root(), LINE, &forms.line)?;
    for form in &forms.slots {
        let inner = form.slot.inner();
        changes += put(socket, at.handle(form.above), inner, &form.inner)?;
        changes += put(socket, at.handle(inner), form.slot.quick(), &form.quick)?;
        changes += put(socket, at.handle(inner), form.slot.bulk(), &form.bulk)?;
    }
    let occupied = apply_queues(socket, at, forms, stalls, &mut changes)?;
    for form in &forms.slots {
        let key = LeafKey::new(at.name, form.slot);
        let there = programs.leaves.get(&key)?;
        if !there.is_some_and(|there| there.is_same(&form.leaf)) {
            programs.leaves.put(&key, &form.leaf)?;
            changes += 1;
        }
    }
    if !occupied.is_empty() {
        changes += exchange::exchange(socket, at, &occupied, programs, Quick::IsShort)?;
    }
    Ok(changes)
}

/// Exchanges queues that segment packets from now on, where their slots' limits become lower. What waits is sent at the old
/// rates: a class owes for a GSO packet for as long as its rate takes, at 1 Mbit/s for half a second.
fn exchange_at_old_rates(
    socket: &mut Socket,
    at: Root<'_>,
    forms: &Forms,
    programs: &Classes,
) -> Result<usize> {
    let classes = list(socket, at.link)?;
    let queues = socket.qdiscs(at.link).doing("list qdiscs")?;
    let queue = |minor: u16| queues.iter().find(|it| it.parent == at.handle(minor));
    let desired = at.desired(forms);
    let is_lowered = |form: &Form| {
        let inner = classes.get(&at.handle(form.slot.inner()));
        let path = successors(inner, |it| classes.get(&it.parent));
        let limits = path.filter_map(|it| Some((it.ceil(), desired.get(&it.handle)?.ceil)));
        let (observed, desired): (Vec<u64>, Vec<u64>) = limits.unzip();
        let leaf = classes.get(&at.handle(form.slot.bulk()));
        // A higher class may leave it no more than its guarantee.
        let is_guaranteed_less = leaf.is_some_and(|it| form.bulk.rate < it.rate());
        is_guaranteed_less || desired.iter().min() < observed.iter().min()
    };
    let begins_to_cut = |form: &&Form| {
        let needed = [LINE, form.slot.quick()].map(|minor| at.handle(minor));
        let is_uncut = queue(form.slot.bulk())
            .is_some_and(|found| found.tbf().is_none() && form.bulk_queue.is_replaced(found, None));
        form.bulk_queue.cuts()
            && is_uncut
            && needed.iter().all(|class| classes.contains_key(class))
            && is_lowered(form)
    };
    let has_backlog = |form: &&Form| {
        let both = [form.slot.quick(), form.slot.bulk()].map(queue);
        let mut found = both.into_iter().flatten();
        found.any(|it| it.statistics.queued_packets > 0)
    };
    let slots: Vec<&Form> = forms.slots.iter().filter(begins_to_cut).collect();
    // Packets may come to wait in the other slots meanwhile.
    if slots.iter().any(has_backlog) {
        return exchange::exchange(socket, at, &slots, programs, Quick::IsSent);
    }
    for form in &slots {
        form.bulk_queue
            .put(socket, at.link, at.handle(form.slot.bulk()))?;
        let key = LeafKey::new(at.name, form.slot);
        programs.leaves.put(&key, &form.leaf)?;
    }
    Ok(slots.len())
}

/// Makes the queues what they should be, and empties stalled ones. Those of bulk that would be others, and in which
/// something waits that would be lost or block the queue, stay; they are returned.
fn apply_queues<'f>(
    socket: &mut Socket,
    at: Root<'_>,
    forms: &'f Forms,
    stalls: &mut Stalls,
    changes: &mut usize,
) -> Result<Vec<&'f Form>> {
    let there = socket.qdiscs(at.link).doing("list qdiscs")?;
    let there: BTreeMap<Handle, Installed> = there
        .into_iter()
        .map(|qdisc| (qdisc.parent, qdisc))
        .collect();
    let mut occupied = Vec::new();
    for form in &forms.slots {
        for (minor, queue) in [
            (form.slot.quick(), form.quick_queue),
            (form.slot.bulk(), form.bulk_queue),
        ] {
            if let Some(found) = there.get(&at.handle(minor)) {
                let below = there.get(&Handle::new(found.handle.major(), 1));
                // Of the queues of ours only a token bucket can block what waits.
                let is_bucket = minor == form.slot.bulk() && found.tbf().is_some();
                if is_bucket && stalls.observe(at, form, &found.statistics) {
                    let class = at.handle(minor);
                    gone(socket.delete_qdisc(at.link, class, found.handle))
                        .doing("empty a stalled queue")?;
                    queue.put(socket, at.link, class)?;
                    stalls.record(at, form, found.statistics.queued_packets);
                    *changes += 1;
                    continue;
                }
                // The next look finds what would drop packets now.
                if queue.is(found, below) || queue.would_drop(found, below) {
                    continue;
                }
                // (What takes little has a queue of one kind on all lines.)
                let is_exchanged = queue.is_replaced(found, below) || queue.may_stall(found);
                if found.statistics.queued_packets > 0 && is_exchanged {
                    occupied.push(form);
                    continue;
                }
            }
            queue.put(socket, at.link, at.handle(minor))?;
            *changes += 1;
        }
    }
    Ok(occupied)
}

/// A class and all below it, the lowest first.
fn with_all_below(name: Handle, there: &Installation) -> Vec<Handle> {
    let mut found = vec![name];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        let below = there.values().filter(|class| class.parent == above);
        found.extend(below.map(|class| class.handle));
        next += 1;
    }
    found.reverse();
    found
}

fn remove(socket: &mut Socket, link: &Link, name: Handle, there: &Installation) -> Result<()> {
    for class in with_all_below(name, there) {
        gone(socket.delete_class(link, class)).doing("remove a class")?;
    }
    Ok(())
}

/// Waits until the queues of these classes are empty, to which no packets come any more. At their own rate that might
/// take long: until then they may borrow all of the uplink, before others, and the ceilings of the classes above them are
/// the uplink's. The next `apply` lowers what a killed process leaves open.
///
/// They get no higher rate: HTB lets a class send at its own rate while others have their guarantees, so the classes above
/// it and the uplink would owe for what it sends, and lend nothing for seconds. Under its old ceiling a class would owe,
/// too. Without the priority, flows of the same class take all that it may borrow, and a leaf without a guarantee owes up
/// to a minute of its own rate for one packet.
pub(super) fn drain(socket: &mut Socket, at: Root<'_>, names: &BTreeSet<Handle>) -> Result<()> {
    let mut opened = Vec::new();
    let drained = wait_until_empty(socket, at, names, &mut opened);
    let mut closed = Ok(());
    for class in opened.into_iter().rev() {
        let (quantum, priority) = (class.quantum(), class.priority());
        let as_before = rate::class(class.rate(), class.ceil(), quantum, priority);
        let put = socket.put_class(at.link, class.parent, class.handle, &as_before);
        closed = closed.and(put.doing("close a class"));
    }
    drained.and(closed)
}

/// Opens classes whose queues are not empty, and those above them, until all are empty or [`DRAIN`] is over. `opened` are
/// the classes as they were before, parents before their children.
fn wait_until_empty(
    socket: &mut Socket,
    at: Root<'_>,
    names: &BTreeSet<Handle>,
    opened: &mut Vec<InstalledClass>,
) -> Result<()> {
    let until = Instant::now() + DRAIN;
    loop {
        let observed = list(socket, at.link)?;
        let waits = |class: &&InstalledClass| {
            names.contains(&class.handle) && class.statistics.queued_packets > 0
        };
        let waiting: Vec<&InstalledClass> = observed.values().filter(waits).collect();
        let uplink = observed.get(&at.handle(LINE)).map(InstalledClass::ceil);
        let Some(uplink) = uplink.filter(|_| !waiting.is_empty() && Instant::now() < until) else {
            return Ok(());
        };
        for leaf in waiting {
            let path = successors(Some(leaf), |it| observed.get(&it.parent));
            let path = path.take_while(|class| class.handle != at.handle(LINE));
            let path: Vec<&InstalledClass> = path.collect();
            for class in path.into_iter().rev() {
                if opened.iter().any(|it| it.handle == class.handle) {
                    continue;
                }
                let open = rate::class(class.rate(), uplink, class.quantum(), 0);
                let put = socket.put_class(at.link, class.parent, class.handle, &open);
                put.doing("open a class")?;
                opened.push(class.clone());
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn list(socket: &mut Socket, link: &Link) -> Result<Installation> {
    let there = socket.classes(link).doing("list classes")?;
    Ok(there
        .into_iter()
        .map(|class| (class.handle, class))
        .collect())
}

/// Removes the parts that no slot is for any more, once what waits in them has gone out, if it is a tree of
/// ours.
pub(super) fn prune(socket: &mut Socket, at: Root<'_>, keep: &BTreeSet<Slot>) -> Result<usize> {
    if !at.is_ours(socket)? {
        return Ok(0);
    }
    let link = at.link;
    let there = list(socket, link)?;
    let kept: BTreeSet<u16> = keep
        .iter()
        .chain(&TrafficClass::ALL.map(Slot::of))
        .map(|slot| slot.inner())
        .chain([LINE])
        .collect();
    let inner = there.keys().filter(|class| class.minor() >= 0x8000);
    let stale: Vec<Handle> = inner
        .filter(|class| !kept.contains(&class.minor()))
        .copied()
        .collect();
    let all = stale
        .iter()
        .flat_map(|class| with_all_below(*class, &there));
    drain(socket, at, &all.collect())?;
    for class in &stale {
        // Those inside of another may have gone with that.
        remove(socket, link, *class, &there)?;
    }
    Ok(stale.len())
}

/// Reads what stands, if it is a tree of ours.
pub(super) fn read(
    socket: &mut Socket,
    at: Root<'_>,
    parts: &BTreeMap<Slot, PartId>,
    into: &mut Standing,
) -> Result<()> {
    if !at.is_ours(socket)? {
        return Ok(());
    }
    let direction = at.name.direction();
    for class in socket.classes(at.link).doing("list classes")? {
        let minor = class.handle.minor();
        let rate = |bytes: u64| BitRate::from_bits_per_second(bytes.saturating_mul(8));
        let held = (rate(class.rate()), rate(class.ceil()));
        let of_class = |of: &TrafficClass| Slot::of(*of).inner() == minor;
        if let Some(of) = TrafficClass::ALL.into_iter().find(of_class) {
            into.classes.insert((direction, of), held);
        } else if let Some(part) = parts
            .iter()
            .find_map(|(slot, part)| (slot.inner() == minor).then_some(part))
        {
            into.parts.insert((direction, part.clone()), held);
        }
    }
    Ok(())
}

/// What went through the classes of a link's tree, if it is one of ours.
pub(super) fn traffic(socket: &mut Socket, at: Root<'_>) -> Result<Traffic> {
    if !at.is_ours(socket)? {
        return Ok(Traffic::new());
    }
    let tree = socket.classes(at.link).doing("list classes")?;
    let whole = |class| at.handle(Slot::of(class).inner());
    Ok(traffic::counted(&tree, at.name.direction(), whole))
}
