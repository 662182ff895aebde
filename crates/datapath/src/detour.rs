//! A detour: what comes in through one link is sent through an ifb's queue, and goes on from there.
//!
//! For what cannot be queued where it leaves: traffic from a pod that must be shaped outside of
//! its namespace, and traffic to an interface that has no end on the host. What others keep from
//! reaching the redirect, the [backstop](crate::backstop) catches.

use netqos_netlink::filter::{Installed, Place, Redirect};
use netqos_netlink::link::Link;
use netqos_netlink::{Handle, Socket};

use crate::error::Doing;
use crate::hook::{HookQdisc, ensure_clsact, remove_empty_clsact};
use crate::{Result, unfilter};

/// The redirect is the last in line, since nothing behind it sees the packet: programs of others
/// decide first.
const LAST: u16 = 0xFFFF;

/// Sends what comes in through `from` to `to`.
pub(crate) fn apply(socket: &mut Socket, from: &Link, to: &Link) -> Result<()> {
    if HookQdisc::read(socket, from)? == HookQdisc::Absent {
        ensure_clsact(socket, from)?;
    }
    let is_wrong = |filter: &Installed| is_ours(filter) && !leads_to(filter, to);
    unfilter::remove(socket, from, Handle::CLSACT_INGRESS, is_wrong)?;
    if !is_applied(socket, from, to)? {
        let place = Place {
            hook: Handle::CLSACT_INGRESS,
            preference: LAST,
            handle: 0,
        };
        socket
            .put_filter(from, place, &Redirect { to: to.index })
            .doing("add filter")?;
    }
    Ok(())
}

/// True when the detour is in force.
pub(crate) fn is_applied(socket: &mut Socket, from: &Link, to: &Link) -> Result<bool> {
    let filters = socket
        .filters(from, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    Ok(filters
        .iter()
        .any(|filter| is_ours(filter) && leads_to(filter, to)))
}

/// True when a detour begins at this link, wherever it leads.
pub(crate) fn begins_at(socket: &mut Socket, from: &Link) -> Result<bool> {
    let filters = socket
        .filters(from, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    Ok(filters.iter().any(is_ours))
}

/// Lets traffic go its straight way again.
pub(crate) fn teardown(socket: &mut Socket, from: &Link, made_clsact: bool) -> Result<()> {
    unfilter::remove(socket, from, Handle::CLSACT_INGRESS, is_ours)?;
    if made_clsact {
        remove_empty_clsact(socket, from)
    } else {
        Ok(())
    }
}

fn is_ours(filter: &Installed) -> bool {
    filter.place.preference == LAST && filter.redirect().is_some()
}

fn leads_to(filter: &Installed, to: &Link) -> bool {
    filter.redirect() == Some(Redirect { to: to.index })
}
