//! What a rule list becomes in the program's tables. Pure: nothing of it touches the kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use netqos_bpf::rules::{
    Bitmap, Block4, Block6, CHAIN_RULES, Chain as ChainEntry, ChainFlags, ClassKey, PortKey, Rule,
    RuleKey,
};
use netqos_core::plan::{Chain, ChainId, Peers, RuleId, SetId};
use netqos_core::{Digest, Mode, Protocol};

use super::prefixes::Prefixes;

/// The tables of one chain.
#[derive(Debug)]
pub(super) struct ChainTables {
    id: u64,
    pub(super) entry: ChainEntry,
    pub(super) blocks: HashMap<IpNet, Bitmap>,
    pub(super) ports: HashMap<PortKey, Bitmap>,
    /// The rules that go to each peer set.
    sets: BTreeMap<SetId, Bitmap>,
    pub(super) rules: Vec<(RuleKey, Rule)>,
    names: Vec<RuleId>,
    /// The lengths of its IPv4 and IPv6 prefixes, the longest first.
    lengths: [Vec<u8>; 2],
    /// The classes that it has an entry for in the kernel.
    pub(super) classes: HashSet<u64>,
}

/// How a rule's rate is in force, as the program needs to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MeterNumbers {
    /// The limiter; 0 for none.
    pub(super) limiter: u16,
    /// The interface that queues; 0 for none.
    pub(super) queue: u32,
}

/// The rules of a chain that packets to a backend meet, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackendVerdict {
    /// The rule that wins.
    pub(super) winner: Option<usize>,
    /// The rule that would win if those in shadow mode were enforced.
    pub(super) first: Option<usize>,
}

/// The name of a rule's counters and meter.
pub(super) fn rule_number(rule: &RuleId) -> u64 {
    Digest::of(rule).get()
}

impl ChainTables {
    /// The tables of this chain, with the meters of its rules.
    pub(super) fn of(
        id: ChainId,
        chain: &Chain,
        meter: impl Fn(&RuleId) -> Option<MeterNumbers>,
    ) -> Self {
        let id = id.0.get();
        let mut entry = ChainEntry::default();
        let mut prefixes = Prefixes::default();
        let mut sets: BTreeMap<SetId, Bitmap> = BTreeMap::new();
        let mut rules = Vec::with_capacity(chain.rules.len());
        for (index, rule) in chain.rules.iter().enumerate().take(CHAIN_RULES) {
            if rule.mode == Mode::Shadow {
                entry.shadow.set(index);
            }
            match &rule.to {
                Peers::Anywhere => entry.anywhere.set(index),
                Peers::AnyOf { blocks, sets: own } => {
                    for block in blocks {
                        prefixes.add(index, block);
                    }
                    for set in own {
                        sets.entry(*set).or_default().set(index);
                    }
                }
            }
            if rule.ports.is_empty() {
                entry.portless.set(index);
            }
            let numbers = rule.bandwidth.and_then(|_| meter(&rule.id));
            let numbers = numbers.unwrap_or_default();
            let value = Rule::new(
                rule_number(&rule.id),
                rule.dscp.map(netqos_core::Dscp::get),
                numbers.limiter.into(),
                numbers.queue,
                rule.mode == Mode::Shadow,
            );
            rules.push((RuleKey::new(id, index as u32), value));
        }
        entry.words = rules.len().div_ceil(64) as u32;
        let blocks: HashMap<_, _> = prefixes.bitmaps(&entry.anywhere).into_iter().collect();
        let lengths = [true, false].map(|v4| {
            let own = blocks.keys().filter(|prefix| is_v4(prefix) == v4);
            let lengths: BTreeSet<u8> = own.map(IpNet::prefix_len).collect();
            lengths.into_iter().rev().collect()
        });
        let ports = ports(id, chain, &entry.portless);
        let flag = |flag, holds: bool| if holds { flag } else { 0 };
        entry.flags = flag(ChainFlags::BLOCKS4, blocks.keys().any(is_v4))
            | flag(ChainFlags::BLOCKS6, blocks.keys().any(|net| !is_v4(net)))
            | flag(ChainFlags::SETS, !sets.is_empty())
            | flag(ChainFlags::PORTS, !ports.is_empty());
        Self {
            id,
            entry,
            blocks,
            ports,
            sets,
            rules,
            names: chain.rules.iter().map(|rule| rule.id.clone()).collect(),
            lengths,
            classes: HashSet::new(),
        }
    }

    /// Which rules of it have a meter.
    pub(super) fn metered(&self) -> impl Iterator<Item = &RuleId> {
        let rules = self.names.iter().zip(&self.rules);
        rules
            .filter(|(_, (_, rule))| rule.meter != 0)
            .map(|(name, _)| name)
    }

    /// Which rules they are.
    pub(super) fn names(&self) -> impl Iterator<Item = &RuleId> {
        self.names.iter()
    }

    /// Its entry for a class of peers; `None` when no rule of it goes to any set of the class.
    pub(super) fn class(&self, class: u64, of: &BTreeSet<SetId>) -> Option<(ClassKey, Bitmap)> {
        let bitmap = self.class_rules(of);
        (!bitmap.is_empty()).then(|| (ClassKey::new(self.id, class), bitmap))
    }

    /// The IPv4 prefixes, as the program's table has them, shorter ones first: asked for a prefix
    /// that it lacks, a trie answers with what holds it, and that has to be right by then.
    pub(super) fn blocks4(&self) -> Vec<(Block4, Bitmap)> {
        let own = self
            .blocks
            .iter()
            .filter_map(|(prefix, bitmap)| match prefix {
                IpNet::V4(prefix) => Some((Block4::new(self.id, *prefix), *bitmap)),
                IpNet::V6(_) => None,
            });
        let mut own: Vec<_> = own.collect();
        own.sort_unstable_by_key(|(block, _)| *block);
        own
    }

    /// The IPv6 prefixes, in the same way.
    pub(super) fn blocks6(&self) -> Vec<(Block6, Bitmap)> {
        let own = self
            .blocks
            .iter()
            .filter_map(|(prefix, bitmap)| match prefix {
                IpNet::V4(_) => None,
                IpNet::V6(prefix) => Some((Block6::new(self.id, *prefix), *bitmap)),
            });
        let mut own: Vec<_> = own.collect();
        own.sort_unstable_by_key(|(block, _)| *block);
        own
    }

    /// The winner of a packet to this backend, whose class has these rules, and the first rule that
    /// matches in any mode: the same as the program finds.
    pub(super) fn verdict(
        &self,
        protocol: Protocol,
        (address, port): (IpAddr, u16),
        class: Option<&Bitmap>,
    ) -> BackendVerdict {
        let mut there = self.by_prefix(address);
        class.iter().for_each(|class| there.merge(class));
        let ports = self.by_port(protocol, port);
        let words = there.words().iter().zip(ports.words());
        let matching = words.map(|(there, port)| there & port);
        let enforced = matching.clone().zip(self.entry.shadow.words());
        BackendVerdict {
            winner: first_bit(enforced.map(|(word, shadow)| word & !shadow)),
            first: first_bit(matching),
        }
    }

    /// The rules that go to any set of a class.
    pub(super) fn class_rules(&self, class: &BTreeSet<SetId>) -> Bitmap {
        let mut bitmap = Bitmap::default();
        for own in class.iter().filter_map(|set| self.sets.get(set)) {
            bitmap.merge(own);
        }
        bitmap
    }

    /// True when the same rules are for both of these by prefix and by port. (What classes say is
    /// not asked.)
    pub(super) fn is_like(
        &self,
        protocol: Protocol,
        one: (IpAddr, u16),
        other: (IpAddr, u16),
    ) -> bool {
        (one.0 == other.0
            || self.blocks.is_empty()
            || self.by_prefix(one.0) == self.by_prefix(other.0))
            && (one.1 == other.1
                || self.by_port(protocol, one.1) == self.by_port(protocol, other.1))
    }

    fn by_port(&self, protocol: Protocol, port: u16) -> Bitmap {
        let at = |port| {
            let key = PortKey::new(self.id, protocol.number(), port);
            self.ports.get(&key).copied()
        };
        at(port).or_else(|| at(0)).unwrap_or(self.entry.portless)
    }

    /// The rules for an address by its prefixes.
    fn by_prefix(&self, address: IpAddr) -> Bitmap {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let holding = lengths.iter().find_map(|length| {
            let prefix = IpNet::new(address, *length).ok()?.trunc();
            self.blocks.get(&prefix)
        });
        holding.copied().unwrap_or(self.entry.anywhere)
    }
}

/// The place of the lowest bit that is set in these words.
fn first_bit(mut words: impl Iterator<Item = u64>) -> Option<usize> {
    let mut place = 0;
    words.find_map(|word| {
        let found = (word != 0).then(|| place + word.trailing_zeros() as usize);
        place += 64;
        found
    })
}

fn is_v4(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V4(_))
}

/// The rules for each protocol and port that any rule names, and under port 0 those for a protocol
/// whose port is in no rule or not known.
fn ports(id: u64, chain: &Chain, portless: &Bitmap) -> HashMap<PortKey, Bitmap> {
    let rules = || chain.rules.iter().enumerate().take(CHAIN_RULES);
    let mut found = HashMap::new();
    for protocol in Protocol::ALL {
        let number = protocol.number();
        let is_of = |own: Option<Protocol>| own.is_none_or(|own| own == protocol);
        let mut whole = *portless;
        let mut exact: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, rule) in rules() {
            for own in rule.ports.iter().filter(|own| is_of(own.protocol)) {
                match own.port {
                    None => whole.set(index),
                    Some(port) => exact.entry(port.get()).or_default().push(index),
                }
            }
        }
        if whole != *portless || !exact.is_empty() {
            found.insert(PortKey::new(id, number, 0), whole);
        }
        for (port, indexes) in exact {
            let mut bitmap = whole;
            for index in indexes {
                bitmap.set(index);
            }
            found.insert(PortKey::new(id, number, port), bitmap);
        }
    }
    found
}
