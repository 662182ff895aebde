//! The programs on tcx hooks: what stamps at the pods' links, and what chooses at a line.
//!
//! They stand there without a link: they go with the interface, and are known by their names.

use std::os::fd::AsFd;

use super::layout::stamping;
use super::pins::Classes;
use crate::tcx::TcxHook;
use crate::{Result, pins, sys};

/// A program that stamps: this, and with a pod's number in three digits one that does it for that pod alone.
/// (What it writes is by its name: another layout of stamps needs another one.)
const STAMP: &str = "netqos_stamp";
const CHOOSE: &str = "netqos_choose";

/// Where a program stands: by which hook of which link, and how the names of all that may stand in its
/// place begin.
#[derive(Clone, Copy, Debug)]
struct At {
    hook: TcxHook,
    ifindex: u32,
    name: &'static str,
}

fn at_pod(ifindex: u32) -> At {
    At {
        hook: TcxHook::Ingress,
        ifindex,
        name: STAMP,
    }
}

fn at_line(ifindex: u32) -> At {
    At {
        hook: TcxHook::Egress,
        ifindex,
        name: CHOOSE,
    }
}

impl At {
    /// Has one program there, made where it is not, and says whether it was not.
    fn hold<P: AsFd>(
        self,
        is_it: impl Fn(u32, &str) -> bool,
        make: impl FnOnce() -> Result<P>,
    ) -> Result<bool> {
        let there = self.hook.named(self.ifindex, self.name)?;
        if there.iter().any(|(id, name)| is_it(*id, name)) {
            return Ok(false);
        }
        let before = there.first().map(|(id, _)| *id);
        self.hook.put(self.ifindex, make()?.as_fd(), before)?;
        Ok(true)
    }

    fn leave(self) -> Result<bool> {
        let there = self.hook.named(self.ifindex, self.name)?;
        for (id, _) in &there {
            match self.hook.remove(self.ifindex, *id) {
                // It went by itself.
                Err(error) if error.is_gone() => {}
                removed => {
                    removed?;
                }
            }
        }
        Ok(!there.is_empty())
    }
}

impl Classes {
    /// Has what comes from a pod by the host's end of its interface stamped there, by tcx; says whether it
    /// was not. A pod whose flows are told apart has the program that asks for its link's entry.
    ///
    /// # Errors
    /// The kernel has no tcx, or the link is gone.
    pub fn stamp_at(&self, ifindex: u32, pod: u32, has_flows: bool) -> Result<bool> {
        let at = at_pod(ifindex);
        if has_flows {
            let own = self.stamp_id()?;
            return at.hold(|id, _| id == own, || self.stamp());
        }
        let name = format!("{STAMP}{pod:03x}");
        at.hold(
            |_, there| there == name,
            || sys::load(&stamping(pod), &name),
        )
    }

    /// Has the class of what goes out by a line chosen by tcx, before its tree; says whether it was not.
    ///
    /// # Errors
    /// As for [`stamp_at`](Self::stamp_at).
    pub fn choose_at(&self, ifindex: u32) -> Result<bool> {
        let own = pins::program_id(self.choose()?)?;
        at_line(ifindex).hold(|id, _| id == own, || self.choose())
    }
}

/// Loads the program that stamps for one pod on a tcx hook, and drops it.
///
/// # Errors
/// The kernel refuses it.
pub fn probe_stamp() -> Result<()> {
    sys::load(&stamping(1), &format!("{STAMP}001")).map(drop)
}

/// Stamps no more by tcx at this link; says whether it was so.
pub fn stamp_no_more(ifindex: u32) -> Result<bool> {
    at_pod(ifindex).leave()
}

/// Chooses no more by tcx at this line; says whether it was so.
pub fn choose_no_more(ifindex: u32) -> Result<bool> {
    at_line(ifindex).leave()
}
