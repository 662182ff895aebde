//! TCP goodput: some streams, one way.

mod stream;

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use netqos_core::BitRate;
use serde::{Deserialize, Serialize};

use crate::clock::Instant;
use crate::control::{Control, PATIENCE};
use crate::goodput::{Arrivals, INTERVAL, Window};
use crate::wire::message::{Message, TcpRequest};
use crate::{Flow, Goodput, Sample, TrafficError, socket};

pub(crate) use stream::{pump, sink};

/// The most streams of one test.
pub const MAX_STREAMS: u16 = 128;

/// A TCP test, to be [run](Self::run).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpTest {
    /// Where the [`Server`](crate::Server) is.
    pub server: SocketAddr,
    /// Which way the bytes go.
    pub flow: Flow,
    /// How many connections carry them, 1 to 128.
    pub streams: u16,
    /// The warm-up after the first byte, which is sampled and not counted.
    pub omit: Duration,
    /// How long is counted after that.
    pub duration: Duration,
    /// The sender's congestion control; `None`: the kernel's default.
    pub congestion_control: Option<String>,
    /// How often what has arrived is looked at: at most every millisecond.
    pub interval: Duration,
}

/// What a TCP test found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpReport {
    /// Which way the bytes went.
    pub flow: Flow,
    /// How many connections carried them.
    pub streams: u16,
    /// The congestion control of the sender, when the client was the sender or chose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// What arrived, all streams together.
    pub goodput: Goodput,
}

impl TcpTest {
    /// An upload by one stream: five seconds, the first of them not counted.
    pub const fn new(server: SocketAddr) -> Self {
        Self {
            server,
            flow: Flow::Upload,
            streams: 1,
            omit: Duration::from_secs(1),
            duration: Duration::from_secs(4),
            congestion_control: None,
            interval: INTERVAL,
        }
    }

    /// Runs it, and calls `on_sample` for every interval as soon as it is known.
    ///
    /// # Errors
    ///
    /// See [`TrafficError`]; there is no report of half a test.
    pub fn run(&self, on_sample: impl FnMut(Sample)) -> Result<TcpReport, TrafficError> {
        if self.streams == 0 || self.streams > MAX_STREAMS {
            return Err(TrafficError::InvalidTest(format!(
                "{} streams: a test has 1 to {MAX_STREAMS}",
                self.streams
            )));
        }
        if self.duration.is_zero() {
            return Err(TrafficError::InvalidTest(
                "a test of no duration measures nothing".to_owned(),
            ));
        }
        let mut control = Control::connect(self.server)?;
        control.send(&Message::Tcp(TcpRequest {
            flow: self.flow,
            omit: self.omit,
            duration: self.duration,
            congestion_control: self.congestion_control.clone(),
            interval: self.interval,
        }))?;
        let session = match control.receive()? {
            Message::Ready { session, .. } => session,
            other => return Err(control.unexpected(other)),
        };
        match self.flow {
            Flow::Upload => self.upload(control, session, on_sample),
            Flow::Download => self.download(control, session, on_sample),
        }
    }

    fn upload(
        &self,
        mut control: Control,
        session: u64,
        mut on_sample: impl FnMut(Sample),
    ) -> Result<TcpReport, TrafficError> {
        let streams = self.connect(session)?;
        let congestion_control = streams.first().and_then(socket::congestion_control);
        let arrivals = Arrivals::default();
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&arrivals);
            for stream in &streams {
                let arrivals = &arrivals;
                scope.spawn(move || pump(stream, || arrivals.is_over()));
            }
            let silent_after = PATIENCE.max(self.omit);
            let mut heard = Instant::now();
            while heard.elapsed() < silent_after {
                match control.poll()? {
                    Some(Message::Sample(sample)) => on_sample(sample),
                    Some(Message::TcpResult(goodput)) => {
                        return Ok(self.report(congestion_control, goodput));
                    }
                    Some(other) => return Err(control.unexpected(other)),
                    None => continue,
                }
                heard = Instant::now();
            }
            Err(TrafficError::Silent {
                peer: self.server,
                waited: silent_after,
            })
        })
    }

    fn download(
        &self,
        control: Control,
        session: u64,
        mut on_sample: impl FnMut(Sample),
    ) -> Result<TcpReport, TrafficError> {
        let streams = self.connect(session)?;
        let arrivals = Arrivals::default();
        let window = self.window();
        let goodput = std::thread::scope(|scope| {
            let _end = EndOnDrop(&arrivals);
            for stream in &streams {
                let arrivals = &arrivals;
                scope.spawn(move || sink(stream, arrivals));
            }
            arrivals.measure(window, |sample| {
                sample.map(&mut on_sample);
                Ok(())
            })
        });
        let goodput = goodput.map_err(|error| the_servers_reason(control, error))?;
        Ok(self.report(self.congestion_control.clone(), goodput))
    }

    fn connect(&self, session: u64) -> Result<Vec<TcpStream>, TrafficError> {
        (0..self.streams)
            .map(|_| {
                let mut stream = Control::connect(self.server)?;
                stream.send(&Message::Stream { session })?;
                let (stream, _) = stream.into_stream();
                if let (Flow::Upload, Some(name)) = (self.flow, &self.congestion_control) {
                    socket::set_congestion_control(&stream, name)?;
                }
                Ok(stream)
            })
            .collect()
    }

    const fn window(&self) -> Window {
        Window {
            omit: self.omit,
            duration: self.duration,
            interval: self.interval,
        }
    }

    const fn report(&self, congestion_control: Option<String>, goodput: Goodput) -> TcpReport {
        TcpReport {
            flow: self.flow,
            streams: self.streams,
            congestion_control,
            goodput,
        }
    }
}

impl TcpReport {
    /// The goodput's rate.
    pub const fn rate(&self) -> BitRate {
        self.goodput.rate
    }
}

impl fmt::Display for TcpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tcp {}: {} ({} in {:.2?}, {} stream{})",
            self.flow,
            self.goodput.rate,
            self.goodput.received,
            self.goodput.elapsed,
            self.streams,
            if self.streams == 1 { "" } else { "s" }
        )
    }
}

/// Ends the streams' threads however the test ends, since the scope waits for them.
struct EndOnDrop<'a>(&'a Arrivals);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What the server has to say when nothing came from it; else what is known here.
fn the_servers_reason(mut control: Control, error: TrafficError) -> TrafficError {
    match control.poll() {
        Ok(Some(message @ Message::Refused { .. })) => control.unexpected(message),
        _ => error,
    }
}
