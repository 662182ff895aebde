//! An HTB on a link, made as its forms say, and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use netqos_bpf::classes::{Classes, LeafKey, Slot, TREE_MAJOR};
use netqos_core::classes::{PartId, TrafficClass};
use netqos_core::{BitRate, Direction};
use netqos_netlink::class::{HtbClass, InstalledClass};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::qdisc::{Htb, Installed};
use netqos_netlink::{Handle, Socket};

use super::form::{Forms, LINE, Queue};
use crate::error::Doing;
use crate::{Error, Result, Standing, Traffic, traffic};

/// The handle of every tree of ours.
pub(super) const ROOT: Handle = Handle::new(TREE_MAJOR, 0);

/// The longest that a part which goes is waited for.
const DRAIN: Duration = Duration::from_millis(200);

fn handle(minor: u16) -> Handle {
    Handle::new(TREE_MAJOR, minor)
}

/// True when the tree at a link's root is ours.
pub(super) fn is_ours(socket: &mut Socket, link: &Link) -> Result<bool> {
    let root = socket
        .qdisc_at(link, Handle::ROOT)
        .doing("find the root qdisc")?;
    Ok(root.is_some_and(|root| root.handle == ROOT && root.htb().is_some()))
}

/// Makes the tree, or changes it to be as its forms say. What it has beyond that stays.
///
/// # Errors
/// Somebody else's qdisc is at the link's root; nothing has changed.
pub(super) fn apply(
    socket: &mut Socket,
    link: &Link,
    forms: &Forms,
    programs: &Classes,
) -> Result<usize> {
    let mut changes = 0;
    let htb = Htb {
        default: Slot::of(TrafficClass::System).bulk(),
    };
    match socket
        .qdisc_at(link, Handle::ROOT)
        .doing("find the root qdisc")?
    {
        Some(root) if root.handle == ROOT && root.htb().is_some() => {}
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
                .put_qdisc(link, Handle::ROOT, ROOT, &htb)
                .doing("make the root of the classes")?;
            changes += 1;
        }
    }
    let there = socket.classes(link).doing("list classes")?;
    let there: BTreeMap<Handle, InstalledClass> = there
        .into_iter()
        .map(|class| (class.handle, class))
        .collect();
    let put = |socket: &mut Socket, above: Handle, minor: u16, class: &HtbClass| -> Result<usize> {
        let name = handle(minor);
        // What is at the top has, as the kernel tells it, no tree above it.
        let told = if above == ROOT { Handle::ROOT } else { above };
        match there.get(&name) {
            Some(found) if *found == *class && found.parent == told => return Ok(0),
            // A class is not moved; a part whose class is another one now goes first.
            Some(found) if found.parent != told => {
                remove_with_leaves(socket, link, name, &there)?;
            }
            _ => {}
        }
        socket
            .put_class(link, above, name, class)
            .doing("put a class")?;
        Ok(1)
    };
    changes += put(socket, ROOT, LINE, &forms.line)?;
    for form in &forms.slots {
        let inner = form.slot.inner();
        changes += put(socket, handle(form.above), inner, &form.inner)?;
        changes += put(socket, handle(inner), form.slot.quick(), &form.quick)?;
        changes += put(socket, handle(inner), form.slot.bulk(), &form.bulk)?;
    }
    changes += apply_queues(socket, link, forms)?;
    for form in &forms.slots {
        let key = LeafKey {
            ifindex: link.index,
            slot: form.slot.0.into(),
        };
        if !programs
            .leaves
            .get(&key)?
            .is_some_and(|found| found.is_same(&form.leaf))
        {
            programs.leaves.put(&key, &form.leaf)?;
            changes += 1;
        }
    }
    Ok(changes)
}

fn apply_queues(socket: &mut Socket, link: &Link, forms: &Forms) -> Result<usize> {
    let there = socket.qdiscs(link).doing("list qdiscs")?;
    let there: BTreeMap<Handle, Installed> = there
        .into_iter()
        .map(|qdisc| (qdisc.parent, qdisc))
        .collect();
    let mut changes = 0;
    for form in &forms.slots {
        for (minor, queue) in [
            (form.slot.quick(), form.quick_queue),
            (form.slot.bulk(), form.bulk_queue),
        ] {
            if let Some(found) = there.get(&handle(minor)) {
                // One of the other kind does as well, until the next change: what waits in it would be
                // lost.
                let waits = found.statistics.queued_packets > 0;
                if queue.is(found) || waits && queue.is_replaced(found) {
                    continue;
                }
            }
            let above = handle(minor);
            match queue {
                Queue::Whole(bfifo) => socket.put_qdisc(link, above, Handle::NONE, &bfifo),
                Queue::Cut(tbf) => socket.put_qdisc(link, above, Handle::NONE, &tbf),
            }
            .doing("put a class' queue")?;
            changes += 1;
        }
    }
    Ok(changes)
}

/// Waits for the queues below a class, to which nothing comes any more.
fn drain(socket: &mut Socket, link: &Link, name: Handle) -> Result<()> {
    let until = Instant::now() + DRAIN;
    while Instant::now() < until {
        let classes = socket.classes(link).doing("list classes")?;
        let waits =
            |class: &InstalledClass| class.parent == name && class.statistics.queued_packets > 0;
        if !classes.iter().any(waits) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn remove_with_leaves(
    socket: &mut Socket,
    link: &Link,
    name: Handle,
    there: &BTreeMap<Handle, InstalledClass>,
) -> Result<()> {
    for below in there.values().filter(|class| class.parent == name) {
        gone(socket.delete_class(link, below.handle)).doing("remove a class")?;
    }
    gone(socket.delete_class(link, name)).doing("remove a class")
}

/// Removes the parts that no slot is for any more, once what waits in them has gone out, as far as that
/// is soon.
pub(super) fn prune(socket: &mut Socket, link: &Link, keep: &BTreeSet<Slot>) -> Result<usize> {
    let there = socket.classes(link).doing("list classes")?;
    let there: BTreeMap<Handle, InstalledClass> = there
        .into_iter()
        .map(|class| (class.handle, class))
        .collect();
    let kept: BTreeSet<u16> = keep
        .iter()
        .chain(&TrafficClass::ALL.map(Slot::of))
        .map(|slot| slot.inner())
        .chain([LINE])
        .collect();
    let mut removed = 0;
    let inner = there
        .values()
        .filter(|class| class.handle.minor() >= 0x8000);
    for class in inner.filter(|class| !kept.contains(&class.handle.minor())) {
        drain(socket, link, class.handle)?;
        remove_with_leaves(socket, link, class.handle, &there)?;
        removed += 1;
    }
    Ok(removed)
}

/// Reads what stands, if it is a tree of ours.
pub(super) fn read(
    socket: &mut Socket,
    link: &Link,
    direction: Direction,
    parts: &BTreeMap<Slot, PartId>,
    into: &mut Standing,
) -> Result<()> {
    if !is_ours(socket, link)? {
        return Ok(());
    }
    for class in socket.classes(link).doing("list classes")? {
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
pub(super) fn traffic(socket: &mut Socket, link: &Link, direction: Direction) -> Result<Traffic> {
    if !is_ours(socket, link)? {
        return Ok(Traffic::new());
    }
    let tree = socket.classes(link).doing("list classes")?;
    let whole = |class| handle(Slot::of(class).inner());
    Ok(traffic::counted(&tree, direction, whole))
}
