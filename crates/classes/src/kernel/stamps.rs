//! The programs at the host's ends of pods' interfaces, which write down where a packet came from: on tcx
//! where the kernel has that, which takes half of the time, and else on clsact.
//!
//! They only write it down, so that it does not matter where in line they stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_api::calico_ifb_name;
use netqos_bpf::classes::{Classes, stamp_no_more};
use netqos_netlink::filter::{Bpf, Installed, Place};
use netqos_netlink::link::{Link, gone, optional};
use netqos_netlink::{Handle, Socket};

use super::{Kernel, ingress};
use crate::error::Doing;
use crate::{Error, Result};

/// Where the filter stands; where others have the preference it is another.
const PREFERENCE: u16 = 0x6e73;
const HANDLE: u32 = 0x6e73;
const NAME: &str = "netqos_stamp";

/// The host's end of a pod's interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodLink<'k> {
    pub(super) link: &'k Link,
    /// The pod's number.
    pub(super) pod: u32,
    /// Some of its flows are told apart.
    pub(super) has_flows: bool,
}

/// Puts the programs at the pods' links, and says how many changes that took. A pod at whose link none can
/// be is refused, and still known by its addresses.
pub(super) fn apply<'k>(
    kernel: &mut Kernel,
    programs: &Classes,
    links: impl Iterator<Item = PodLink<'k>>,
    refused: impl FnMut(PodLink<'k>, Error),
) -> Result<usize> {
    match kernel.is_by_tcx {
        true => by_tcx(kernel, programs, links, refused),
        false => by_clsact(kernel, programs, links, refused),
    }
}

fn by_tcx<'k>(
    kernel: &mut Kernel,
    programs: &Classes,
    links: impl Iterator<Item = PodLink<'k>>,
    mut refused: impl FnMut(PodLink<'k>, Error),
) -> Result<usize> {
    let mut changes = 0;
    let mut made: BTreeSet<Arc<str>> = kernel.numbers.clsact().clone();
    for at in links {
        let stamped = programs.stamp_at(at.link.index, at.pod, at.has_flows);
        match stamped.map_err(Error::from).and_then(|new| {
            // Where an earlier process had it by a filter.
            Ok(usize::from(new) + remove_filters(kernel, at.link)?)
        }) {
            Ok(done) => {
                changes += done;
                made.remove(at.link.name.as_str());
            }
            Err(why) => refused(at, why),
        }
    }
    kernel.numbers.set_clsact(made)?;
    Ok(changes)
}

fn by_clsact<'k>(
    kernel: &mut Kernel,
    programs: &Classes,
    links: impl Iterator<Item = PodLink<'k>>,
    mut refused: impl FnMut(PodLink<'k>, Error),
) -> Result<usize> {
    let id = programs.stamp_id()?;
    let mut made: BTreeSet<Arc<str>> = kernel.numbers.clsact().clone();
    let mut looked_at = Vec::new();
    for at in links {
        let made_room = make_room(kernel, at.link);
        match made_room.and_then(|()| is_missing(&mut kernel.socket, at.link, id)) {
            Ok(missing) => {
                if missing.as_ref().is_some_and(|it| it.is_without_clsact) {
                    made.insert(at.link.name.as_str().into());
                }
                looked_at.push((at, missing));
            }
            Err(why) => refused(at, why),
        }
    }
    kernel.numbers.set_clsact(made)?;
    let mut changes = 0;
    for (at, missing) in looked_at {
        let new = usize::from(missing.is_some());
        let there = missing.map(|missing| {
            let socket = &mut kernel.socket;
            filter(socket, at.link, missing.there, programs)
        });
        // Where an earlier process had it by tcx.
        match there
            .transpose()
            .and_then(|_| Ok(stamp_no_more(at.link.index)?))
        {
            Ok(was) => changes += new + usize::from(was),
            Err(why) => refused(at, why),
        }
    }
    Ok(changes)
}

/// Leaves the link of a pod whose egress Calico limits to it: the kernel refuses its qdisc while clsact is there.
fn make_room(kernel: &mut Kernel, link: &Link) -> Result<()> {
    let ifb = calico_ifb_name(&link.name);
    let ifb = optional(kernel.socket.link_by_name(&ifb)).doing("find link")?;
    if ifb.is_none() {
        return Ok(());
    }
    remove_filters(kernel, link)?;
    // Also one that was made for a limit.
    ingress::remove_empty_clsact(&mut kernel.socket, link)?;
    Err(Error::CalicosHook)
}

/// Takes the program from a pod's link, where that still is, and forgets the link.
pub(super) fn remove(kernel: &mut Kernel, programs: &Classes, index: u32) -> Result<usize> {
    let mut changes = 0;
    if let Some(link) = optional(kernel.socket.link_by_index(index)).doing("find a pod's link")? {
        changes += usize::from(stamp_no_more(link.index)?);
        changes += remove_filters(kernel, &link)?;
    }
    Ok(changes + usize::from(programs.links.remove(&index)?))
}

/// Removes our filters from a link, with the clsact that was made for them.
fn remove_filters(kernel: &mut Kernel, link: &Link) -> Result<usize> {
    let mut changes = 0;
    let socket = &mut kernel.socket;
    while let Some(there) = ours(socket, link)? {
        gone(socket.delete_filter(link, "bpf", there.place)).doing("remove a filter")?;
        changes += 1;
    }
    if kernel.numbers.clsact().contains(link.name.as_str()) {
        ingress::remove_empty_clsact(socket, link)?;
    }
    Ok(changes)
}

/// Our filter on what comes from a pod by this link.
fn ours(socket: &mut Socket, link: &Link) -> Result<Option<Installed>> {
    let there = socket
        .filters(link, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    let is_ours = |filter: &Installed| {
        filter.place.handle == HANDLE && filter.bpf().is_some_and(|bpf| bpf.name == NAME)
    };
    Ok(there.into_iter().find(is_ours))
}

/// Where the program is to be put.
struct Missing {
    is_without_clsact: bool,
    /// Where an earlier one of ours is.
    there: Option<Place>,
}

/// `None`: the program of this id is there.
fn is_missing(socket: &mut Socket, link: &Link, id: u32) -> Result<Option<Missing>> {
    let there = ours(socket, link)?;
    let installed = there.as_ref().and_then(Installed::bpf);
    if installed.is_some_and(|bpf| bpf.program_id == id) {
        return Ok(None);
    }
    let clsact = socket.qdisc_at(link, Handle::CLSACT).doing("find clsact")?;
    Ok(Some(Missing {
        is_without_clsact: clsact.is_none(),
        there: there.map(|there| there.place),
    }))
}

fn filter(
    socket: &mut Socket,
    link: &Link,
    there: Option<Place>,
    programs: &Classes,
) -> Result<()> {
    ingress::ensure_clsact(socket, link)?;
    let place = match there {
        Some(place) => place,
        None => free_place(socket, link)?,
    };
    let filter = Bpf {
        program: programs.stamp()?,
        name: NAME,
        argument: 0,
    };
    socket
        .put_filter(link, place, &filter)
        .doing("put the filter that stamps")
}

fn free_place(socket: &mut Socket, link: &Link) -> Result<Place> {
    let taken = socket
        .taken_preferences(link, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    let free = (PREFERENCE..u16::MAX).find(|free| !taken.contains(free));
    Ok(Place {
        hook: Handle::CLSACT_INGRESS,
        preference: free.unwrap_or(PREFERENCE),
        handle: HANDLE,
    })
}
