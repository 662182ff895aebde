//! The part of a rate that arrives while the machine is this busy.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use rustix::net::sockopt::set_tcp_congestion;

use crate::Node;

/// The rate of the TBF, and what of it is payload of TCP: 1,448 of 1,514 bytes.
const RATE: &str = "20mbit";
const PAYLOAD: f64 = 20e6 * 1448.0 / 1514.0;

/// The least of the baseline's part that a limit must reach in half a second, and the most of a limit that may pass.
const LEAST: f64 = 0.6;
const MOST: f64 = 1.1;

/// A TCP connection through a TBF of `tc`, beside what is measured, until it is dropped.
#[derive(Debug)]
pub struct Baseline {
    ends: [TcpStream; 2],
    received: Arc<AtomicU64>,
}

impl Baseline {
    /// Makes two pods with a TBF between them, and sends from one to the other.
    ///
    /// # Errors
    /// Returns an error if a command fails, or a socket cannot be made.
    pub fn new(node: &Node) -> Result<Self> {
        let (from, to) = (node.pod("tbf-from")?, node.pod("tbf-to")?);
        let link = to.host_link();
        let tbf = format!("qdisc add dev {link} root tbf rate {RATE} burst 5k latency 25ms");
        node.run("tc", &tbf.split(' ').collect::<Vec<_>>())?;
        let listener = to.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
        let address = SocketAddr::new(to.address().parse()?, listener.local_addr()?.port());
        let mut sender = from.inside(|| TcpStream::connect(address))??;
        set_tcp_congestion(&sender, "cubic")?;
        let (mut receiver, _) = listener.accept()?;
        let ends = [sender.try_clone()?, receiver.try_clone()?];
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        thread::spawn(move || while sender.write_all(&[0; 1 << 16]).is_ok() {});
        thread::spawn(move || {
            let mut chunk = [0; 1 << 16];
            while let Ok(read @ 1..) = receiver.read(&mut chunk) {
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { ends, received })
    }

    /// Returns the result of `act`, and the parts of a limit that a rate measured meanwhile may be. A busy machine takes
    /// as much from the baseline, and adds nothing.
    pub fn beside<T>(&self, act: impl FnOnce() -> T) -> (T, Range<f64>) {
        let received = || self.received.load(Ordering::Relaxed);
        let (began, before) = (Instant::now(), received());
        let done = act();
        let bits = (received() - before) as f64 * 8.0;
        let share = bits / began.elapsed().as_secs_f64() / PAYLOAD;
        (done, LEAST * share.min(1.0)..MOST)
    }

    /// Asserts that a rate is limited to this one.
    ///
    /// # Panics
    /// Panics if it is above the limit, or if the baseline reaches a larger part of its own.
    pub fn assert_limited(&self, case: impl Display, limit: f64, measure: impl FnOnce() -> f64) {
        let (rate, parts) = self.beside(measure);
        let part = rate / limit;
        let is = format!("{case}: {part:.3} of {limit:.0} bit/s, of which {parts:.2?} may be");
        eprintln!("{is}");
        assert!(parts.contains(&part), "{is}");
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}
