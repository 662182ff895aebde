//! Fragments of datagrams, as hostile senders may make them.

use std::net::IpAddr;

use super::frame::checksum;

/// A datagram of which single fragments can be had. Both addresses are of one family.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// The first receiver of its frames.
    pub to_mac: [u8; 6],
    pub from: IpAddr,
    pub to: IpAddr,
    /// The identification.
    pub number: u16,
}

impl Datagram {
    /// The Ethernet frame of a fragment with so many bytes, all zero, from this offset on.
    pub fn fragment(self, offset: u16, length: u16, has_more: bool) -> Vec<u8> {
        let mut frame = self.to_mac.to_vec();
        frame.extend([2, 0, 0, 0, 0, 2]);
        if let (IpAddr::V4(from), IpAddr::V4(to)) = (self.from, self.to) {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend(self.number.to_be_bytes());
            frame.extend(((offset / 8) | (u16::from(has_more) << 13)).to_be_bytes());
            frame.extend([64, 17, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
            let sum = checksum(&frame[14..]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        if let (IpAddr::V6(from), IpAddr::V6(to)) = (self.from, self.to) {
            frame.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
            frame.extend((length + 8).to_be_bytes());
            frame.extend([44, 64]);
            frame.extend([from.octets(), to.octets()].concat());
            frame.extend([17, 0]);
            frame.extend((offset | u16::from(has_more)).to_be_bytes());
            frame.extend(u32::from(self.number).to_be_bytes());
        }
        frame.resize(frame.len() + usize::from(length), 0);
        frame
    }
}
