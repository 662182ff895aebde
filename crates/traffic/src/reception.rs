//! What a receiver of datagrams notes, and its report.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Instant;
use crate::goodput::Arrivals;
use crate::pacer::Sent;
use crate::socket::Arrival;
use crate::udp::DscpSeen;
use crate::wire::datagram::Header;
use crate::{Dscp, Goodput, Quantiles, TrafficError, UdpReport};

/// Datagrams that are still in a queue when the sender is done: how long the receiver waits for
/// the next one, and how long altogether.
const QUIET: Duration = Duration::from_millis(300);
const DRAIN: Duration = Duration::from_secs(3);

/// One test's datagrams, filled by the thread that receives.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    pub(crate) arrivals: Arrivals,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    first: Option<Instant>,
    /// Skipped after the first datagram.
    omit: Duration,
    received: u64,
    /// One more than the highest number so far.
    expected: u64,
    out_of_order: u64,
    delays: Vec<Duration>,
    dscp_seen: BTreeMap<Dscp, u64>,
    /// Where a client that wants to be sent to was last heard of.
    client: Option<SocketAddr>,
}

impl Reception {
    pub(crate) fn new(omit: Duration) -> Self {
        Self {
            arrivals: Arrivals::default(),
            notes: Mutex::new(Notes {
                omit,
                ..Notes::default()
            }),
        }
    }

    /// Notes a measured datagram.
    pub(crate) fn note(&self, header: &Header, arrival: &Arrival) {
        let now = Instant::now();
        let mut notes = self.notes();
        let first = *notes.first.get_or_insert(now);
        notes.received += 1;
        if header.number < notes.expected {
            notes.out_of_order += 1;
        }
        notes.expected = notes.expected.max(header.number.saturating_add(1));
        if now.since(first) >= notes.omit {
            notes.delays.push(now.since(header.sent));
        }
        if let Some(dscp) = arrival.dscp {
            *notes.dscp_seen.entry(dscp).or_default() += 1;
        }
        drop(notes);
        self.arrivals.add(arrival.length as u64);
    }

    /// Notes where the client is.
    pub(crate) fn note_client(&self, client: SocketAddr) {
        self.notes().client = Some(client);
    }

    /// Where the client is, once it has been heard of.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.notes().client
    }

    /// Waits until nothing more comes.
    pub(crate) fn drain(&self) {
        let start = Instant::now();
        let mut last = (start, self.arrivals.total());
        while last.0.elapsed() < QUIET && start.elapsed() < DRAIN {
            std::thread::sleep(QUIET / 10);
            let total = self.arrivals.total();
            if total != last.1 {
                last = (Instant::now(), total);
            }
        }
    }

    /// The report, when all is in. `same_clock`: sender and receiver share their clock, so that
    /// delays mean something.
    pub(crate) fn report(&self, goodput: Goodput, sent: Sent, same_clock: bool) -> UdpReport {
        self.arrivals.end();
        let mut notes = self.notes();
        let delays = std::mem::take(&mut notes.delays);
        UdpReport {
            goodput,
            sent: sent.sent,
            held_back: sent.held_back,
            received: notes.received,
            lost: sent.sent.saturating_sub(notes.received),
            out_of_order: notes.out_of_order,
            delay: Quantiles::of(delays).filter(|_| same_clock),
            dscp_seen: std::mem::take(&mut notes.dscp_seen)
                .into_iter()
                .map(|(dscp, datagrams)| DscpSeen { dscp, datagrams })
                .collect(),
        }
    }

    /// Waits until the client was heard of.
    pub(crate) fn wait_for_client(&self, patience: Duration) -> Result<SocketAddr, TrafficError> {
        let asked = Instant::now();
        while asked.elapsed() < patience {
            if let Some(client) = self.client() {
                return Ok(client);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(TrafficError::NothingArrived { waited: patience })
    }

    /// A thread that panicked while it noted something leaves notes that are still of use.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
