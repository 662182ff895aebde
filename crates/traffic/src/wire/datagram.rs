//! The header of every datagram: 32 bytes, big-endian; what follows is filling.
//!
//! ```text
//!   0  "nqm"  3 version  4 kind  5..8 zero  8 session u64  16 number u64  24 sent u64 (ns)
//! ```

use crate::clock::Instant;

/// The least that a datagram can hold, in bytes.
pub const HEADER_SIZE: usize = 32;
/// The most that a UDP datagram over IPv4 can hold, in bytes.
pub const MAX_SIZE: usize = 65_507;

const MAGIC: [u8; 4] = [b'n', b'q', b'm', 1];

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// "Here I am", from a client that wants to be sent to.
    Hello = 1,
    /// One of the measured datagrams.
    Data = 2,
    /// A request that wants its like back.
    Request = 3,
    /// What comes back.
    Response = 4,
}

/// What stands at the start of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Whose datagram it is.
    pub(crate) session: u64,
    /// Counts from 0.
    pub(crate) number: u64,
    /// When it was sent, by the sender's clock.
    pub(crate) sent: Instant,
}

impl Header {
    /// Reads what is at the start of a datagram; `None` when it is none of ours.
    pub(crate) fn decode(datagram: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_SIZE] = datagram.first_chunk()?;
        if !header.starts_with(&MAGIC) {
            return None;
        }
        let kind = match header[4] {
            1 => Kind::Hello,
            2 => Kind::Data,
            3 => Kind::Request,
            4 => Kind::Response,
            _ => return None,
        };
        let number_at = |at: usize| {
            let bytes = header.get(at..)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*bytes))
        };
        Some(Self {
            kind,
            session: number_at(8)?,
            number: number_at(16)?,
            sent: Instant::from_nanos(number_at(24)?),
        })
    }

    /// Writes it.
    pub(crate) fn encode(self) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = self.kind as u8;
        header[8..16].copy_from_slice(&self.session.to_be_bytes());
        header[16..24].copy_from_slice(&self.number.to_be_bytes());
        header[24..].copy_from_slice(&self.sent.nanos().to_be_bytes());
        header
    }

    /// Writes it over the start of a datagram that is at least [`HEADER_SIZE`] long.
    pub(crate) fn write_to(self, datagram: &mut [u8]) {
        if let Some(start) = datagram.first_chunk_mut() {
            *start = self.encode();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        prop::sample::select(vec![Kind::Hello, Kind::Data, Kind::Request, Kind::Response])
    }

    proptest! {
        #[test]
        fn headers_round_trip(kind in kinds(), session: u64, number: u64, sent: u64, fill in 0_usize..99) {
            let header = Header { kind, session, number, sent: Instant::from_nanos(sent) };
            let mut datagram = vec![7; HEADER_SIZE + fill];
            header.write_to(&mut datagram);
            prop_assert_eq!(Header::decode(&datagram), Some(header));
            prop_assert_eq!(Header::decode(&datagram[..HEADER_SIZE - 1]), None);
        }

        #[test]
        fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), ours: bool) {
            let mut bytes = bytes;
            if ours && bytes.len() >= MAGIC.len() {
                bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
            }
            let _ = Header::decode(&bytes);
        }
    }
}
