//! One packet, and how it looks where it arrives.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::stage::inside;

/// `ETH_P_ALL` as the kernel wants it (packet(7)).
const ALL: i32 = 0x0003_u16.to_be() as i32;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// How long it may take to arrive.
const PATIENCE: Duration = Duration::from_millis(500);

/// To which port by which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Tcp(u16),
    Udp(u16),
}

/// Sends one, and says with which mark it arrives, if it does. On the node it is seen more than once:
/// on the pod's link, in front of all hooks, and then where it is received.
pub(crate) fn seen(from: &Path, to: &Path, address: IpAddr, packet: Packet) -> Option<u8> {
    let mut eyes = inside(to, || {
        Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(ALL))).unwrap()
    });
    eyes.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    inside(from, || match packet {
        Packet::Udp(port) => {
            let any: IpAddr = match address {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind(SocketAddr::new(any, 0)).unwrap();
            socket
                .send_to(b"?", SocketAddr::new(address, port))
                .unwrap();
        }
        Packet::Tcp(port) => {
            // Nobody listens: it is the first packet that is looked at.
            let to = SocketAddr::new(address, port);
            let _ = TcpStream::connect_timeout(&to, Duration::from_millis(300));
        }
    });
    let began = Instant::now();
    let (mut bytes, mut last) = ([0_u8; 2048], None);
    while began.elapsed() < PATIENCE {
        match eyes.read(&mut bytes) {
            Ok(length) => last = mark(&bytes[..length], address, packet).or(last),
            Err(_) if last.is_some() => break,
            Err(_) => {}
        }
    }
    last
}

/// The mark of the packet that is looked for; `None` for others.
fn mark(bytes: &[u8], address: IpAddr, packet: Packet) -> Option<u8> {
    let (protocol, port) = match packet {
        Packet::Tcp(port) => (TCP, port),
        Packet::Udp(port) => (UDP, port),
    };
    let (tos, next, to, payload) = match bytes.first()? >> 4 {
        4 => {
            let to: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
            let header = usize::from(bytes[0] & 15) * 4;
            (bytes[1], bytes[9], IpAddr::from(to), bytes.get(header..)?)
        }
        6 => {
            let to: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
            let tos = bytes[0] << 4 | bytes[1] >> 4;
            (tos, bytes[6], IpAddr::from(to), bytes.get(40..)?)
        }
        _ => return None,
    };
    let its_port = u16::from_be_bytes(payload.get(2..4)?.try_into().ok()?);
    (next == protocol && to == address && its_port == port).then_some(tos >> 2)
}
