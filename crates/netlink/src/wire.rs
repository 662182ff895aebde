//! Netlink messages in bytes: building one, and walking through the attributes of one.
//!
//! Layout: `struct nlmsghdr` (16 bytes), a fixed header of the message's kind, then attributes of
//! `{ u16 length; u16 kind; value }`, each padded to four bytes (`include/uapi/linux/netlink.h`).

use netlink_packet_core::{NLA_F_NESTED, NlaBuffer, NlasIterator};

/// `sizeof(struct nlmsghdr)`.
pub(crate) const HEADER: usize = 16;

/// A request under construction.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this kind and flags, with `NLM_F_REQUEST` added.
    pub(crate) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.push(kind, value);
        self
    }

    /// Appends an attribute that holds a number.
    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends an attribute that holds a zero-terminated string.
    pub(crate) fn string(self, kind: u16, value: &str) -> Self {
        let mut bytes = Vec::with_capacity(value.len() + 1);
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// Appends an attribute that holds the attributes which `inner` appends.
    pub(crate) fn nest(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.push(kind | NLA_F_NESTED, &[]);
        let mut whole = inner(self);
        let length = (whole.bytes.len() - start) as u16;
        whole.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        whole
    }

    /// Attributes without a message around them, for a place where only bytes go.
    pub(crate) fn attributes_only(append: impl FnOnce(Self) -> Self) -> Vec<u8> {
        append(Self { bytes: Vec::new() }).bytes
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        let length = (4 + value.len()) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The bytes to send, under this sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// One message of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'b> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The port ID of the socket that caused it, or 0.
    pub(crate) port: u32,
    pub(crate) payload: &'b [u8],
}

/// Takes the first message off a buffer; `None` when no whole one is left.
pub(crate) fn split_message(buffer: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32_at(buffer, 0)? as usize;
    if length < HEADER || length > buffer.len() {
        return None;
    }
    let kind_and_flags = u32_at(buffer, 4)?.to_ne_bytes();
    let message = Message {
        kind: u16::from_ne_bytes([kind_and_flags[0], kind_and_flags[1]]),
        flags: u16::from_ne_bytes([kind_and_flags[2], kind_and_flags[3]]),
        sequence: u32_at(buffer, 8)?,
        port: u32_at(buffer, 12)?,
        payload: &buffer[HEADER..length],
    };
    Some((
        message,
        buffer.get(length.next_multiple_of(4)..).unwrap_or_default(),
    ))
}

/// The attributes in these bytes, as `(kind, value)`; what is cut off or malformed ends the walk.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(|nla: Result<NlaBuffer<&[u8]>, _>| {
        let nla = nla.ok()?;
        let (kind, length) = (nla.kind(), nla.value_length());
        let inner: &[u8] = nla.into_inner();
        Some((kind, inner.get(4..4 + length)?))
    })
}

/// The value of the first attribute of this kind in these bytes.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// These numbers in bytes.
pub(crate) fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.map(u32::to_ne_bytes).concat()
}

/// Writes a number at this offset.
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, number: u32) {
    bytes[offset..offset + 4].copy_from_slice(&number.to_ne_bytes());
}

/// The number at this offset.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// The number at this offset.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

/// A zero-terminated string; what is not UTF-8 in it is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_the_layout_of_the_kernels_header() {
        let bytes = Request::new(20, libc::NLM_F_ACK, &[7; 4])
            .string(1, "ab")
            .nest(2, |r| r.number(3, 9))
            .finish(5);
        assert_eq!(u32_at(&bytes, 0), Some(16 + 4 + 8 + 4 + 8));
        assert_eq!(u32_at(&bytes, 8), Some(5));
        let outer: Vec<_> = attributes(&bytes[20..]).collect();
        assert_eq!(outer[0], (1, &b"ab\0"[..]));
        assert_eq!(
            attributes(outer[1].1).collect::<Vec<_>>(),
            [(3, &9_u32.to_ne_bytes()[..])]
        );
    }

    proptest! {
        #[test]
        fn attributes_round_trip(all in proptest::collection::vec(
            (0_u16..0x3fff, proptest::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let request = all.iter().fold(Request::new(1, 0, &[]), |r, (k, v)| r.attribute(*k, v));
            let bytes = request.finish(1);
            let (message, rest) = split_message(&bytes).unwrap();
            prop_assert!(rest.is_empty());
            let read: Vec<_> = attributes(message.payload).map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((message, rest)) = split_message(&bytes) {
                attributes(message.payload).for_each(drop);
                let _ = split_message(rest);
            }
            attributes(&bytes).for_each(drop);
            let _ = text(&bytes);
        }
    }
}
