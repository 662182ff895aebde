//! A control connection: messages over a TCP stream, with a deadline for each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::TrafficError;
use crate::clock::Instant;
use crate::socket::{POLL, is_timeout};
use crate::wire::message::Message;

/// No message is longer; a peer that sends more is not one of ours.
const MAX_LINE: usize = 1 << 20;

/// How long either end waits for an answer that should come at once. Generous: the answer may have
/// to pass a full queue of a slow link.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// One end of a control connection.
pub(crate) struct Control {
    stream: TcpStream,
    peer: SocketAddr,
    /// What has been read beyond the last whole line.
    buffer: Vec<u8>,
}

impl Control {
    /// Connects to a server.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, TrafficError> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .map_err(|source| TrafficError::Connect { address, source })?;
        Self::over(stream, address)
    }

    /// Speaks over a connection that is there.
    pub(crate) fn over(stream: TcpStream, peer: SocketAddr) -> Result<Self, TrafficError> {
        // Reads and writes come back now and then, so that nobody is stuck with a dead peer.
        stream
            .set_read_timeout(Some(POLL))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_nodelay(true))
            .map_err(TrafficError::socket("set up the control connection"))?;
        Ok(Self {
            stream,
            peer,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), TrafficError> {
        let mut line = serde_json::to_vec(message).map_err(|e| self.protocol(e.to_string()))?;
        line.push(b'\n');
        self.stream
            .write_all(&line)
            .map_err(|source| self.lost(source))
    }

    /// The next message if one comes within about [`POLL`].
    pub(crate) fn poll(&mut self) -> Result<Option<Message>, TrafficError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let message = serde_json::from_slice(&self.buffer[..end])
                    .map_err(|error| self.protocol(error.to_string()))?;
                self.buffer.drain(..=end);
                return Ok(Some(message));
            }
            if self.buffer.len() > MAX_LINE {
                return Err(self.protocol("a line without end".to_owned()));
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if is_timeout(&error) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// The next message, which has to come within [`PATIENCE`].
    pub(crate) fn receive(&mut self) -> Result<Message, TrafficError> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(message) = self.poll()? {
                return Ok(message);
            }
        }
        Err(TrafficError::Silent {
            peer: self.peer,
            waited: PATIENCE,
        })
    }

    /// Fails when the other end has hung up; does not wait.
    pub(crate) fn check_alive(&self) -> Result<(), TrafficError> {
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match SockRef::from(&self.stream).recv_with_flags(&mut byte, flags) {
            Ok(0) => Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if !is_timeout(&error) => Err(self.lost(error)),
            _ => Ok(()),
        }
    }

    /// From now on the connection carries measured bytes; so many of them have been read already.
    pub(crate) fn into_stream(self) -> (TcpStream, u64) {
        (self.stream, self.buffer.len() as u64)
    }

    /// What a message that ends the test, or makes no sense here, is as an error.
    pub(crate) fn unexpected(&self, message: Message) -> TrafficError {
        match message {
            Message::Refused { reason } => TrafficError::Refused {
                peer: self.peer,
                reason,
            },
            Message::NothingArrived { waited } => TrafficError::NothingArrived { waited },
            other => self.protocol(format!("unexpected message {other:?}")),
        }
    }

    fn lost(&self, source: io::Error) -> TrafficError {
        TrafficError::Lost {
            peer: self.peer,
            source,
        }
    }

    fn protocol(&self, problem: String) -> TrafficError {
        TrafficError::Protocol {
            peer: self.peer,
            problem,
        }
    }
}
