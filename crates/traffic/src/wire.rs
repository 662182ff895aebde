//! What the two ends say to each other.

pub(crate) mod datagram;
pub(crate) mod message;
