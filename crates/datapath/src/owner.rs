//! The numbers by which a limiter knows whose it is.

use netqos_core::{Attachment, Tag};

use crate::record::QueueName;

/// The owner of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A hash of attachment and queue.
    pub id: u64,
    /// A hash of the network's name.
    pub network: u32,
}

impl Owner {
    /// The owner of this queue's limiter.
    pub fn new(attachment: &Attachment, queue: impl Into<QueueName>) -> Self {
        Self {
            id: Self::id_of(&attachment.tag(), queue.into()),
            network: network(attachment.network()),
        }
    }

    /// The id, by what stands in the kernel of whose it is.
    pub(crate) fn id_of(tag: &Tag, queue: QueueName) -> u64 {
        hash(&format!("{tag}:{queue}"))
    }

    /// The owners of all.
    pub(crate) fn all(attachment: &Attachment) -> [Self; 3] {
        QueueName::ALL.map(|queue| Self::new(attachment, queue))
    }
}

/// The hash of a network's name.
pub(crate) fn network(name: &str) -> u32 {
    hash(name) as u32
}

/// FNV-1a: nobody gains by a collision, and it is the same in every build.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
