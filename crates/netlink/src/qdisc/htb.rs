//! `htb`: classes with a rate of their own, which borrow from each other (`net/sched/sch_htb.c`).
//!
//! The qdisc by itself holds nothing back; its classes are in [`crate::class`].

use super::{Installed, Options, Qdisc};
use crate::wire;

/// Attributes of HTB (`include/uapi/linux/pkt_sched.h`).
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_DIRECT_QLEN: u16 = 5;
/// `struct tc_htb_glob`: version, rate2quantum, defcls, debug, direct_pkts.
const VERSION: u32 = 3;
const DEFAULT_CLASS: usize = 8;
const DIRECT_PACKETS: usize = 16;
/// What `tc` gives; it stands for nothing where each class has a quantum of its own.
const RATE_TO_QUANTUM: u32 = 10;

/// Packets that pass by all classes wait in a queue of this length. The kernel's own choice is what its
/// link's had (`txqueuelen`), which may be none: then each of them is dropped.
const DIRECT: u32 = 1_000;

/// The root of a tree of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Htb {
    /// The minor number of the class, a leaf, of what no filter and no priority chooses another for.
    /// What this names none for passes by all classes.
    pub default: u16,
}

impl Qdisc for Htb {
    const KIND: &'static str = "htb";

    fn options(&self) -> Options {
        let init = wire::words([VERSION, RATE_TO_QUANTUM, self.default.into(), 0, 0]);
        Options::default()
            .with(TCA_HTB_INIT, &init)
            .with(TCA_HTB_DIRECT_QLEN, &DIRECT.to_ne_bytes())
    }
}

/// An HTB as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledHtb {
    /// The minor number of the default class.
    pub default: u16,
    /// Packets that passed by all classes.
    pub direct_packets: u32,
    /// How many of these may wait.
    pub direct_queue: u32,
}

impl Installed {
    /// The settings, when this is an HTB.
    pub fn htb(&self) -> Option<InstalledHtb> {
        if self.kind != Htb::KIND {
            return None;
        }
        let init = wire::attribute(&self.options, TCA_HTB_INIT)?;
        let queue = wire::attribute(&self.options, TCA_HTB_DIRECT_QLEN);
        Some(InstalledHtb {
            default: wire::u32_at(init, DEFAULT_CLASS)? as u16,
            direct_packets: wire::u32_at(init, DIRECT_PACKETS)?,
            direct_queue: queue.and_then(|it| wire::u32_at(it, 0)).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Handle;
    use crate::qdisc::tests::echoed;

    proptest! {
        #[test]
        fn what_is_asked_for_is_recognised(default: u16) {
            let found = echoed(Handle::ROOT, Handle::new(1, 0), &Htb { default });
            prop_assert_eq!(found.htb(), Some(InstalledHtb { default, direct_packets: 0, direct_queue: DIRECT }));
            prop_assert_eq!(found.tbf(), None);
        }
    }
}
