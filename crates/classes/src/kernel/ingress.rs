//! The way in by a line: everything goes through an ifb, at whose root the tree is.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_bpf::classes::{Classes, Tree};
use netqos_core::Direction;
use netqos_netlink::filter::{BpfRedirect, Installed, Place};
use netqos_netlink::link::{Link, LinkChange, gone, optional};
use netqos_netlink::qdisc::Clsact;
use netqos_netlink::{Handle, Socket};

use super::form::Forms;
use super::stalls::Stalls;
use super::tree::{self, Root};
use crate::Result;
use crate::error::Doing;

/// The last in line, since nothing behind it sees the packet: programs of others decide first.
const PREFERENCE: u16 = 0xFFFE;
const HANDLE: u32 = 1;
const NAME: &str = "netqos_class";
/// How the names of our ifbs begin; the line's index follows.
const PREFIX: &str = "netqos-l";
/// How the aliases of our ifbs begin; the line's name follows.
const ALIAS: &str = "netqos:line:";
/// What follows that when the line's clsact is ours: by a space, so that it is no attachment's tag.
const MADE_CLSACT: &str = " clsact";
/// The same as earlier builds wrote it.
const MADE_CLSACT_BEFORE: &str = ":clsact";
/// Packets that the ifb holds between its qdisc and the line.
const RING: u32 = 1000;

/// The name of a line's ifb.
fn name(link: &Link) -> String {
    format!("{PREFIX}{}", link.index)
}

/// Returns the index of the uplink if this is the name of its ifb.
pub fn uplink_of_ifb(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Returns true if the link is the ifb through which what comes by a line is sent.
pub fn is_ifb(link: &Link) -> bool {
    let alias = link.alias.as_deref();
    link.kind == "ifb" && alias.is_some_and(|alias| alias.starts_with(ALIAS))
}

/// Where the tree of what comes is, or may be, when this is the ifb of a line.
pub(super) fn root_of(ifb: &Link) -> Option<Root<'_>> {
    let index = uplink_of_ifb(&ifb.name).filter(|_| is_ifb(ifb))?;
    let name = Tree::new(index, Direction::Ingress);
    Some(Root { link: ifb, name })
}

fn line_of(ifb: &Link) -> Option<&str> {
    let alias = ifb.alias.as_deref()?.strip_prefix(ALIAS)?;
    Some(without_clsact(alias).unwrap_or(alias))
}

/// The alias without what says that the line's clsact is ours, where it does.
fn without_clsact(alias: &str) -> Option<&str> {
    let suffixes = [MADE_CLSACT, MADE_CLSACT_BEFORE];
    suffixes
        .iter()
        .find_map(|suffix| alias.strip_suffix(suffix))
}

/// The ifb of a line.
pub(super) fn of_line(socket: &mut Socket, link: &Link) -> Result<Option<Link>> {
    let found = optional(socket.link_by_name(&name(link))).doing("find an ifb")?;
    Ok(found.filter(|ifb| is_ifb(ifb) && line_of(ifb) == Some(&link.name)))
}

/// Sends what comes in by the line through its ifb, whose tree is as its forms say.
pub(super) fn apply(
    socket: &mut Socket,
    link: &Link,
    forms: &Forms,
    programs: &Classes,
    stalls: &mut Stalls,
) -> Result<usize> {
    let mut changes = 0;
    let ifb = match of_line(socket, link)? {
        Some(ifb) => ifb,
        None => {
            changes += 1;
            make(socket, link)?
        }
    };
    // The kernel drops what is redirected to a link that is down.
    if !ifb.is_up {
        socket.set_link_up(&ifb, true).doing("set an ifb up")?;
        changes += 1;
    }
    // Builds before this one gave the trees of both ways the same handle. What waits there goes out first; what
    // comes meanwhile goes its straight way.
    let earlier = Root {
        link: &ifb,
        ..Root::of_line(link)
    };
    if earlier.is_ours(socket)? {
        changes += take_no_more(socket, link)?;
        let all = tree::list(socket, &ifb)?.into_keys().collect();
        tree::drain(socket, earlier, &all)?;
        gone(socket.delete_qdisc(&ifb, Handle::ROOT, earlier.root())).doing("remove a tree")?;
        changes += 1;
    }
    changes += tree::apply(socket, Root::of_ifb(link, &ifb), forms, programs, stalls)?;
    let id = programs.ingress_id()?;
    let (right, wrong): (Vec<_>, Vec<_>) = ours(socket, link)?.into_iter().partition(|filter| {
        let bpf = filter.bpf();
        bpf.is_some_and(|bpf| bpf.program_id == id && bpf.redirects_to == Some(ifb.index))
    });
    if right.is_empty() {
        let place = Place {
            hook: Handle::CLSACT_INGRESS,
            preference: PREFERENCE,
            handle: HANDLE,
        };
        let filter = BpfRedirect {
            program: programs.ingress()?,
            name: NAME,
            to: ifb.index,
        };
        ensure_clsact(socket, link)?;
        socket
            .put_filter(link, place, &filter)
            .doing("put the filter that takes what comes in")?;
        changes += 1;
    } else {
        for filter in wrong {
            gone(socket.delete_filter(link, "bpf", filter.place)).doing("remove a filter")?;
            changes += 1;
        }
    }
    Ok(changes)
}

fn make(socket: &mut Socket, link: &Link) -> Result<Link> {
    let name = name(link);
    // Of a link that had this number before, or of whoever was killed before it had an alias.
    if let Some(left) = optional(socket.link_by_name(&name)).doing("find an ifb")? {
        gone(socket.delete_link(&left)).doing("remove an ifb")?;
    }
    let has_clsact = socket
        .qdisc_at(link, Handle::CLSACT)
        .doing("find clsact")?
        .is_some();
    let ifb = socket.add_ifb(&name, link.mtu, RING).doing("make an ifb")?;
    let made = if has_clsact { "" } else { MADE_CLSACT };
    let change = LinkChange {
        alias: Some(format!("{ALIAS}{}{made}", link.name)),
        ..LinkChange::default()
    };
    socket.change_link(&ifb, &change).doing("name an ifb")?;
    socket.link_by_name(&name).doing("find an ifb")
}

/// Makes clsact where nothing is.
pub(super) fn ensure_clsact(socket: &mut Socket, link: &Link) -> Result<()> {
    match socket.add_qdisc(link, Handle::CLSACT, Handle::new(0xFFFF, 0), &Clsact) {
        Err(error) if !error.is_exists() => Err(error).doing("make clsact"),
        _ => Ok(()),
    }
}

/// Removes clsact when nothing hangs on it any more.
pub(super) fn remove_empty_clsact(socket: &mut Socket, link: &Link) -> Result<()> {
    let there = socket.qdisc_at(link, Handle::CLSACT).doing("find clsact")?;
    if there.is_none_or(|qdisc| qdisc.kind != "clsact") {
        return Ok(());
    }
    for hook in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS] {
        if !socket.filters(link, hook).doing("list filters")?.is_empty() {
            return Ok(());
        }
    }
    gone(socket.delete_qdisc(link, Handle::CLSACT, Handle::new(0xFFFF, 0))).doing("remove clsact")
}

/// Our filters on what comes in by a link.
fn ours(socket: &mut Socket, link: &Link) -> Result<Vec<Installed>> {
    let there = socket
        .filters(link, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    let is_ours = |filter: &Installed| {
        filter.place.preference == PREFERENCE && filter.bpf().is_some_and(|bpf| bpf.name == NAME)
    };
    Ok(there.into_iter().filter(is_ours).collect())
}

/// Lets what comes in by a link go its straight way.
fn take_no_more(socket: &mut Socket, link: &Link) -> Result<usize> {
    let there = ours(socket, link)?;
    for filter in &there {
        gone(socket.delete_filter(link, "bpf", filter.place)).doing("remove a filter")?;
    }
    Ok(there.len())
}

/// Lets what comes in by a link go its straight way again, and leaves nothing behind.
pub(super) fn leave(socket: &mut Socket, link: &Link) -> Result<usize> {
    if is_ifb(link) {
        return Ok(0);
    }
    let mut changes = take_no_more(socket, link)?;
    if let Some(ifb) = of_line(socket, link)? {
        let made = ifb
            .alias
            .as_deref()
            .is_some_and(|alias| without_clsact(alias).is_some());
        if made {
            remove_empty_clsact(socket, link)?;
        }
        gone(socket.delete_link(&ifb)).doing("remove an ifb")?;
        changes += 1;
    }
    Ok(changes)
}

/// Removes ifbs whose lines are gone.
pub(super) fn remove_orphans(
    socket: &mut Socket,
    links: &[Link],
    keep: &BTreeSet<Arc<str>>,
) -> Result<usize> {
    let mut changes = 0;
    for ifb in links.iter().filter(|link| is_ifb(link)) {
        let line = line_of(ifb).unwrap_or_default();
        let is_needed = keep.contains(line)
            && links
                .iter()
                .any(|link| link.name == line && name(link) == ifb.name);
        if !is_needed {
            gone(socket.delete_link(ifb)).doing("remove an ifb")?;
            changes += 1;
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use netqos_core::Tag;

    use super::*;

    fn ifb(alias: &str) -> Link {
        Link {
            name: "netqos-l2".to_owned(),
            kind: "ifb".to_owned(),
            alias: Some(alias.to_owned()),
            ..Link::default()
        }
    }

    /// GC of a network named `line` would remove it.
    #[test]
    fn alias_of_uplink_ifb_is_no_tag_of_attachment() {
        let alias = format!("{ALIAS}up0{MADE_CLSACT}");
        assert!(alias.parse::<Tag>().is_err());
        assert!(format!("{ALIAS}up0").parse::<Tag>().is_err());
    }

    #[test]
    fn aliases_of_earlier_builds_are_read() {
        for alias in [
            "netqos:line:up0",
            "netqos:line:up0 clsact",
            "netqos:line:up0:clsact",
        ] {
            let ifb = ifb(alias);
            assert!(is_ifb(&ifb), "{alias}");
            assert_eq!(line_of(&ifb), Some("up0"), "{alias}");
        }
    }
}
