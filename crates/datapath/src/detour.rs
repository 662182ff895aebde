//! A detour: what comes in through one link is sent through an ifb's queue, and goes on from there.
//!
//! For what cannot be queued where it leaves: traffic from a pod that must be shaped outside of
//! its namespace, and traffic to an interface that has no end on the host.

use netqos_netlink::filter::{Installed, Place, Redirect};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::{Handle, Socket};

use crate::Result;
use crate::error::Doing;
use crate::hook::{HookQdisc, ensure_clsact, remove_empty_clsact};

/// The redirect is the last in line, since nothing behind it sees the packet: programs of others
/// decide first.
const LAST: u16 = 0xFFFF;

/// Sends what comes in through `from` to `to`.
pub(crate) fn apply(socket: &mut Socket, from: &Link, to: &Link) -> Result<()> {
    if HookQdisc::read(socket, from)? == HookQdisc::Absent {
        ensure_clsact(socket, from)?;
    }
    let (right, wrong): (Vec<_>, Vec<_>) = ours(socket, from)?
        .into_iter()
        .partition(|filter| leads_to(filter, to));
    for filter in &wrong {
        gone(socket.delete_filter(from, &filter.kind, filter.place)).doing("delete filter")?;
    }
    if right.is_empty() {
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
    Ok(ours(socket, from)?
        .iter()
        .any(|filter| leads_to(filter, to)))
}

/// Lets traffic go its straight way again.
pub(crate) fn teardown(socket: &mut Socket, from: &Link, made_clsact: bool) -> Result<()> {
    for filter in ours(socket, from)? {
        gone(socket.delete_filter(from, &filter.kind, filter.place)).doing("delete filter")?;
    }
    if made_clsact {
        remove_empty_clsact(socket, from)
    } else {
        Ok(())
    }
}

fn ours(socket: &mut Socket, from: &Link) -> Result<Vec<Installed>> {
    let filters = socket
        .filters(from, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    let is_ours =
        |filter: &Installed| filter.place.preference == LAST && filter.redirect().is_some();
    Ok(filters.into_iter().filter(is_ours).collect())
}

fn leads_to(filter: &Installed, to: &Link) -> bool {
    filter.redirect() == Some(Redirect { to: to.index })
}
