//! The map of limiters.

use std::os::fd::{AsFd, OwnedFd};

use rustix::time::{ClockId, clock_gettime};

use crate::layout::{Limiter, Settings};
use crate::sys::{self, BPF_EXIST, BPF_F_LOCK, BPF_NOEXIST};
use crate::{Error, Result};

/// Limiter ids travel in a filter's class id, of which the programs see 16 bits; 0 is none.
const IDS: u64 = 0xFFFF;

/// The map of limiters, shared by all processes of netqos on the node.
#[derive(Debug)]
pub struct Limiters {
    limiters: OwnedFd,
}

impl Limiters {
    pub(crate) fn new(limiters: OwnedFd) -> Self {
        Self { limiters }
    }

    /// The limiter of this id.
    pub fn get(&self, id: u16) -> Result<Option<Limiter>> {
        // SAFETY: the map's key is a u32, and its value has the layout of `Limiter`, which was
        // checked when it was opened.
        unsafe { sys::lookup(self.limiters.as_fd(), &u32::from(id), BPF_F_LOCK) }
    }

    /// Gives an owner its limiter, with these settings, and says under which id. An owner that is
    /// known to have one keeps it, its counters included.
    ///
    /// Ids are claimed one after the other from a place that the owner's hash decides, each by one
    /// atomic write, so any number of processes may do this at once.
    ///
    /// # Errors
    /// [`Error::Full`] when none is left.
    pub fn claim(&self, settings: &Settings, known: Option<u16>) -> Result<u16> {
        let places =
            (0..IDS).map(|attempt| (1 + settings.owner.wrapping_add(attempt) % IDS) as u16);
        // Only a place that is still its own: a free one is found by the order.
        let is_own = |id: &u16| {
            let there = self.get(*id);
            matches!(there, Ok(Some(limiter)) if limiter.settings.owner == settings.owner)
        };
        for id in known.filter(is_own).into_iter().chain(places) {
            match self.get(id)? {
                Some(mut limiter) if limiter.settings.owner == settings.owner => {
                    if limiter.settings != *settings {
                        limiter.change(*settings, now());
                        self.write(id, &limiter, BPF_EXIST | BPF_F_LOCK)?;
                    }
                    return Ok(id);
                }
                Some(_) => {}
                None => match self.write(id, &Limiter::new(*settings), BPF_NOEXIST) {
                    Ok(()) => return Ok(id),
                    // Somebody else was faster.
                    Err(error) if error.errno() == Some(libc::EEXIST) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Err(Error::Full(IDS as usize))
    }

    /// Takes an owner's limiter away; says whether it was there. A limiter of somebody else under
    /// that id stays.
    pub fn release(&self, id: u16, owner: u64) -> Result<bool> {
        match self.get(id)? {
            Some(limiter) if limiter.settings.owner == owner => {
                // SAFETY: the map's key is a u32.
                unsafe { sys::delete(self.limiters.as_fd(), &u32::from(id)) }
            }
            _ => Ok(false),
        }
    }

    /// All limiters.
    pub fn all(&self) -> Result<Vec<(u16, Limiter)>> {
        // SAFETY: the map's key is a u32.
        let keys: Vec<u32> = unsafe { sys::keys(self.limiters.as_fd()) }?;
        let mut found = Vec::new();
        for id in keys.into_iter().map(|key| key as u16) {
            if let Some(limiter) = self.get(id)? {
                found.push((id, limiter));
            }
        }
        Ok(found)
    }

    fn write(&self, id: u16, limiter: &Limiter, flags: u64) -> Result<()> {
        // SAFETY: key and value have the map's layout.
        unsafe { sys::update(self.limiters.as_fd(), &u32::from(id), limiter, flags) }
    }
}

/// The time of the programs (`bpf_ktime_get_ns`).
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
