//! A queue of bulk in which packets wait, exchanged for one of the other kind.
//!
//! The kernel drops what waits in a queue whose place another takes. So first all flows of its slot go by
//! the queue of those that take little, which has room for them meanwhile; then what still waits goes out,
//! and the empty queue is exchanged. Whoever is killed in between leaves a tree that the next `apply` puts
//! right, as it does whatever else is not as it should be.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use netqos_bpf::classes::{Classes, Leaf, LeafKey};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Socket};

use super::form::{Form, LONGEST_HOLD};
use super::queue::Queue;
use super::tree::{self, DRAIN, Installation, Root};
use crate::Result;

/// How often it is looked whether a queue has become short.
const LOOK: Duration = Duration::from_millis(5);

/// The state of a queue of what takes little in which an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quick {
    /// What waits has room in it.
    IsShort,
    /// All is sent that waited when bulk began to go by its own queue again.
    IsSent,
}

/// Exchanges the queues of bulk of these slots for what their forms say. One in which something waits
/// after all is left as it is. How many changes that took.
pub(super) fn exchange(
    socket: &mut Socket,
    at: Root<'_>,
    forms: &[&Form],
    programs: &Classes,
    end: Quick,
) -> Result<usize> {
    for form in forms {
        let room = form
            .quick_queue
            .limit()
            .saturating_add(form.bulk_queue.limit());
        let quick = at.handle(form.slot.quick());
        Queue::fifo(room).put(socket, at.link, quick)?;
        programs
            .leaves
            .put(&LeafKey::new(at.name, form.slot), &Leaf::ALL_LITTLE)?;
    }
    // A flow that was bulk before is so for its next packet, unless that comes after this.
    thread::sleep(Duration::from_nanos(LONGEST_HOLD));
    let bulk: BTreeSet<Handle> = { forms.iter() }
        .map(|it| at.handle(it.slot.bulk()))
        .collect();
    tree::drain(socket, at, &bulk)?;
    let there = tree::list(socket, at.link)?;
    let mut changes = 0;
    for form in forms {
        if waiting(&there, at.handle(form.slot.bulk())) == 0 {
            let bulk = at.handle(form.slot.bulk());
            form.bulk_queue.put(socket, at.link, bulk)?;
            changes += 1;
        }
        programs
            .leaves
            .put(&LeafKey::new(at.name, form.slot), &form.leaf)?;
    }
    shorten(socket, at, forms, end)?;
    Ok(changes)
}

/// Takes the room for bulk from the queues of what takes little, once they are as they shall be.
fn shorten(socket: &mut Socket, at: Root<'_>, forms: &[&Form], end: Quick) -> Result<()> {
    let until = Instant::now() + DRAIN;
    let observed = tree::list(socket, at.link)?;
    let statistics = |observed: &Installation, form: &Form| {
        let quick = observed.get(&at.handle(form.slot.quick()));
        quick.map(|class| class.statistics).unwrap_or_default()
    };
    let with_backlog = forms.iter().map(|form| {
        let Statistics {
            bytes,
            queued_bytes,
            ..
        } = statistics(&observed, form);
        (*form, bytes + u64::from(queued_bytes))
    });
    let mut left: Vec<(&Form, u64)> = with_backlog.collect();
    loop {
        let observed = tree::list(socket, at.link)?;
        let is_short = |(form, backlog): &(&Form, u64)| {
            let Statistics {
                bytes,
                queued_bytes,
                ..
            } = statistics(&observed, form);
            let is_sent = end == Quick::IsShort || bytes >= *backlog || queued_bytes == 0;
            is_sent && queued_bytes <= form.quick_queue.limit()
        };
        let (short, long): (Vec<_>, Vec<_>) = left.into_iter().partition(is_short);
        for (form, _) in short {
            let quick = at.handle(form.slot.quick());
            form.quick_queue.put(socket, at.link, quick)?;
        }
        // The next `apply` finds what is left.
        if long.is_empty() || Instant::now() > until {
            return Ok(());
        }
        left = long;
        thread::sleep(LOOK);
    }
}

/// Packets that wait in a class.
fn waiting(there: &Installation, class: Handle) -> u32 {
    let class = there.get(&class);
    class.map_or(0, |class| class.statistics.queued_packets)
}
