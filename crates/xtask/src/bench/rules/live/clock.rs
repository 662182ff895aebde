//! What sending a packet takes, in processor time.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// A datagram's payload.
const PAYLOAD: [u8; 64] = [0; 64];
/// Datagrams between two looks at the clock.
const BATCH: u32 = 64;

/// Processor time of the calling thread, which stays on one processor, and of what the kernel does
/// there on its behalf.
pub struct Clock {
    /// The times of the kernel's thread for what a processor's interrupts left over.
    leftovers: PathBuf,
}

impl Clock {
    /// Keeps the calling thread, for good, on the last processor that it may use.
    pub fn pinned() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("ask for this thread's processors")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
        let cpu = last.context("a thread without processors")?;
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).context("stay on one processor")?;
        let name = format!("ksoftirqd/{cpu}");
        let processes = fs::read_dir("/proc").context("read /proc")?;
        let thread = processes
            .flatten()
            .map(|process| process.path())
            .find(|path| {
                fs::read_to_string(path.join("comm")).is_ok_and(|text| text.trim() == name)
            });
        let thread = thread.with_context(|| format!("{name} is not to be seen in /proc"))?;
        Ok(Self {
            leftovers: thread.join("schedstat"),
        })
    }

    /// Sends for so long; nanoseconds of processor time for each datagram.
    pub fn per_packet(&self, socket: &UdpSocket, length: Duration) -> Result<f64> {
        let begin = Instant::now();
        let before = self.nanos()?;
        let mut sent = 0;
        while begin.elapsed() < length {
            for _ in 0..BATCH {
                socket.send(&PAYLOAD)?;
            }
            sent += BATCH;
        }
        let took = self.nanos()? - before;
        Ok(took as f64 / f64::from(sent))
    }

    fn nanos(&self) -> Result<i64> {
        let path = &self.leftovers;
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let first = text
            .split_whitespace()
            .next()
            .and_then(|it| it.parse().ok());
        let leftovers: i64 = first.with_context(|| format!("{}: {text}", path.display()))?;
        let own = clock_gettime(ClockId::ThreadCPUTime);
        Ok(own.tv_sec * 1_000_000_000 + own.tv_nsec + leftovers)
    }
}
