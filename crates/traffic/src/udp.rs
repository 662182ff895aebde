//! UDP at a given rate: what arrives of it, when, and how it is marked then.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netqos_core::BitRate;
use serde::{Deserialize, Serialize};
use socket2::Socket;

use crate::clock::{Instant, Machine};
use crate::control::{Control, PATIENCE};
use crate::goodput::{INTERVAL, Window};
use crate::pacer::{Schedule, Sent};
use crate::reception::Reception;
use crate::socket::{self, is_about_the_past, is_timeout};
use crate::wire::datagram::{HEADER_SIZE, Header, Kind, MAX_SIZE};
use crate::wire::message::{Message, UdpRequest};
use crate::{Dscp, Flow, Goodput, Quantiles, Sample, TrafficError};

/// The sender goes on a bit longer, since the receiver's clock starts with the first arrival.
const MARGIN: Duration = Duration::from_millis(200);

/// A UDP test, to be [run](Self::run).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpTest {
    /// Where the [`Server`](crate::Server) is.
    pub server: SocketAddr,
    /// Which way the datagrams go.
    pub flow: Flow,
    /// How much payload is sent per second.
    pub rate: BitRate,
    /// The payload of one datagram, in bytes, from [`HEADER_SIZE`] to [`MAX_SIZE`].
    pub size: usize,
    /// The warm-up after the first datagram, which is sampled and not counted in goodput and
    /// delay. Losses are of the whole test.
    pub omit: Duration,
    /// How long is counted after that.
    pub duration: Duration,
    /// How the sender marks the datagrams.
    pub dscp: Dscp,
}

/// What a UDP test found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UdpReport {
    /// What arrived.
    pub goodput: Goodput,
    /// Datagrams that the sender's kernel took.
    pub sent: u64,
    /// Datagrams that were due, and that the sender's kernel or processor could not take: they are
    /// neither sent nor lost.
    pub held_back: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that were sent and did not arrive.
    pub lost: u64,
    /// Datagrams that arrived after one that was sent later.
    pub out_of_order: u64,
    /// From sending to receiving; `None` when the two ends don't share a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Quantiles>,
    /// The marks that arrived, in the order of their numbers.
    pub dscp_seen: Vec<DscpSeen>,
}

/// How many datagrams arrived with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DscpSeen {
    /// The mark.
    pub dscp: Dscp,
    /// Datagrams that carried it.
    pub datagrams: u64,
}

impl UdpTest {
    /// An upload at this rate in datagrams of 1,400 bytes: five seconds, the first of them not
    /// counted.
    pub const fn new(server: SocketAddr, rate: BitRate) -> Self {
        Self {
            server,
            flow: Flow::Upload,
            rate,
            size: 1400,
            omit: Duration::from_secs(1),
            duration: Duration::from_secs(4),
            dscp: Dscp::from_tos(0),
        }
    }

    /// Runs it, and calls `on_sample` for every interval as soon as it is known.
    ///
    /// # Errors
    ///
    /// See [`TrafficError`]; there is no report of half a test.
    pub fn run(&self, on_sample: impl FnMut(Sample)) -> Result<UdpReport, TrafficError> {
        check(self.rate, self.size, self.duration)?;
        let mut control = Control::connect(self.server)?;
        let socket = socket::datagrams_to(self.server, self.dscp)?;
        let machine = Machine::this();
        control.send(&Message::Udp(UdpRequest {
            flow: self.flow,
            omit: self.omit,
            duration: self.duration,
            rate: self.rate,
            size: self.size,
            dscp: self.dscp,
            machine: machine.clone(),
        }))?;
        let (session, server) = match control.receive()? {
            Message::Ready { session, machine } => (session, machine),
            other => return Err(control.unexpected(other)),
        };
        match self.flow {
            Flow::Upload => self.upload(control, &socket, session, on_sample),
            Flow::Download => {
                let same_clock = machine.is_some() && machine == server;
                self.download(control, &socket, session, same_clock, on_sample)
            }
        }
    }

    fn upload(
        &self,
        mut control: Control,
        socket: &Socket,
        session: u64,
        mut on_sample: impl FnMut(Sample),
    ) -> Result<UdpReport, TrafficError> {
        let schedule = schedule(session, self.rate, self.size, self.omit + self.duration);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = SetOnDrop(&stop);
            let sender = scope.spawn(|| schedule.run(|bytes| send(socket, bytes), &stop));
            let mut sender = Some(sender);
            let mut heard = Instant::now();
            while heard.elapsed() < PATIENCE {
                if let Some(done) = sender.take_if(|thread| thread.is_finished()) {
                    let Sent { sent, held_back } = done.join().unwrap_or_else(|_| {
                        Err(TrafficError::InvalidTest("the sender panicked".to_owned()))
                    })?;
                    control.send(&Message::Finished { sent, held_back })?;
                }
                match control.poll()? {
                    Some(Message::Sample(sample)) => on_sample(sample),
                    Some(Message::UdpResult(report)) => return Ok(*report),
                    Some(other) => return Err(control.unexpected(other)),
                    None => continue,
                }
                heard = Instant::now();
            }
            Err(TrafficError::Silent {
                peer: self.server,
                waited: PATIENCE,
            })
        })
    }

    fn download(
        &self,
        mut control: Control,
        socket: &Socket,
        session: u64,
        same_clock: bool,
        mut on_sample: impl FnMut(Sample),
    ) -> Result<UdpReport, TrafficError> {
        let reception = Reception::new(self.omit);
        let window = Window {
            interval: INTERVAL,
            omit: self.omit,
            duration: self.duration,
        };
        std::thread::scope(|scope| {
            let _over = EndOnDrop(&reception);
            scope.spawn(|| collect(socket, session, &reception));
            let measured = reception.arrivals.measure(window, |sample| {
                sample.map(&mut on_sample);
                Ok(())
            });
            let (goodput, message) = match (measured, control.poll()) {
                // The sender says that it is done a bit after the window, and is asked for it where it has not yet.
                (Ok(goodput), Ok(None)) => (goodput, control.receive()?),
                (Ok(goodput), Ok(Some(message))) => (goodput, message),
                (Err(_), Ok(Some(other))) => return Err(control.unexpected(other)),
                (Err(error), _) | (_, Err(error)) => return Err(error),
            };
            let Message::Finished { sent, held_back } = message else {
                return Err(control.unexpected(message));
            };
            reception.drain();
            Ok(reception.report(goodput, Sent { sent, held_back }, same_clock))
        })
    }
}

impl UdpReport {
    /// The part of the datagrams that did not arrive, 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        self.lost as f64 / self.sent as f64
    }
}

impl fmt::Display for UdpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "udp: {} received, {} of {} datagrams lost ({:.1} %)",
            self.goodput.rate,
            self.lost,
            self.sent,
            self.loss() * 100.0
        )?;
        if let Some(delay) = &self.delay {
            write!(f, ", delay {delay}")?;
        }
        for DscpSeen { dscp, datagrams } in &self.dscp_seen {
            write!(f, ", DSCP {dscp} on {datagrams}")?;
        }
        Ok(())
    }
}

/// What both ends demand of a test.
pub(crate) fn check(rate: BitRate, size: usize, duration: Duration) -> Result<(), TrafficError> {
    let problem = if rate.bits_per_second() == 0 {
        "a test at no rate sends nothing".to_owned()
    } else if !(HEADER_SIZE..=MAX_SIZE).contains(&size) {
        format!("datagrams of {size} bytes: they have {HEADER_SIZE} to {MAX_SIZE}")
    } else if duration.is_zero() {
        "a test of no duration measures nothing".to_owned()
    } else {
        return Ok(());
    };
    Err(TrafficError::InvalidTest(problem))
}

/// The sender's side of a test that is counted for `counted`.
pub(crate) const fn schedule(
    session: u64,
    rate: BitRate,
    size: usize,
    counted: Duration,
) -> Schedule {
    Schedule {
        session,
        rate,
        size,
        duration: counted.saturating_add(MARGIN),
    }
}

/// Sends without waiting for room: a sender that waits would hide how much is lost.
fn send(socket: &Socket, bytes: &[u8]) -> std::io::Result<usize> {
    socket.send_with_flags(bytes, libc::MSG_DONTWAIT)
}

/// Receives a session's datagrams until it is over, and calls for them until the first one comes.
fn collect(socket: &Socket, session: u64, reception: &Reception) {
    let mut buffer = vec![0; MAX_SIZE];
    while !reception.arrivals.is_over() {
        if reception.arrivals.total() == 0 {
            let hello = Header {
                kind: Kind::Hello,
                session,
                number: 0,
                sent: Instant::now(),
            };
            // A call that is lost is made again.
            let _ = socket.send(&hello.encode());
        }
        match socket::receive(socket, &mut buffer) {
            Ok(arrival) => match Header::decode(&buffer[..arrival.length]) {
                Some(header) if header.kind == Kind::Data && header.session == session => {
                    reception.note(&header, &arrival);
                }
                _ => {}
            },
            Err(error) if is_timeout(&error) || is_about_the_past(&error) => {}
            Err(_) => break,
        }
    }
}

/// Stops the sender however the test ends, since the scope waits for it.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The same for a receiver.
struct EndOnDrop<'a>(&'a Reception);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.arrivals.end();
    }
}
