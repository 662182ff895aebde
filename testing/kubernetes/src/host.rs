//! The network namespace of the process, as opposed to that of a test's thread.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespace of the main thread.
const MAIN: &str = "/proc/self/ns/net";
const OWN: &str = "/proc/thread-self/ns/net";

/// Returns true if the calling thread is in the network namespace of the process.
///
/// # Errors
/// Returns an error if `/proc` is not mounted.
pub(crate) fn is_here() -> io::Result<bool> {
    Ok(fs::read_link(MAIN)? == fs::read_link(OWN)?)
}

/// Moves the calling thread into the network namespace of the process.
///
/// # Errors
/// Returns an error if the process lacks `CAP_SYS_ADMIN`.
pub(crate) fn enter() -> io::Result<()> {
    if is_here()? {
        return Ok(());
    }
    let namespace = File::open(MAIN)?;
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}
