//! Sockets, set up so that they are not what limits a measurement.

mod ancillary;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::{Dscp, TrafficError};

pub(crate) use ancillary::{Arrival, Mark, receive, send_marked};

/// How often whoever waits on a socket looks whether it is still wanted.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How much is read from or written to a TCP stream at once, in bytes: enough that the calls don't
/// limit a rate of some 10 Gbit/s.
pub(crate) const CHUNK: usize = 256 * 1024;

/// The buffers that are asked for on UDP sockets, in bytes; the kernel gives as much as its
/// `net.core.rmem_max` and `wmem_max` allow.
const DATAGRAM_BUFFER: usize = 8 << 20;

/// The backlog of the listening socket.
const BACKLOG: i32 = 128;

/// A TCP socket that listens, and comes back from accepting every [`POLL`].
pub(crate) fn listener(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_read_timeout(Some(POLL))?;
    Ok(socket)
}

/// A UDP socket with large buffers that reports the TOS of what it receives, and comes back from
/// receiving every [`POLL`].
pub(crate) fn datagrams(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // Smaller buffers cost precision, not the measurement.
    let _ = socket.set_recv_buffer_size(DATAGRAM_BUFFER);
    let _ = socket.set_send_buffer_size(DATAGRAM_BUFFER);
    if address.is_ipv6() {
        socket.set_recv_tclass_v6(true)?;
        // For IPv4 on an IPv6 socket; there is none where the kernel refuses.
        let _ = socket.set_recv_tos_v4(true);
    } else {
        socket.set_recv_tos_v4(true)?;
    }
    socket.set_read_timeout(Some(POLL))?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A UDP socket of a client that sends marked datagrams to a server.
pub(crate) fn datagrams_to(server: SocketAddr, dscp: Dscp) -> Result<Socket, TrafficError> {
    let socket = datagrams(any_like(server)).map_err(TrafficError::socket("make a UDP socket"))?;
    let connected = socket.connect(&server.into());
    connected
        .and_then(|()| mark(&socket, server, dscp))
        .map_err(TrafficError::socket("set up a UDP socket"))?;
    Ok(socket)
}

/// Marks all that the socket sends to this peer from now on.
pub(crate) fn mark(socket: &Socket, peer: SocketAddr, dscp: Dscp) -> io::Result<()> {
    let tos = u32::from(dscp.tos());
    if is_ipv4(peer) {
        socket.set_tos_v4(tos)
    } else {
        socket.set_tclass_v6(tos)
    }
}

/// True for what travels as IPv4, whatever the socket's family.
pub(crate) fn is_ipv4(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_ipv4()
}

/// Chooses the congestion control of a stream that will send.
pub(crate) fn set_congestion_control(stream: &TcpStream, name: &str) -> Result<(), TrafficError> {
    SockRef::from(stream)
        .set_tcp_congestion(name.as_bytes())
        .map_err(|source| TrafficError::CongestionControl {
            name: name.to_owned(),
            source,
        })
}

/// Whether a stream of this network namespace could have this congestion control.
pub(crate) fn check_congestion_control(name: &str) -> Result<(), TrafficError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .map_err(TrafficError::socket("make a TCP socket"))?;
    set_congestion_control(&TcpStream::from(socket), name)
}

/// The congestion control of a stream, if the kernel tells.
pub(crate) fn congestion_control(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The wildcard address of the peer's family: where a client's socket is bound.
pub(crate) fn any_like(peer: SocketAddr) -> SocketAddr {
    let ip = match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// True for what a socket with a timeout, or one that does not block, says instead of waiting.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// True for what a UDP socket says of a datagram that was sent before: nobody is there (yet). The
/// next call works again.
pub(crate) fn is_about_the_past(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::Interrupted
    )
}
