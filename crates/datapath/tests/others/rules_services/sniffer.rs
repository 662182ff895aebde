//! What arrives in a pod, with the marks that it carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SocketType, eth, recv, socket};

const ETHERNET: usize = 14;

/// A packet socket on all interfaces of the network namespace in which it was opened.
pub struct Sniffer(OwnedFd);

/// An IP packet without options or extension headers, with ports.
pub struct Arrived {
    pub to: IpAddr,
    pub protocol: u8,
    pub source_port: u16,
    pub target_port: u16,
    pub dscp: u8,
}

impl Sniffer {
    pub fn open() -> Self {
        Self(socket(AddressFamily::PACKET, SocketType::RAW, Some(eth::ALL)).unwrap())
    }

    /// What has come, or gone, since this was called last.
    pub fn drain(&self) -> Vec<Arrived> {
        let mut frame = [0_u8; 2048];
        let mut found = Vec::new();
        while let Ok((length, _)) = recv(&self.0, &mut frame, RecvFlags::DONTWAIT) {
            found.extend(Arrived::read(&frame[..length]));
        }
        found
    }
}

impl Arrived {
    fn read(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ETHERNET..)?;
        let is_v4 = match ip.first()? >> 4 {
            4 => true,
            6 => false,
            _ => return None,
        };
        let transport = ip.get(if is_v4 { 20 } else { 40 }..)?;
        let port = |at: usize| {
            Some(u16::from_be_bytes(
                transport.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        let v4 = |at: usize| {
            Some(Ipv4Addr::from(
                <[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?,
            ))
        };
        let v6 = |at: usize| {
            Some(Ipv6Addr::from(
                <[u8; 16]>::try_from(ip.get(at..at + 16)?).ok()?,
            ))
        };
        Some(Self {
            to: if is_v4 {
                v4(16)?.into()
            } else {
                v6(24)?.into()
            },
            protocol: *ip.get(if is_v4 { 9 } else { 6 })?,
            source_port: port(0)?,
            target_port: port(2)?,
            dscp: if is_v4 {
                ip.get(1)? >> 2
            } else {
                (u16::from_be_bytes([ip[0], ip[1]]) >> 6 & 0x3f) as u8
            },
        })
    }
}
