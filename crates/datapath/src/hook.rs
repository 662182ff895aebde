//! How the ranking program stands in front of a queue: a clsact filter, a tcx link, or not at all.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use netqos_api::HookChoice;
use netqos_bpf::{Pins, TcxHook, TcxLink};
use netqos_core::Tag;
use netqos_netlink::filter::{Bpf, InstalledBpf, Place};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::qdisc::Clsact;
use netqos_netlink::{Handle, Socket};
use serde::{Deserialize, Serialize};

use crate::endpoint::Side;
use crate::error::Doing;
use crate::record::QueueName;
use crate::{Error, Result};

/// Where our filter stands among others on the egress hook: early, so that a foreign program that
/// ends the chain does not keep the queue from being bounded; it hands every packet on, so those
/// behind it see all that they would without it. Where somebody else has taken the preference it
/// is another; ours is known by handle and name.
const PLACE: Place = Place {
    hook: Handle::CLSACT_EGRESS,
    preference: 0x51,
    handle: 0x6e71,
};
const NAME: &str = "netqos_rank";

/// How a ranking program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// By a filter on clsact.
    Clsact,
    /// By a pinned tcx link.
    Tcx,
    /// Not at all: the limit holds, flows are not ranked, and the queue is TBF's own.
    None,
}

/// What a link has where hooks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookQdisc {
    /// clsact, ours or somebody else's.
    Clsact,
    /// The older `ingress`, which has no egress hook.
    Ingress,
    /// Nothing.
    Absent,
}

/// What kind of hook, or why none.
pub(crate) struct Choice {
    pub(crate) kind: HookKind,
    pub(crate) why_none: Option<String>,
}

impl HookQdisc {
    /// Reads it from the kernel.
    pub(crate) fn read(socket: &mut Socket, link: &Link) -> Result<Self> {
        let there = socket.qdisc_at(link, Handle::CLSACT).doing("list qdiscs")?;
        Ok(match there.as_ref().map(|qdisc| qdisc.kind.as_str()) {
            Some("clsact") => Self::Clsact,
            Some(_) => Self::Ingress,
            None => Self::Absent,
        })
    }
}

/// Makes clsact where nothing is.
pub(crate) fn ensure_clsact(socket: &mut Socket, link: &Link) -> Result<()> {
    match socket.add_qdisc(link, Handle::CLSACT, Handle::new(0xFFFF, 0), &Clsact) {
        Err(error) if !error.is_exists() => Err(error).doing("create clsact qdisc"),
        _ => Ok(()),
    }
}

/// Removes clsact when nothing hangs on it any more.
pub(crate) fn remove_empty_clsact(socket: &mut Socket, link: &Link) -> Result<()> {
    // The kernel calls a removal "invalid", and not "not found", where one has been before.
    if HookQdisc::read(socket, link)? != HookQdisc::Clsact {
        return Ok(());
    }
    for hook in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS] {
        if !socket.filters(link, hook).doing("list filters")?.is_empty() {
            return Ok(());
        }
    }
    gone(socket.delete_qdisc(link, Handle::CLSACT, Handle::new(0xFFFF, 0)))
        .doing("delete clsact qdisc")
}

/// Decides how the program goes in front of a link's queue.
pub(crate) fn choose(
    link: &str,
    there: HookQdisc,
    has_foreign_tcx: bool,
    pins: &std::result::Result<Pins, netqos_bpf::Error>,
    choice: HookChoice,
    is_running: bool,
) -> Result<Choice> {
    let some = |kind| {
        Ok(Choice {
            kind,
            why_none: None,
        })
    };
    let none = |why: String| {
        Ok(Choice {
            kind: HookKind::None,
            why_none: Some(why),
        })
    };
    let pins = match (pins, choice) {
        (_, HookChoice::None) => return none("it was asked not to be".to_owned()),
        (Err(why), _) => return none(why.to_string()),
        (Ok(pins), _) => pins,
    };
    match (choice, there) {
        (HookChoice::Tcx, _) if !pins.programs().has_tcx() => Err(netqos_bpf::Error::NoTcx.into()),
        (HookChoice::Tcx, _) => some(HookKind::Tcx),
        // They run before clsact, and one that ends the chain would keep the queue from being
        // bounded; as a tcx program, ours is before them.
        (HookChoice::Auto, _) if has_foreign_tcx => some(HookKind::Tcx),
        // Adding clsact takes the link down for a moment.
        (HookChoice::Auto, HookQdisc::Absent) if is_running && pins.programs().has_tcx() => {
            some(HookKind::Tcx)
        }
        (_, HookQdisc::Clsact | HookQdisc::Absent) => some(HookKind::Clsact),
        (HookChoice::Clsact, HookQdisc::Ingress) => Err(Error::NoClsact(link.to_owned())),
        _ if pins.programs().has_tcx() => some(HookKind::Tcx),
        _ => none(format!(
            "{}; and {}",
            Error::NoClsact(link.to_owned()),
            netqos_bpf::Error::NoTcx
        )),
    }
}

/// The name under which a tcx link is pinned.
pub(crate) fn link_path(pins: &Pins, tag: &Tag, queue: QueueName) -> PathBuf {
    pins.link_path(&format!("{tag}:{queue}"))
}

/// Puts the program in front of the link's queue, with this limiter.
pub(crate) fn attach(
    side: &mut Side,
    link: &Link,
    there: HookQdisc,
    kind: HookKind,
    pins: &Pins,
    limiter: u16,
    path: &Path,
) -> Result<()> {
    match kind {
        HookKind::None => {}
        HookKind::Clsact => {
            let is_new = there == HookQdisc::Absent;
            if is_new {
                ensure_clsact(&mut side.socket, link)?;
            }
            let there = match is_new {
                true => None,
                false => ours(&mut side.socket, link)?,
            };
            if !is_current(there.as_ref(), pins, limiter)? {
                let place = match there {
                    Some((place, _)) => place,
                    None if is_new => PLACE,
                    None => free_place(&mut side.socket, link)?,
                };
                let filter = Bpf {
                    program: pins.programs().rank()?,
                    name: NAME,
                    argument: limiter,
                };
                side.socket
                    .put_filter(link, place, &filter)
                    .doing("add filter")?;
            }
        }
        HookKind::Tcx => {
            if tcx_fault(link, limiter, path)?.is_some() {
                if let Some(stale) = TcxLink::open(path)? {
                    stale.detach()?;
                }
                let program = pins.programs().rank_tcx(limiter)?;
                let attach = || TcxLink::attach(program.as_fd(), link.index, TcxHook::Egress, path);
                side.inside(attach)??;
            }
        }
    }
    Ok(())
}

/// What is missing or changed in front of the queue; `None` when all is right.
pub(crate) fn fault(
    side: &mut Side,
    link: &Link,
    kind: HookKind,
    pins: &Pins,
    limiter: u16,
    path: &Path,
) -> Result<Option<String>> {
    match kind {
        HookKind::None => Ok(None),
        HookKind::Clsact => clsact_fault(side, link, pins, limiter),
        HookKind::Tcx => tcx_fault(link, limiter, path),
    }
}

/// Our filter on the link's egress hook, and where it stands.
fn ours(socket: &mut Socket, link: &Link) -> Result<Option<(Place, InstalledBpf)>> {
    let filters = socket.filters(link, PLACE.hook).doing("list filters")?;
    Ok(filters.iter().find_map(|filter| {
        let bpf = filter.bpf()?;
        let is_ours = filter.place.handle == PLACE.handle && bpf.name == NAME;
        is_ours.then_some((filter.place, bpf))
    }))
}

/// Our place, or where somebody else has taken that preference the next that is free: before it, as
/// far as there is one, since what stands there may end the chain.
fn free_place(socket: &mut Socket, link: &Link) -> Result<Place> {
    let taken = socket
        .taken_preferences(link, PLACE.hook)
        .doing("list filters")?;
    let (before, behind) = (
        (1..=PLACE.preference).rev(),
        PLACE.preference + 1..=u16::MAX,
    );
    let free = before.chain(behind).find(|free| !taken.contains(free));
    Ok(Place {
        preference: free.unwrap_or(PLACE.preference),
        ..PLACE
    })
}

/// True when the filter is as [`attach`] would make it, this build's program included.
fn is_current(there: Option<&(Place, InstalledBpf)>, pins: &Pins, limiter: u16) -> Result<bool> {
    match there {
        Some((_, bpf)) if bpf.argument == limiter => Ok(pins.programs().is_rank(bpf.program_id)?),
        _ => Ok(false),
    }
}

fn clsact_fault(side: &mut Side, link: &Link, pins: &Pins, limiter: u16) -> Result<Option<String>> {
    Ok(match ours(&mut side.socket, link)? {
        None => Some("the filter that ranks is missing".to_owned()),
        Some((_, bpf)) if bpf.argument != limiter => Some(format!(
            "the filter that ranks goes by limiter {}, not {limiter}",
            bpf.argument
        )),
        Some((_, bpf)) if !pins.programs().is_any_rank(bpf.program_id)? => {
            Some("the filter that ranks has a program that does not".to_owned())
        }
        Some(_) => None,
    })
}

fn tcx_fault(link: &Link, limiter: u16, path: &Path) -> Result<Option<String>> {
    let Some(held) = TcxLink::open(path)? else {
        return Ok(Some(
            "the tcx link of the program that ranks is missing".to_owned(),
        ));
    };
    Ok(match (held.ifindex()?, held.limiter()?) {
        (Some(index), Some(found)) if index == link.index => (found != limiter)
            .then(|| format!("the program that ranks goes by limiter {found}, not {limiter}")),
        (Some(index), None) if index == link.index => {
            Some("the tcx link holds another program".to_owned())
        }
        _ => Some("the tcx link of the program that ranks is on another interface".to_owned()),
    })
}

/// Takes the program away from a link that is still there. Other filters, and a clsact that is not
/// ours, stay.
pub(crate) fn detach(
    side: &mut Side,
    link: &Link,
    kind: HookKind,
    made_clsact: bool,
) -> Result<()> {
    if kind != HookKind::Clsact {
        return Ok(());
    }
    while let Some((place, _)) = ours(&mut side.socket, link)? {
        gone(side.socket.delete_filter(link, "bpf", place)).doing("delete filter")?;
    }
    if made_clsact {
        remove_empty_clsact(&mut side.socket, link)
    } else {
        Ok(())
    }
}
