//! A way that takes time, for kernels without netem.
//!
//! A TUN device on the node and one in the pod, and between them two threads that hand on what
//! comes out of the one to the other after a fixed time. Large packets pass whole, as they do
//! between veths (the devices take and give the virtio header), so that a gigabit costs little.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netqos_netlink::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Node, Pod};

/// The largest that may be read: a GSO packet and the virtio header.
const LARGEST: usize = 65_536 + 64;
/// What is read before what is due is written again.
const BATCH: usize = 64;
/// How often a thread that waits looks whether it should end.
const IDLE: Duration = Duration::from_millis(50);
/// Packets that may wait to be read: none is lost while the threads are not running.
const QUEUE: &str = "20000";
/// Checksums and TCP segments, both families, may be left to the reader (`TUN_F_CSUM`, `_TSO4`,
/// `_TSO6`).
const OFFLOADS: libc::c_ulong = 0x1 | 0x2 | 0x4;

/// The two threads; they end when it is dropped.
#[derive(Debug)]
pub struct DelayLine {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// A pod that every packet takes this long to reach, and as long to come back from. Its
    /// `eth0` is a TUN device, as is the end on the node; it cannot be limited or ruled.
    pub fn far_pod(&self, name: &str, one_way: Duration) -> Result<(Pod, DelayLine)> {
        let pod = self.pod_by(name, format!("tun-{name}"), |pod, outside| {
            let near = tun(outside)?;
            let far = {
                let _inside = Namespace::open(pod.netns())?.enter()?;
                tun("eth0")?
            };
            self.run("ip", &["link", "set", outside, "txqueuelen", QUEUE])?;
            pod.run(self, "ip", &["link", "set", "eth0", "txqueuelen", QUEUE])?;
            Ok((near, far))
        });
        let (pod, (near, far)) = pod?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            let is_over = Arc::clone(&is_over);
            let relay = move || relay(&from, &to, one_way, &is_over);
            threads.push(thread::Builder::new().name("delay".into()).spawn(relay)?);
        }
        Ok((pod, DelayLine { is_over, threads }))
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A TUN device in the calling thread's namespace, not up.
fn tun(name: &str) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .context("open /dev/net/tun")?;
    // SAFETY: all zeroes is an ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: the kernel reads and writes one ifreq.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    ok(made).with_context(|| format!("make TUN device {name}"))?;
    // SAFETY: the argument is a number.
    let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, OFFLOADS) };
    ok(set).with_context(|| format!("set offloads of {name}"))?;
    Ok(file)
}

fn ok(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Hands on packets, each when it is due, until it is over or a device is gone.
fn relay(mut from: &File, mut to: &File, delay: Duration, is_over: &AtomicBool) {
    // A timer may else be late by 50 µs.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut buffer = vec![0; LARGEST];
    let mut on_the_way: VecDeque<(Instant, Box<[u8]>)> = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        let mut is_empty = false;
        for _ in 0..BATCH {
            match from.read(&mut buffer) {
                Ok(length) => {
                    on_the_way.push_back((Instant::now() + delay, buffer[..length].into()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    is_empty = true;
                    break;
                }
                // A device that is not up yet, or gone.
                Err(_) => {
                    is_empty = true;
                    thread::sleep(Duration::from_millis(1));
                    break;
                }
            }
        }
        while let Some((due, packet)) = on_the_way.front() {
            if *due > Instant::now() {
                break;
            }
            // What cannot be written would not have arrived on a real way either.
            let _ = to.write(packet);
            on_the_way.pop_front();
        }
        if is_empty {
            let due = on_the_way.front().map(|(due, _)| *due);
            let wait = due.map_or(IDLE, |due| due.saturating_duration_since(Instant::now()));
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: wait.min(IDLE).as_nanos() as i64,
            };
            let _ = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&wait));
        }
    }
}
