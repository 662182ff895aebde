//! The layout of the maps of rules, as `bpf/rules.h` has it for the programs.

mod service;

use std::mem::size_of;
use std::net::IpAddr;

use super::Plain;

pub use service::{ChainServiceKey, SERVICE_KINDS, Service, ServiceKey};

/// The most rules that a chain may have.
pub const CHAIN_RULES: usize = 1024;
const WORDS: usize = CHAIN_RULES / 64;
/// Bits of a chain's name in front of an address in a key of a trie.
const CHAIN_BITS: u32 = 64;

/// One bit for each rule of a chain, the first one's the lowest of the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bitmap([u64; WORDS]);

/// What stands at a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Endpoint {
    /// Its rules: a digest. 0: none.
    pub chain: u64,
    /// A digest of the attachment whose hook has the number.
    pub owner: u64,
    /// Which of the maps of peers.
    pub network: u32,
    /// The host's end, to which a packet comes back from a rule's queue.
    pub ifindex: u32,
    /// [`EndpointFlags`].
    pub flags: u32,
    reserved: u32,
}

/// Bits of [`Endpoint::flags`].
#[derive(Clone, Copy, Debug)]
pub struct EndpointFlags;

impl EndpointFlags {
    /// Rules with a rate may redirect into their queue.
    pub const QUEUES: u32 = 1;
    /// Virtual addresses may be met here.
    pub const SERVICES: u32 = 2;
}

/// A list of rules. Its key is its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Chain {
    /// Words of its bitmaps that are in use.
    pub words: u32,
    /// [`ChainFlags`].
    pub flags: u32,
    /// Rules in shadow mode.
    pub shadow: Bitmap,
    /// Rules for all destinations.
    pub anywhere: Bitmap,
    /// Rules for all protocols and ports.
    pub portless: Bitmap,
}

/// Bits of [`Chain::flags`]: which tables have something for it.
#[derive(Clone, Copy, Debug)]
pub struct ChainFlags;

impl ChainFlags {
    /// `blocks4`.
    pub const BLOCKS4: u32 = 1;
    /// `blocks6`.
    pub const BLOCKS6: u32 = 2;
    /// `classes`.
    pub const SETS: u32 = 4;
    /// `ports`.
    pub const PORTS: u32 = 8;
}

/// A prefix of destinations in a chain, of a family with addresses of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Block<const N: usize> {
    prefix_length: u32,
    chain: [u32; 2],
    address: [u8; N],
}

/// An IPv4 prefix of destinations in a chain.
pub type Block4 = Block<4>;
/// An IPv6 prefix of destinations in a chain.
pub type Block6 = Block<16>;

/// An address of a pod, IPv4 as IPv4-mapped (RFC 4291, section 2.5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Peer([u8; 16]);

/// A class in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ClassKey {
    /// The chain's digest.
    pub chain: u64,
    /// The class's digest.
    pub class: u64,
}

/// A protocol and port in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct PortKey {
    /// The chain's digest.
    pub chain: u64,
    port: [u8; 2],
    protocol: u8,
    reserved: [u8; 5],
}

/// A place in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct RuleKey {
    /// The chain's digest.
    pub chain: u64,
    /// The rule's place; the first wins.
    pub index: u32,
    reserved: u32,
}

/// A rule of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rule {
    /// A digest of which rule of which object it is: its counters' name.
    pub number: u64,
    /// Its limiter; 0 for none.
    pub meter: u32,
    /// The interface that queues for it; 0 where the limiter has to police.
    pub queue: u32,
    /// What it marks with, when it marks.
    pub dscp: u8,
    flags: u8,
    reserved: [u8; 6],
}

/// A rule at an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct CounterKey {
    /// [`Rule::number`].
    pub rule: u64,
    endpoint: u32,
    reserved: u32,
}

/// What a rule did for an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Packets that it won.
    pub packets: u64,
    /// Their bytes at layer 2.
    pub bytes: u64,
    /// Packets of them that it marked; in shadow mode, would have.
    pub marked: u64,
    /// Packets of them that it dropped; in shadow mode, would have.
    pub dropped_packets: u64,
    /// Their bytes at layer 2.
    pub dropped_bytes: u64,
}

/// The pods that share a limiter. Its key is the limiter's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Crowd([u32; 4]);

/// A pod at a limiter that several share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ShareKey {
    /// The limiter.
    pub meter: u32,
    /// The endpoint's number.
    pub endpoint: u32,
}

/// What a pod took of a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Share([u64; 2]);

impl Bitmap {
    /// The bitmap with the bits of these rules; those past the most that a chain may have are left
    /// out.
    pub fn of(rules: impl IntoIterator<Item = usize>) -> Self {
        let mut bitmap = Self::default();
        for rule in rules {
            bitmap.set(rule);
        }
        bitmap
    }

    /// Sets the bit of this rule, if there is one.
    pub fn set(&mut self, rule: usize) {
        if let Some(word) = self.0.get_mut(rule / 64) {
            *word |= 1 << (rule % 64);
        }
    }

    /// Sets every bit that is set in the other.
    pub fn merge(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    /// All of them, as the program has them.
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// True when no bit is set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl Endpoint {
    /// An endpoint of this attachment, on this network, with these rules.
    pub fn new(owner: u64, network: u32, chain: u64, ifindex: u32, flags: u32) -> Self {
        Self {
            chain,
            owner,
            network,
            ifindex,
            flags,
            reserved: 0,
        }
    }
}

impl Block4 {
    /// The prefix in this chain.
    pub fn new(chain: u64, prefix: ipnet::Ipv4Net) -> Self {
        Self::of(chain, prefix.prefix_len(), prefix.network().octets())
    }
}

impl Block6 {
    /// The prefix in this chain.
    pub fn new(chain: u64, prefix: ipnet::Ipv6Net) -> Self {
        Self::of(chain, prefix.prefix_len(), prefix.network().octets())
    }
}

impl<const N: usize> Block<N> {
    fn of(chain: u64, prefix_length: u8, address: [u8; N]) -> Self {
        Self {
            prefix_length: CHAIN_BITS + u32::from(prefix_length),
            chain: halves(chain),
            address,
        }
    }

    /// The chain's digest.
    pub fn chain(&self) -> u64 {
        whole(self.chain)
    }
}

impl<const N: usize> Default for Block<N> {
    fn default() -> Self {
        Self {
            prefix_length: 0,
            chain: [0; 2],
            address: [0; N],
        }
    }
}

/// The bytes as they are in memory, in two halves, since the key has no room to align a `u64`.
fn halves(chain: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = chain.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

fn whole(halves: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = halves.map(u32::to_ne_bytes);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}

impl From<Peer> for IpAddr {
    fn from(peer: Peer) -> Self {
        Self::from(peer.0).to_canonical()
    }
}

impl ClassKey {
    /// This class in this chain, by their digests.
    pub const fn new(chain: u64, class: u64) -> Self {
        Self { chain, class }
    }
}

impl PortKey {
    /// A port of a protocol (IANA number) in a chain; port 0 stands for those of no rule.
    pub fn new(chain: u64, protocol: u8, port: u16) -> Self {
        Self {
            chain,
            port: port.to_be_bytes(),
            protocol,
            reserved: [0; 5],
        }
    }
}

impl RuleKey {
    /// A place in a chain.
    pub fn new(chain: u64, index: u32) -> Self {
        Self {
            chain,
            index,
            reserved: 0,
        }
    }
}

impl Rule {
    /// It marks.
    const MARKS: u8 = 1;
    /// It only counts.
    const SHADOW: u8 = 2;

    /// A rule that counts under this number, and does what the others say: marks with this code
    /// point, and is held to this limiter's rate by this queue. In shadow mode it only counts.
    pub fn new(number: u64, dscp: Option<u8>, meter: u32, queue: u32, shadow: bool) -> Self {
        let marks = if dscp.is_some() { Self::MARKS } else { 0 };
        Self {
            number,
            meter,
            queue,
            dscp: dscp.unwrap_or_default(),
            flags: marks | if shadow { Self::SHADOW } else { 0 },
            reserved: [0; 6],
        }
    }
}

impl CounterKey {
    /// A rule at an endpoint.
    pub fn new(rule: u64, endpoint: u16) -> Self {
        Self {
            rule,
            endpoint: endpoint.into(),
            reserved: 0,
        }
    }

    /// The endpoint's number.
    pub fn endpoint(&self) -> u32 {
        self.endpoint
    }
}

macro_rules! plain {
    ($($kind:ty: $size:literal),* $(,)?) => {$(
        // SAFETY: `repr(C)`, integers only, and the size is the sum of its fields' sizes.
        unsafe impl Plain for $kind {}
        const _: () = assert!(size_of::<$kind>() == $size);
    )*};
}
pub(crate) use plain;

// bpf/rules.h and bpf/layout.h assert the same numbers.
plain! {
    Bitmap: 128,
    Endpoint: 32,
    Chain: 392,
    Block4: 16,
    Block6: 28,
    Peer: 16,
    ClassKey: 16,
    PortKey: 16,
    RuleKey: 16,
    Rule: 24,
    CounterKey: 16,
    Counter: 40,
    Crowd: 16,
    ShareKey: 8,
    Share: 16,
}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for [u8; 16] {}
