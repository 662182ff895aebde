//! Request and response over UDP, at a fixed beat.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::Socket;

use crate::clock::{Instant, nanos};
use crate::socket::{self, is_about_the_past, is_timeout};
use crate::wire::datagram::{HEADER_SIZE, Header, Kind, MAX_SIZE};
use crate::{Dscp, Quantiles, TrafficError};

/// A latency test, to be [run](Self::run).
///
/// Requests are sent at the beat whether or not responses come: a test that waits for each response
/// would not see a stall but once, however long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTest {
    /// Where the [`Server`](crate::Server) is.
    pub server: SocketAddr,
    /// The payload of a request and of its response, in bytes, from [`HEADER_SIZE`] to
    /// [`MAX_SIZE`].
    pub size: usize,
    /// From one request to the next.
    pub interval: Duration,
    /// How long requests are sent.
    pub duration: Duration,
    /// A response that takes longer is lost.
    pub timeout: Duration,
    /// How the requests are marked; the responses are not.
    pub dscp: Dscp,
}

/// One response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// When it came, counted from the start of the test.
    pub at: Duration,
    /// How long after its request.
    pub round_trip: Duration,
}

/// What a latency test found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyReport {
    /// Requests sent.
    pub sent: u64,
    /// Responses that came in time.
    pub received: u64,
    /// Requests without a response in time.
    pub lost: u64,
    /// From a request to its response; `None` when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Quantiles>,
}

impl LatencyTest {
    /// 64 bytes every 5 ms for five seconds; a response may take one.
    pub const fn new(server: SocketAddr) -> Self {
        Self {
            server,
            size: 64,
            interval: Duration::from_millis(5),
            duration: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            dscp: Dscp::from_tos(0),
        }
    }

    /// Runs it, and calls `on_echo` for every response as it comes.
    ///
    /// # Errors
    ///
    /// A test that makes no sense, and a socket that can't be had. That nobody answers is no error
    /// but a report of losses.
    pub fn run(&self, mut on_echo: impl FnMut(Echo)) -> Result<LatencyReport, TrafficError> {
        if !(HEADER_SIZE..=MAX_SIZE).contains(&self.size) {
            return Err(TrafficError::InvalidTest(format!(
                "requests of {} bytes: they have {HEADER_SIZE} to {MAX_SIZE}",
                self.size
            )));
        }
        if self.interval.is_zero() {
            return Err(TrafficError::InvalidTest(
                "requests without an interval are a flood".to_owned(),
            ));
        }
        let socket = socket::datagrams_to(self.server, self.dscp)?;
        let start = Instant::now();
        // Tells this test's responses from those of one before on the same port.
        let session = start.nanos();
        let stop = AtomicBool::new(false);
        let beats = self.beats();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| self.send(&socket, session, start, beats, &stop));
            let trips = self.receive(&socket, session, start, beats, &mut on_echo);
            stop.store(true, Ordering::Relaxed);
            let sent = sender.join().unwrap_or_default();
            let trips = trips?;
            let received = trips.len() as u64;
            Ok(LatencyReport {
                sent,
                received,
                lost: sent.saturating_sub(received),
                round_trip: Quantiles::of(trips),
            })
        })
    }

    /// How many requests there are.
    fn beats(&self) -> u64 {
        (nanos(self.duration) / nanos(self.interval)).max(1)
    }

    /// Sends the requests, and returns how many.
    fn send(
        &self,
        socket: &Socket,
        session: u64,
        start: Instant,
        beats: u64,
        stop: &AtomicBool,
    ) -> u64 {
        let mut datagram = vec![0x5a; self.size];
        let mut due = start;
        for number in 0..beats {
            due.sleep();
            if stop.load(Ordering::Relaxed) {
                return number;
            }
            Header {
                kind: Kind::Request,
                session,
                number,
                sent: Instant::now(),
            }
            .write_to(&mut datagram);
            // A request that can't be sent is one that gets no response.
            let _ = socket.send_with_flags(&datagram, libc::MSG_DONTWAIT);
            due = due.after(self.interval);
        }
        beats
    }

    /// Receives the responses until all are in or the last one is late.
    fn receive(
        &self,
        socket: &Socket,
        session: u64,
        start: Instant,
        beats: u64,
        on_echo: &mut impl FnMut(Echo),
    ) -> Result<Vec<Duration>, TrafficError> {
        let mut buffer = vec![0; self.size];
        let mut trips = Vec::new();
        let mut answered = std::collections::BTreeSet::new();
        let end = start.after(self.duration).after(self.timeout);
        while (trips.len() as u64) < beats && Instant::now() < end {
            let arrival = match socket::receive(socket, &mut buffer) {
                Ok(arrival) => arrival,
                Err(error) if is_timeout(&error) || is_about_the_past(&error) => continue,
                Err(error) => return Err(TrafficError::socket("receive a response")(error)),
            };
            let now = Instant::now();
            let Some(header) = Header::decode(&buffer[..arrival.length]) else {
                continue;
            };
            let round_trip = now.since(header.sent);
            if header.kind == Kind::Response
                && header.session == session
                && round_trip <= self.timeout
                && answered.insert(header.number)
            {
                trips.push(round_trip);
                on_echo(Echo {
                    at: now.since(start),
                    round_trip,
                });
            }
        }
        Ok(trips)
    }
}

impl fmt::Display for LatencyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.round_trip {
            Some(round_trip) => write!(f, "latency: {round_trip}")?,
            None => f.write_str("latency: no response")?,
        }
        write!(f, " ({} of {} lost)", self.lost, self.sent)
    }
}
