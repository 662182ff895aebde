//! What can go wrong while measuring.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The server's address can't be had: it is taken, or not of this machine.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where the server was to listen.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// Nobody answers at the server's address.
    #[error(
        "cannot reach a meter at {address}: {source}; start one there with `netqos traffic serve`"
    )]
    Connect {
        /// Where the server should be.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The connection to the other end broke in the middle of a test.
    #[error("the connection to the meter at {peer} broke: {source}")]
    Lost {
        /// The other end.
        peer: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The other end did not answer in time: it is stuck, or the path between is.
    #[error("the meter at {peer} did not answer within {waited:?}")]
    Silent {
        /// The other end.
        peer: SocketAddr,
        /// How long it was waited for.
        waited: Duration,
    },
    /// What the other end says is not what this version of the protocol knows.
    #[error("{peer} is no netqos meter of this version: {problem}")]
    Protocol {
        /// The other end.
        peer: SocketAddr,
        /// What is wrong.
        problem: String,
    },
    /// The other end could not do its part, in its words.
    #[error("the meter at {peer} refused: {reason}")]
    Refused {
        /// The other end.
        peer: SocketAddr,
        /// Its words.
        reason: String,
    },
    /// Not one byte arrived: something between the two ends drops everything.
    #[error("nothing arrived within {waited:?}; is the path open in this direction?")]
    NothingArrived {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The kernel has no such congestion control, or does not let this user have it.
    #[error(
        "congestion control {name:?} can't be had: {source}; the kernel offers those in \
         /proc/sys/net/ipv4/tcp_available_congestion_control"
    )]
    CongestionControl {
        /// The name that was asked for.
        name: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A socket can't be made or set up.
    #[error("cannot {what}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// A test that can't be run as it is described.
    #[error("{0}")]
    InvalidTest(String),
}

impl TrafficError {
    /// Wraps the kernel's error with what was tried.
    pub(crate) const fn socket(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { what, source }
    }
}
