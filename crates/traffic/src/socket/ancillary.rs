//! Datagrams with the TOS byte or traffic class that they arrived with (ip(7) `IP_RECVTOS`,
//! ipv6(7) `IPV6_RECVTCLASS`), and with one that is theirs and not the socket's.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr};

use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockAddr, Socket};

use super::is_ipv4;
use crate::Dscp;

/// `cmsghdr`: a length of the machine's word, level, type (cmsg(3)).
const CMSG_HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();

/// Room for two control messages of an int each, aligned.
const CONTROL: usize = 64;

/// One datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Its length, in bytes; what did not fit the buffer is cut off.
    pub(crate) length: usize,
    /// Who sent it.
    pub(crate) source: SocketAddr,
    /// How it was marked, if the kernel says.
    pub(crate) dscp: Option<Dscp>,
}

/// Receives the next datagram into the start of `buffer`.
pub(crate) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Arrival> {
    // The larger of the two families, so that either fits.
    let mut source = SockAddr::from(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0));
    let mut control = [MaybeUninit::new(0_u8); CONTROL];
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and recvmsg(2) writes only bytes that are
    // initialised, so that the buffer is whole when its exclusive borrow ends.
    let uninit = unsafe {
        std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<MaybeUninit<u8>>(), buffer.len())
    };
    let mut buffers = [MaybeUninitSlice::new(uninit)];
    let mut header = MsgHdrMut::new()
        .with_addr(&mut source)
        .with_buffers(&mut buffers)
        .with_control(&mut control);
    let length = socket.recvmsg(&mut header, 0)?;
    let control_length = header.control_len().min(CONTROL);
    let source = source
        .as_socket()
        .ok_or_else(|| io::Error::other("a datagram without an address"))?;
    // SAFETY: all of it was initialised above.
    let control = control.map(|byte| unsafe { byte.assume_init() });
    Ok(Arrival {
        length,
        source,
        dscp: find_dscp(&control[..control_length]),
    })
}

/// How a datagram is to be marked: the control message that says so.
#[derive(Clone, Debug)]
pub(crate) struct Mark(Vec<u8>);

impl Mark {
    /// For datagrams to this peer.
    pub(crate) fn new(peer: SocketAddr, dscp: Dscp) -> Self {
        let (level, kind) = if is_ipv4(peer) {
            (libc::IPPROTO_IP, libc::IP_TOS)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
        };
        Self(message(level, kind, &i32::from(dscp.tos()).to_ne_bytes()))
    }
}

/// Sends one datagram, and does not wait for room.
pub(crate) fn send_marked(
    socket: &Socket,
    bytes: &[u8],
    peer: SocketAddr,
    mark: &Mark,
) -> io::Result<usize> {
    let peer = SockAddr::from(peer);
    let buffers = [IoSlice::new(bytes)];
    let header = MsgHdr::new()
        .with_addr(&peer)
        .with_buffers(&buffers)
        .with_control(&mark.0);
    socket.sendmsg(&header, libc::MSG_DONTWAIT)
}

/// One control message, filled up to the machine's word.
fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes = (CMSG_HEADER + data.len()).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
    bytes
}

/// Walks the control messages for a TOS byte or a traffic class.
fn find_dscp(mut control: &[u8]) -> Option<Dscp> {
    while let Some((length, rest)) = control.split_first_chunk::<{ size_of::<usize>() }>() {
        let length = usize::from_ne_bytes(*length);
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let data = control.get(CMSG_HEADER..length)?;
        let tos = match (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind)) {
            // One byte for IPv4 and an int for IPv6 (net/ipv4/ip_sockglue.c, net/ipv6/datagram.c).
            (libc::IPPROTO_IP, libc::IP_TOS) => data.first().copied(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => data
                .first_chunk::<4>()
                .and_then(|value| u8::try_from(i32::from_ne_bytes(*value)).ok()),
            _ => None,
        };
        if let Some(tos) = tos {
            return Some(Dscp::from_tos(tos));
        }
        control = control.get(length.next_multiple_of(size_of::<usize>())..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mark_is_found_behind_other_messages() {
        let other = message(libc::SOL_SOCKET, 29, &[1; 16]);
        let v4 = message(libc::IPPROTO_IP, libc::IP_TOS, &[0xb9]);
        let v6 = message(
            libc::IPPROTO_IPV6,
            libc::IPV6_TCLASS,
            &0xb8_i32.to_ne_bytes(),
        );
        for control in [v4.clone(), v6, [other.clone(), v4].concat()] {
            assert_eq!(find_dscp(&control).map(Dscp::value), Some(46));
        }
        assert_eq!(find_dscp(&other), None);
        assert_eq!(find_dscp(&[]), None);
    }

    proptest! {
        /// Also with lengths that end a walk nowhere: it must come to an end.
        #[test]
        fn walking_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80), length in 0_usize..80) {
            let mut bytes = bytes;
            if let Some(start) = bytes.first_chunk_mut() {
                *start = length.to_ne_bytes();
            }
            let _ = find_dscp(&bytes);
        }
    }
}
