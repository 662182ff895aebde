//! The program of rules on a packet that nobody sent.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::{Result, sys};

/// What the program says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On to the next program.
    Next,
    /// It is dropped.
    Drop,
    /// It goes to another interface.
    Redirect,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// What the program says.
    pub verdict: Verdict,
    /// The packet, with what was written to it.
    pub packet: Vec<u8>,
    /// What one run took, on average.
    pub took: Duration,
}

/// Runs the program for tcx hooks on a packet (BPF_PROG_TEST_RUN) as the endpoint of this number,
/// so many times one after the other.
pub(super) fn run(
    program: BorrowedFd<'_>,
    endpoint: u16,
    packet: &[u8],
    repeat: u32,
) -> Result<Ran> {
    let (verdict, packet, nanos) = sys::test_run(program, endpoint.into(), packet, repeat)?;
    Ok(Ran {
        verdict: match verdict {
            2 => Verdict::Drop,
            7 => Verdict::Redirect,
            _ => Verdict::Next,
        },
        packet,
        took: Duration::from_nanos(nanos.into()),
    })
}
