//! Queueing disciplines: one file for each kind, behind one small trait.

mod bfifo;
mod clsact;
mod fq_codel;
mod htb;
mod pfifo_fast;
mod tbf;

pub use bfifo::Bfifo;
pub use clsact::{Clsact, Ingress};
pub use fq_codel::{FqCodel, InstalledFqCodel};
pub use htb::{Htb, InstalledHtb};
pub use pfifo_fast::PfifoFast;
pub use tbf::{InstalledTbf, Tbf};

use netlink_packet_core::NLA_F_NESTED;

use crate::link::Link;
use crate::wire::{self, Request};
use crate::{Error, Handle, Result, Socket};

/// Attributes of traffic control messages (`include/uapi/linux/rtnetlink.h`).
pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
pub(crate) const TCA_STATS2: u16 = 7;
/// Inside of `TCA_STATS2` (`include/uapi/linux/gen_stats.h`).
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// `sizeof(struct tcmsg)`.
pub(crate) const TCMSG: usize = 20;

/// A kind of queueing discipline, with its settings.
pub trait Qdisc {
    /// The name by which the kernel knows it.
    const KIND: &'static str;

    /// Checks what the kernel would misunderstand instead of refusing.
    ///
    /// # Errors
    /// A setting that cannot be what was meant; the text says which and why.
    fn verify(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// The settings as attributes, to stand in `TCA_OPTIONS`.
    #[doc(hidden)]
    fn options(&self) -> Options {
        Options::default()
    }
}

/// A qdisc's settings in bytes. Opaque outside of this crate.
#[derive(Debug, Default)]
pub struct Options {
    bytes: Vec<u8>,
    /// It is attributes, which the kernel wants to be told of.
    is_nest: bool,
}

impl Options {
    pub(crate) fn with(self, kind: u16, value: &[u8]) -> Self {
        let attribute = Request::attributes_only(|request| request.attribute(kind, value));
        Self {
            bytes: [self.bytes, attribute].concat(),
            is_nest: true,
        }
    }

    /// The bytes of a structure, as the older kinds have it.
    pub(crate) fn structure(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            is_nest: false,
        }
    }
}

/// A qdisc as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its kind's name.
    pub kind: String,
    /// Its handle; [`Handle::NONE`] for one that the kernel put there by itself.
    pub handle: Handle,
    /// Where it hangs: [`Handle::ROOT`], [`Handle::CLSACT`] or a class.
    pub parent: Handle,
    /// What it has done and holds.
    pub statistics: Statistics,
    options: Vec<u8>,
}

/// What a qdisc has done since it was made, and what waits in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u32,
    /// Packets waiting.
    pub queued_packets: u32,
    /// Bytes waiting.
    pub queued_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times that it had to wait for its rate.
    pub overlimits: u32,
}

impl Installed {
    /// Reads what stands behind the header of an `RTM_NEWQDISC` message; `None` when it is of
    /// another link than the one of this number, or too short. What is cut off or malformed is left
    /// out.
    pub fn read(payload: &[u8], index: u32) -> Option<Self> {
        // A list is of all devices, whichever was asked about.
        if wire::u32_at(payload, 4)? != index {
            return None;
        }
        let mut qdisc = Self {
            kind: String::new(),
            handle: Handle::from_raw(wire::u32_at(payload, 8)?),
            parent: Handle::from_raw(wire::u32_at(payload, 12)?),
            statistics: Statistics::default(),
            options: Vec::new(),
        };
        for (kind, value) in wire::attributes(payload.get(TCMSG..)?) {
            match kind {
                TCA_KIND => qdisc.kind = wire::text(value),
                TCA_OPTIONS => qdisc.options = value.to_vec(),
                TCA_STATS2 => qdisc.statistics.read(value),
                _ => {}
            }
        }
        Some(qdisc)
    }

    /// True for a qdisc that the kernel put there by itself, which anybody may replace.
    pub fn is_default(&self) -> bool {
        self.handle == Handle::NONE
    }
}

impl Statistics {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for (kind, value) in wire::attributes(bytes) {
            match kind {
                TCA_STATS_BASIC => {
                    self.bytes = wire::u64_at(value, 0).unwrap_or_default();
                    self.packets = wire::u32_at(value, 8).unwrap_or_default();
                }
                TCA_STATS_QUEUE => {
                    let number = |index: usize| wire::u32_at(value, index * 4).unwrap_or_default();
                    self.queued_packets = number(0);
                    self.queued_bytes = number(1);
                    self.drops = number(2);
                    self.overlimits = number(4);
                }
                _ => {}
            }
        }
    }
}

/// The fixed part of a traffic control message.
pub(crate) fn tcmsg(link: &Link, parent: Handle, handle: Handle, info: u32) -> Vec<u8> {
    wire::words([0, link.index, handle.raw(), parent.raw(), info])
}

/// A request about the qdisc or the class of this handle at this place of a link.
pub(crate) fn request(
    kind: u16,
    flags: i32,
    link: &Link,
    parent: Handle,
    handle: Handle,
) -> Request {
    Request::new(kind, flags, &tcmsg(link, parent, handle, 0))
}

fn set_request<Q: Qdisc>(
    link: &Link,
    parent: Handle,
    handle: Handle,
    qdisc: &Q,
    flags: i32,
) -> Request {
    let flags = libc::NLM_F_ACK | flags;
    let request =
        request(libc::RTM_NEWQDISC, flags, link, parent, handle).string(TCA_KIND, Q::KIND);
    match qdisc.options() {
        Options { bytes, .. } if bytes.is_empty() => request,
        Options { bytes, is_nest } => {
            let nested = if is_nest { NLA_F_NESTED } else { 0 };
            request.attribute(TCA_OPTIONS | nested, &bytes)
        }
    }
}

impl Socket {
    /// The qdisc at this place of a link: [`Handle::ROOT`], [`Handle::CLSACT`] or a class. `None`
    /// when nothing is there, or what the kernel puts there by itself and shows to nobody.
    ///
    /// This costs the same on every node, where a list of qdiscs is made by the kernel for all
    /// devices of the namespace, whichever was asked about.
    pub fn qdisc_at(&mut self, link: &Link, parent: Handle) -> Result<Option<Installed>> {
        // The kernel answers to whoever listens for changes, and to the caller when it is asked to
        // echo.
        let flags = libc::NLM_F_ACK | libc::NLM_F_ECHO;
        let request = request(libc::RTM_GETQDISC, flags, link, parent, Handle::NONE);
        let doing = || format!("find qdisc at {parent} of {}", link.name);
        let read = |payload: &[u8]| Installed::read(payload, link.index);
        let found = self.fetched_if_any(&doing, request, read);
        match found {
            // What is there and not shown (noqueue) is answered by "invalid argument".
            Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::EINVAL)) => Ok(None),
            other => other,
        }
    }

    /// All qdiscs of a link, the ones that the kernel made by itself included.
    pub fn qdiscs(&mut self, link: &Link) -> Result<Vec<Installed>> {
        let kind = libc::RTM_GETQDISC;
        self.listed("qdiscs", kind, link, Handle::NONE, Installed::read)
    }

    /// The qdiscs, classes or filters of a link, as `read` reads those of the link of a number.
    pub(crate) fn listed<T>(
        &mut self,
        what: &str,
        kind: u16,
        link: &Link,
        parent: Handle,
        read: fn(&[u8], u32) -> Option<T>,
    ) -> Result<Vec<T>> {
        let request = request(kind, libc::NLM_F_DUMP, link, parent, Handle::NONE);
        let doing = || format!("list {what} of {}", link.name);
        self.dumped(&doing, &request, |payload| read(payload, link.index))
    }

    /// Puts this qdisc in place. One of the same kind and handle that is there already is changed,
    /// and keeps its packets and its children; one of another kind at the same place is replaced.
    pub fn put_qdisc<Q: Qdisc>(
        &mut self,
        link: &Link,
        parent: Handle,
        handle: Handle,
        qdisc: &Q,
    ) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.set_qdisc(link, parent, handle, qdisc, flags)
    }

    /// Makes this qdisc where none is.
    ///
    /// # Errors
    /// One that [`is_exists`](Error::is_exists) when there is one with a handle already.
    pub fn add_qdisc<Q: Qdisc>(
        &mut self,
        link: &Link,
        parent: Handle,
        handle: Handle,
        qdisc: &Q,
    ) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.set_qdisc(link, parent, handle, qdisc, flags)
    }

    fn set_qdisc<Q: Qdisc>(
        &mut self,
        link: &Link,
        parent: Handle,
        handle: Handle,
        qdisc: &Q,
        flags: i32,
    ) -> Result<()> {
        let doing = || format!("add qdisc {} to {}", Q::KIND, link.name);
        qdisc
            .verify()
            .map_err(|why| Error::Invalid(format!("{}: {why}", doing())))?;
        let request = set_request(link, parent, handle, qdisc, flags);
        self.acknowledged(&doing, request)
    }

    /// Removes the qdisc at this place, and all below it; the kernel's own takes the root's place.
    pub fn delete_qdisc(&mut self, link: &Link, parent: Handle, handle: Handle) -> Result<()> {
        let request = request(libc::RTM_DELQDISC, libc::NLM_F_ACK, link, parent, handle);
        let doing = || format!("delete qdisc {handle} of {}", link.name);
        self.acknowledged(&doing, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary;
    use proptest::prelude::*;

    /// The kernel's view of a qdisc that was just asked for.
    pub(super) fn echoed<Q: Qdisc>(parent: Handle, handle: Handle, qdisc: &Q) -> Installed {
        let link = arbitrary::link(7);
        let request = set_request(&link, parent, handle, qdisc, libc::NLM_F_CREATE);
        let payload = arbitrary::payload(request);
        assert_eq!(Installed::read(&payload, 8), None, "of another link");
        Installed::read(&payload, 7).unwrap()
    }

    #[test]
    fn a_request_reads_as_the_qdisc_that_it_asks_for() {
        let clsact = echoed(Handle::CLSACT, Handle::new(0xffff, 0), &Clsact);
        assert_eq!(clsact.kind, "clsact");
        assert_eq!(clsact.parent, Handle::CLSACT);
        assert_eq!(clsact.tbf(), None);
        let queue = echoed(Handle::new(1, 1), Handle::new(2, 0), &PfifoFast);
        assert_eq!(
            (queue.kind.as_str(), queue.is_default()),
            ("pfifo_fast", false)
        );
        assert!(echoed(Handle::ROOT, Handle::NONE, &PfifoFast).is_default());
    }

    #[test]
    fn statistics_are_read_where_the_kernel_puts_them() {
        let basic = [&10_000_000_000_u64.to_ne_bytes()[..], &wire::words([3])].concat();
        let bytes = Request::attributes_only(|request| {
            request
                .attribute(TCA_STATS_BASIC, &basic)
                .attribute(TCA_STATS_QUEUE, &wire::words([4, 5, 6, 7, 8]))
        });
        let mut statistics = Statistics::default();
        statistics.read(&bytes);
        let expected = Statistics {
            bytes: 10_000_000_000,
            packets: 3,
            queued_packets: 4,
            queued_bytes: 5,
            drops: 6,
            overlimits: 8,
        };
        assert_eq!(statistics, expected);
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let index = wire::u32_at(&payload, 4).unwrap_or_default();
            if let Some(mut qdisc) = Installed::read(&payload, index) {
                let _ = qdisc.tbf();
                qdisc.kind = Tbf::KIND.to_owned();
                let _ = qdisc.tbf();
            }
        }
    }
}
