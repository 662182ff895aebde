//! One request, one answer.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket as Wire, SocketAddr};

use crate::wire::{self, Message, Request};
use crate::{Error, Namespace, Result};

/// Room for the largest datagram that the kernel sends in a dump.
const RECEIVE_BUFFER: usize = 32 * 1024;
/// A dump that something changed meanwhile is asked for again this often.
const DUMP_RETRIES: usize = 8;
/// Attributes of an error's acknowledgement (`enum nlmsgerr_attrs`).
const NLMSGERR_ATTR_MSG: u16 = 1;

/// The bits of a port ID that number the sockets of this process. The other bits are common to them, and identify
/// notifications of this process's own requests. (libnl splits port IDs in the same way, with the PID, which
/// is not unique among containers.)
const NUMBER: u32 = 0xffc0_0000;

/// The common bits of this process's port IDs.
fn own_part() -> u32 {
    static PART: OnceLock<u32> = OnceLock::new();
    *PART.get_or_init(|| RandomState::new().build_hasher().finish() as u32 & !NUMBER)
}

/// Returns true if the port ID is of a socket of this process.
pub(crate) fn is_own(port: u32) -> bool {
    // (The kernel has port 0, and numbers no socket of its own choice.)
    port & NUMBER != 0 && port & !NUMBER == own_part()
}

/// Binds a socket to a port ID of this process.
fn bind(wire: &mut Wire) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let step = 1 << NUMBER.trailing_zeros();
    for _ in 0..u32::MAX / step {
        let number = NEXT.fetch_add(step, Ordering::Relaxed) & NUMBER;
        if number == 0 {
            continue;
        }
        match wire.bind(&SocketAddr::new(own_part() | number, 0)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    wire.bind_auto().map(drop)
}

/// What a request does, in words.
pub(crate) type Doing<'d> = &'d dyn Fn() -> String;

/// A synchronous rtnetlink socket. It acts in the network namespace in which it was opened,
/// wherever its user is later.
#[derive(Debug)]
pub struct Socket {
    wire: Wire,
    sequence: u32,
    received: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self> {
        Self::speaking(NETLINK_ROUTE)
    }

    /// Opens one that speaks another of netlink's protocols.
    pub(crate) fn speaking(protocol: isize) -> Result<Self> {
        Self::connect(protocol).map_err(|source| Error::Socket {
            doing: "open".to_owned(),
            source,
        })
    }

    /// Opens a socket in this network namespace; the calling thread stays where it is.
    pub fn open_in(namespace: &Namespace) -> Result<Self> {
        let _inside = namespace.enter()?;
        Self::open()
    }

    fn connect(protocol: isize) -> io::Result<Self> {
        let mut wire = Wire::new(protocol)?;
        bind(&mut wire)?;
        wire.connect(&SocketAddr::new(0, 0))?;
        // All three are refinements: kernels before 4.12, 4.3 and 4.20 lack them.
        let _ = wire.set_ext_ack(true);
        let _ = wire.set_cap_ack(true);
        let _ = wire.set_netlink_get_strict_chk(true);
        Ok(Self {
            wire,
            sequence: 0,
            received: Vec::with_capacity(RECEIVE_BUFFER),
        })
    }

    /// Sends a request that is answered by "done" or "refused".
    pub(crate) fn acknowledged(&mut self, doing: Doing<'_>, request: Request) -> Result<()> {
        let sequence = self.send(doing, [request])?;
        self.answers(doing, sequence, |_| ()).map(drop)
    }

    /// Sends requests that are granted together or not at all. One of them asks to be
    /// acknowledged; any may be refused.
    pub(crate) fn transacted(
        &mut self,
        doing: Doing<'_>,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<()> {
        let sequences = self.send(doing, requests)?;
        self.answers(doing, sequences, |_| ()).map(drop)
    }

    /// Sends a request that is answered by one message, of which `read` is the result.
    pub(crate) fn fetched<T>(
        &mut self,
        doing: Doing<'_>,
        request: Request,
        read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T> {
        let found = self.fetched_if_any(doing, request, read)?;
        found.ok_or_else(|| Error::Malformed {
            doing: doing(),
            what: "no message that could be read".to_owned(),
        })
    }

    /// Sends a request that is answered by one message or none, of which `read` is the result.
    pub(crate) fn fetched_if_any<T>(
        &mut self,
        doing: Doing<'_>,
        request: Request,
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let sequence = self.send(doing, [request])?;
        let mut found = None;
        self.answers(doing, sequence, |message| found = read(message.payload))?;
        Ok(found)
    }

    /// Sends a request for a list, and reads each of its messages; those for which `read` gives
    /// nothing are left out. A list that changed while it was read is read again.
    pub(crate) fn dumped<T>(
        &mut self,
        doing: Doing<'_>,
        request: &Request,
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        for _ in 0..DUMP_RETRIES {
            found.clear();
            let sequence = self.send(doing, [request.clone()])?;
            let whole = self.answers(doing, sequence, |message| {
                found.extend(read(message.payload))
            })?;
            if whole {
                return Ok(found);
            }
        }
        // Busy enough to change during each of them: the last is as good as any.
        Ok(found)
    }

    /// Sends requests in one datagram; the numbers that their answers will bear.
    fn send(
        &mut self,
        doing: Doing<'_>,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<RangeInclusive<u32>> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.append(&mut request.finish(self.sequence));
        }
        match self.wire.send(&bytes, 0) {
            Ok(_) => Ok(first..=self.sequence),
            Err(source) => Err(Error::Socket {
                doing: doing(),
                source,
            }),
        }
    }

    /// Reads answers to these requests until the last; says whether they are consistent.
    fn answers(
        &mut self,
        doing: Doing<'_>,
        sequences: RangeInclusive<u32>,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<bool> {
        let mut consistent = true;
        loop {
            self.received.clear();
            match self.wire.recv(&mut self.received, 0) {
                Ok(_) => {}
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::Socket {
                        doing: doing(),
                        source,
                    });
                }
            }
            let mut rest = &self.received[..];
            while let Some((message, next)) = wire::split_message(rest) {
                rest = next;
                if !sequences.contains(&message.sequence) {
                    continue;
                }
                consistent &= i32::from(message.flags) & libc::NLM_F_DUMP_INTR == 0;
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        return outcome(doing, &message).map(|()| consistent);
                    }
                    _ => each(&message),
                }
                // One that is not part of a list is followed by an acknowledgement, if asked for;
                // every request of this crate asks.
            }
        }
    }
}

/// What the last message of an answer says.
fn outcome(doing: Doing<'_>, message: &Message<'_>) -> Result<()> {
    let errno = wire::u32_at(message.payload, 0).unwrap_or(0) as i32;
    if errno == 0 {
        return Ok(());
    }
    // An error holds the header of the request that it answers, then attributes; "done" has none.
    let after = if i32::from(message.kind) == libc::NLMSG_ERROR {
        4 + wire::HEADER
    } else {
        4
    };
    let attributes = message.payload.get(after..).unwrap_or_default();
    let extack = wire::attribute(attributes, NLMSGERR_ATTR_MSG).map(wire::text);
    Err(Error::Refused {
        doing: doing(),
        errno: -errno,
        extack,
    })
}
