//! One connection: a test's control connection, or one of its streams.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Shared;
use super::sessions::TcpSession;
use crate::clock::Machine;
use crate::control::{Control, PATIENCE};
use crate::goodput::{Arrivals, INTERVAL, Window};
use crate::pacer::Sent;
use crate::reception::Reception;
use crate::socket::{self, Mark};
use crate::wire::message::{Message, TcpRequest, UdpRequest};
use crate::{Flow, Sample, TrafficError, tcp, udp};

/// The server's side of one connection.
pub(super) struct Session<'a> {
    shared: &'a Shared,
    peer: SocketAddr,
}

impl<'a> Session<'a> {
    pub(super) const fn new(shared: &'a Shared, peer: SocketAddr) -> Self {
        Self { shared, peer }
    }

    /// Does what the first message asks for.
    pub(super) fn serve(&self, stream: TcpStream) -> Result<(), TrafficError> {
        let mut control = Control::over(stream, self.peer)?;
        match control.receive()? {
            Message::Tcp(request) => self.tcp(&mut control, request),
            Message::Udp(request) => self.udp(&mut control, &request),
            Message::Stream { session } => {
                self.stream(control, session);
                Ok(())
            }
            other => Err(control.unexpected(other)),
        }
    }

    fn tcp(&self, control: &mut Control, request: TcpRequest) -> Result<(), TrafficError> {
        let (id, session) = self.shared.sessions.add_tcp(TcpSession {
            flow: request.flow,
            arrivals: Arrivals::default(),
            congestion_control: request.congestion_control,
        });
        let window = Window {
            omit: request.omit,
            duration: request.duration,
            interval: request.interval,
        };
        let result = self.tcp_session(control, id, &session, window);
        self.shared.sessions.remove_tcp(id);
        result
    }

    fn tcp_session(
        &self,
        control: &mut Control,
        id: u64,
        session: &TcpSession,
        window: Window,
    ) -> Result<(), TrafficError> {
        if let (Flow::Download, Some(name)) = (session.flow, &session.congestion_control)
            && let Err(error) = socket::check_congestion_control(name)
        {
            return control.send(&Message::Refused {
                reason: error.to_string(),
            });
        }
        control.send(&ready(id))?;
        match session.flow {
            Flow::Upload => {
                let goodput = session
                    .arrivals
                    .measure(window, |sample| self.relay(control, sample));
                match goodput {
                    Ok(goodput) => control.send(&Message::TcpResult(goodput)),
                    Err(error) => tell(control, error),
                }
            }
            // The client measures, and hangs up when it is done.
            Flow::Download => loop {
                self.check_stop()?;
                control.poll()?;
            },
        }
    }

    fn stream(&self, control: Control, session: u64) {
        let Some(session) = self.shared.sessions.tcp(session) else {
            return;
        };
        let (stream, already) = control.into_stream();
        match session.flow {
            Flow::Upload => {
                session.arrivals.add(already);
                tcp::sink(&stream, &session.arrivals);
            }
            Flow::Download => {
                if let Some(name) = &session.congestion_control
                    && socket::set_congestion_control(&stream, name).is_err()
                {
                    return;
                }
                let is_over = || session.arrivals.is_over() || self.shared.is_stopped();
                tcp::pump(&stream, is_over);
            }
        }
    }

    fn udp(&self, control: &mut Control, request: &UdpRequest) -> Result<(), TrafficError> {
        if let Err(error) = udp::check(request.rate, request.size, request.duration) {
            return tell(control, error);
        }
        let (id, reception) = self.shared.sessions.add_udp(Reception::new(request.omit));
        let result = control.send(&ready(id)).and_then(|()| match request.flow {
            Flow::Upload => self.receive_udp(control, request, &reception),
            Flow::Download => self.send_udp(control, request, id, &reception),
        });
        self.shared.sessions.remove_udp(id);
        result
    }

    fn receive_udp(
        &self,
        control: &mut Control,
        request: &UdpRequest,
        reception: &Reception,
    ) -> Result<(), TrafficError> {
        let window = Window {
            interval: INTERVAL,
            omit: request.omit,
            duration: request.duration,
        };
        let goodput = reception
            .arrivals
            .measure(window, |sample| self.relay(control, sample));
        let goodput = match goodput {
            Ok(goodput) => goodput,
            Err(error) => return tell(control, error),
        };
        let Message::Finished { sent, held_back } = control.receive()? else {
            return Ok(());
        };
        reception.drain();
        let machine = Machine::this();
        let same_clock = machine.is_some() && machine == request.machine;
        let report = reception.report(goodput, Sent { sent, held_back }, same_clock);
        control.send(&Message::UdpResult(Box::new(report)))
    }

    fn send_udp(
        &self,
        control: &mut Control,
        request: &UdpRequest,
        id: u64,
        reception: &Reception,
    ) -> Result<(), TrafficError> {
        let client = match reception.wait_for_client(PATIENCE) {
            Ok(client) => client,
            Err(error) => return tell(control, error),
        };
        if client.ip().to_canonical() != self.peer.ip().to_canonical() {
            return control.send(&Message::Refused {
                reason: format!("datagrams to {client} were asked for from {}", self.peer),
            });
        }
        let mark = Mark::new(client, request.dscp);
        let counted = request.omit.saturating_add(request.duration);
        let schedule = udp::schedule(id, request.rate, request.size, counted);
        let socket = &self.shared.datagrams;
        let send = |bytes: &[u8]| socket::send_marked(socket, bytes, client, &mark);
        match schedule.run(send, &self.shared.stop) {
            Ok(Sent { sent, held_back }) => control.send(&Message::Finished { sent, held_back }),
            Err(error) => tell(control, error),
        }
    }

    /// Passes a sample on; without one, looks whether anybody still waits for it.
    fn relay(&self, control: &mut Control, sample: Option<Sample>) -> Result<(), TrafficError> {
        self.check_stop()?;
        match sample {
            Some(sample) => control.send(&Message::Sample(sample)),
            None => control.check_alive(),
        }
    }

    fn check_stop(&self) -> Result<(), TrafficError> {
        if self.shared.is_stopped() {
            return Err(TrafficError::Silent {
                peer: self.peer,
                waited: Duration::ZERO,
            });
        }
        Ok(())
    }
}

fn ready(session: u64) -> Message {
    Message::Ready {
        session,
        machine: Machine::this(),
    }
}

/// Tells the client what kept the server from doing its part.
fn tell(control: &mut Control, error: TrafficError) -> Result<(), TrafficError> {
    control.send(&match error {
        TrafficError::NothingArrived { waited } => Message::NothingArrived { waited },
        error => Message::Refused {
            reason: error.to_string(),
        },
    })
}
