//! Processor time of programs under test.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};

/// The processor time of all children of this process that have ended and were waited for.
pub fn children_cpu() -> Result<Duration> {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to a live value of the right type.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    if result != 0 {
        return Err(io::Error::last_os_error()).context("ask for the usage of children");
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}
