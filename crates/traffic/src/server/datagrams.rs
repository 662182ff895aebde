//! The thread that receives all datagrams of a server: counts, answers, notes.

use socket2::SockAddr;

use super::Shared;
use crate::socket;
use crate::wire::datagram::{Header, Kind, MAX_SIZE};

/// Serves until the server stops.
pub(super) fn serve(shared: &Shared) {
    let socket = &shared.datagrams;
    let mut buffer = vec![0; MAX_SIZE];
    while !shared.is_stopped() {
        // Nothing that a receive can say is for ever: time is up, or a datagram that was sent
        // before met nobody.
        let Ok(arrival) = socket::receive(socket, &mut buffer) else {
            continue;
        };
        let Some(datagram) = buffer.get_mut(..arrival.length) else {
            continue;
        };
        let Some(header) = Header::decode(datagram) else {
            continue;
        };
        match header.kind {
            Kind::Data => {
                if let Some(reception) = shared.sessions.udp(header.session) {
                    reception.note(&header, &arrival);
                }
            }
            Kind::Hello => {
                if let Some(reception) = shared.sessions.udp(header.session) {
                    reception.note_client(arrival.source);
                }
            }
            Kind::Request => {
                let response = Header {
                    kind: Kind::Response,
                    ..header
                };
                response.write_to(datagram);
                // As long as the request, so that nothing is won by lying about who asks.
                let to = SockAddr::from(arrival.source);
                let _ = socket.send_to_with_flags(datagram, &to, libc::MSG_DONTWAIT);
            }
            // Two servers must not answer each other.
            Kind::Response => {}
        }
    }
}
