//! Traffic and latency meters: what a network really carries, measured where it arrives.
//!
//! ```text
//!   client (TcpTest, UdpTest, LatencyTest)                    Server, one address, TCP and UDP
//!     control ──────── one JSON message per line (TCP) ────────► session
//!     streams ──────── TCP, the way that is measured ──────────  sink or source
//!     datagrams ────── UDP: number, time of sending, DSCP ─────  sink or source, echo
//! ```
//!
//! - [`TcpTest`]: goodput of some streams, up or down, in intervals of 100 ms.
//! - [`UdpTest`]: datagrams at a given rate: goodput, losses, one-way delay, and the DSCP that
//!   arrived.
//! - [`LatencyTest`]: request and response at a fixed beat, whether or not the last response came,
//!   so that a stall counts for every request that fell into it.
//!
//! Rates are of payload, without any header, and are counted by the receiver with its own clock
//! from the first byte on; the sender only says how many datagrams it sent. Threads and blocking
//! sockets: a thread keeps the network namespace that it was started in, so that a [`Server`] bound
//! in a pod's namespace serves that pod from inside any process.
#![deny(unsafe_code)]

mod clock;
mod control;
mod dscp;
mod error;
mod flow;
mod goodput;
mod latency;
mod pacer;
mod quantiles;
mod reception;
mod server;
mod socket;
mod tcp;
mod udp;
mod wire;

pub use dscp::{Dscp, DscpError};
pub use error::TrafficError;
pub use flow::Flow;
pub use goodput::{Goodput, INTERVAL, Sample};
pub use latency::{Echo, LatencyReport, LatencyTest};
pub use quantiles::Quantiles;
pub use server::{DEFAULT_PORT, Server};
pub use tcp::{MAX_STREAMS, TcpReport, TcpTest};
pub use udp::{DscpSeen, UdpReport, UdpTest};
pub use wire::datagram::{HEADER_SIZE, MAX_SIZE};
