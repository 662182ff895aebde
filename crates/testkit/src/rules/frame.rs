//! Ethernet frames with IP packets in them, built as the standards say and with nothing of ours.

use std::net::IpAddr;

use netqos_core::plan::Packet;

/// EtherTypes.
pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const DOT1Q: u16 = 0x8100;
pub const DOT1AD: u16 = 0x88a8;
/// Protocols without ports.
pub const ICMP: u8 = 1;
pub const ICMP6: u8 = 58;
/// Headers between IPv6's and the transport's.
pub const HOP_BY_HOP: u8 = 0;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const AUTHENTICATION: u8 = 51;
pub const DESTINATION: u8 = 60;

/// Which part of a datagram it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    #[default]
    Whole,
    First,
    Later,
}

/// A frame under construction.
#[derive(Clone, Debug)]
pub struct Frame {
    pub to_mac: [u8; 6],
    pub from: Option<IpAddr>,
    pub to: IpAddr,
    /// EtherTypes of VLAN tags, the outer one first.
    pub tags: Vec<u16>,
    /// Traffic class: code point and ECN.
    pub class: u8,
    /// IPv4: words of options.
    pub options: usize,
    /// IPv6: headers before the transport's.
    pub extensions: Vec<u8>,
    pub part: Part,
    pub protocol: u8,
    pub port: u16,
    pub payload: Vec<u8>,
}

impl Frame {
    /// A UDP datagram.
    pub fn udp(to: IpAddr, port: u16) -> Self {
        Self {
            to_mac: [2, 0, 0, 0, 0, 1],
            from: None,
            to,
            tags: vec![],
            class: 0,
            options: 0,
            extensions: vec![],
            part: Part::Whole,
            protocol: 17,
            port,
            payload: b"some payload".to_vec(),
        }
    }

    /// What the plan would be asked about it.
    pub fn of(packet: &Packet) -> Self {
        let protocol = packet.protocol.map(|protocol| protocol.number());
        let none = match packet.destination {
            IpAddr::V4(_) => ICMP,
            IpAddr::V6(_) => ICMP6,
        };
        Self {
            protocol: protocol.unwrap_or(none),
            part: match (protocol, packet.port) {
                (Some(_), None) => Part::Later,
                _ => Part::Whole,
            },
            ..Self::udp(packet.destination, packet.port.unwrap_or_default())
        }
    }

    /// Where the IP header is.
    pub fn network(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = self.to_mac.to_vec();
        frame.extend([2, 0, 0, 0, 0, 2]);
        for (number, tag) in (100_u16..).zip(&self.tags) {
            frame.extend(tag.to_be_bytes());
            // Priority 5 in front of the network's number.
            frame.extend((5 << 13 | number).to_be_bytes());
        }
        let kind = if self.to.is_ipv4() { IPV4 } else { IPV6 };
        frame.extend(kind.to_be_bytes());
        match self.to {
            IpAddr::V4(to) => {
                let from = match self.from {
                    Some(IpAddr::V4(from)) => from,
                    _ => [10, 9, 9, 9].into(),
                };
                self.add_ipv4(&mut frame, from.octets(), to.octets());
            }
            IpAddr::V6(to) => {
                let from = match self.from {
                    Some(IpAddr::V6(from)) => from,
                    _ => "fd09::9".parse().unwrap(),
                };
                self.add_ipv6(&mut frame, from.octets(), to.octets());
            }
        }
        frame
    }

    fn add_ipv4(&self, frame: &mut Vec<u8>, from: [u8; 4], to: [u8; 4]) {
        let transport = self.transport(&[&from[..], &to[..]].concat());
        let length = 20 + 4 * self.options;
        let offset: u16 = match self.part {
            Part::Whole => 0x4000,
            Part::First => 0x2000,
            Part::Later => 185,
        };
        let mut ip = vec![0x45 + self.options as u8, self.class];
        ip.extend(((length + transport.len()) as u16).to_be_bytes());
        ip.extend([0x12, 0x34]);
        ip.extend(offset.to_be_bytes());
        ip.extend([64, self.protocol, 0, 0]);
        ip.extend(from);
        ip.extend(to);
        // No operation.
        ip.resize(length, 1);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame.extend(transport);
    }

    fn add_ipv6(&self, frame: &mut Vec<u8>, from: [u8; 16], to: [u8; 16]) {
        let mut kinds = self.extensions.clone();
        if self.part != Part::Whole {
            kinds.push(FRAGMENT);
        }
        let next = |at: usize| kinds.get(at).copied().unwrap_or(self.protocol);
        let mut rest = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            let follows = next(at + 1);
            match *kind {
                FRAGMENT => {
                    let offset: u16 = match self.part {
                        Part::Later => 185 << 3,
                        Part::First => 1,
                        // Of a datagram that is one fragment (RFC 8200, 4.5).
                        Part::Whole => 0,
                    };
                    rest.extend([follows, 0]);
                    rest.extend(offset.to_be_bytes());
                    rest.extend([0, 0, 0, 7]);
                }
                // Lengths of 4 bytes, less two; 12 bytes of value.
                AUTHENTICATION => {
                    rest.extend([follows, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
                    rest.extend([0xaa; 12]);
                }
                ROUTING => {
                    rest.extend([follows, 2, 4, 0, 0, 0, 0, 0]);
                    rest.extend([0; 16]);
                }
                // One option, of padding.
                _ => rest.extend([follows, 0, 1, 4, 0, 0, 0, 0]),
            }
        }
        rest.extend(self.transport(&[&from[..], &to[..]].concat()));
        let first = 6 << 28 | u32::from(self.class) << 20 | 0xabcde;
        frame.extend(first.to_be_bytes());
        frame.extend((rest.len() as u16).to_be_bytes());
        frame.extend([next(0), 64]);
        frame.extend(from);
        frame.extend(to);
        frame.extend(rest);
    }

    /// The transport's header and what it carries.
    fn transport(&self, addresses: &[u8]) -> Vec<u8> {
        if self.part == Part::Later {
            // What looks like a header is in the middle of a datagram.
            return [&[0, 53, 0, 80, 1, 187, 31, 144][..], &self.payload].concat();
        }
        let mut bytes = 4000_u16.to_be_bytes().to_vec();
        bytes.extend(self.port.to_be_bytes());
        match self.protocol {
            6 => bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]),
            17 => {
                bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
            }
            132 => bytes.extend([0, 0, 0, 9, 0, 0, 0, 0]),
            _ => bytes = vec![8, 0, 0, 0, 0, 1, 0, 1],
        }
        bytes.extend(&self.payload);
        let at = match self.protocol {
            6 => 16,
            17 => 6,
            _ => return bytes,
        };
        let mut pseudo = addresses.to_vec();
        pseudo.extend([0, self.protocol]);
        pseudo.extend((bytes.len() as u16).to_be_bytes());
        pseudo.extend(&bytes);
        let sum = checksum(&pseudo);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Its bytes with another code point: the same frame but for that and IPv4's checksum.
    pub fn marked(&self, dscp: u8) -> Vec<u8> {
        Self {
            class: dscp << 2 | (self.class & 3),
            ..self.clone()
        }
        .bytes()
    }
}

/// RFC 1071.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}
