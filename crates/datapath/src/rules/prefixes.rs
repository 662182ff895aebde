//! The prefixes of a chain, and for each the rules whose blocks hold all of it.
//!
//! Prefixes are laminar: of two, either one holds the other or they have nothing in common. So the
//! longest prefix that holds an address says all about it, when each carries the rules of those
//! that it is a part of. An exception is a prefix of its own that lacks its rule: no block is ever
//! cut into pieces.

use std::collections::BTreeMap;

use ipnet::IpNet;
use netqos_bpf::rules::Bitmap;
use netqos_core::IpBlock;

/// What begins and what ends at a prefix, by the number of the block.
#[derive(Debug, Default)]
struct Edge {
    begins: Vec<usize>,
    ends: Vec<usize>,
}

/// Blocks of rules, by prefix.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    edges: BTreeMap<(IpNet, u8), Edge>,
    /// The rule of each block.
    rules: Vec<usize>,
}

impl Prefixes {
    /// Adds a block of a rule.
    pub(super) fn add(&mut self, rule: usize, block: &IpBlock) {
        let number = self.rules.len();
        self.rules.push(rule);
        self.at(block.cidr()).begins.push(number);
        for except in block.except() {
            self.at(*except).ends.push(number);
        }
    }

    fn at(&mut self, prefix: IpNet) -> &mut Edge {
        // Sorted by address and then by length, so that what holds a prefix comes before it.
        let first = IpNet::from(prefix.network());
        self.edges.entry((first, prefix.prefix_len())).or_default()
    }

    /// Each prefix, and the rules for the addresses of which it is the longest; `anywhere` are in
    /// all of them.
    pub(super) fn bitmaps(&self, anywhere: &Bitmap) -> Vec<(IpNet, Bitmap)> {
        let mut found = Vec::with_capacity(self.edges.len());
        // The prefixes that hold the one that is looked at, and the blocks in force in each.
        let mut around: Vec<(IpNet, Vec<usize>)> = Vec::new();
        for ((first, length), edge) in &self.edges {
            let Ok(prefix) = IpNet::new(first.addr(), *length) else {
                continue;
            };
            while around
                .last()
                .is_some_and(|(outer, _)| !outer.contains(&prefix))
            {
                around.pop();
            }
            let outer = around.last().map_or(&[][..], |(_, blocks)| blocks);
            let mut blocks: Vec<usize> = outer.to_vec();
            blocks.extend(&edge.begins);
            // A block whose exception is all of it holds nothing.
            blocks.retain(|block| !edge.ends.contains(block));
            let mut bitmap = *anywhere;
            for block in &blocks {
                bitmap.set(self.rules[*block]);
            }
            found.push((prefix, bitmap));
            around.push((prefix, blocks));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    /// Prefixes of a small part of the addresses, so that they meet.
    fn prefix() -> impl Strategy<Value = IpNet> {
        (0_u32..256, 24_u8..=32).prop_map(|(last, length)| {
            let address = IpAddr::V4(Ipv4Addr::from(0x0A00_0000 | last));
            IpNet::new(address, length).unwrap().trunc()
        })
    }

    fn block() -> impl Strategy<Value = IpBlock> {
        (prefix(), proptest::collection::vec(prefix(), 0..4)).prop_map(|(cidr, except)| {
            let except = except.into_iter().filter(|e| cidr.contains(e)).collect();
            IpBlock::try_new(cidr, except).unwrap()
        })
    }

    proptest! {
        #[test]
        fn the_longest_prefix_says_which_blocks_hold_an_address(
            blocks in proptest::collection::vec(block(), 0..12),
        ) {
            let mut prefixes = Prefixes::default();
            for (rule, block) in blocks.iter().enumerate() {
                prefixes.add(rule, block);
            }
            let bitmaps = prefixes.bitmaps(&Bitmap::default());
            for last in 0..=255_u32 {
                let address = IpAddr::V4(Ipv4Addr::from(0x0A00_0000 | last));
                let longest = bitmaps
                    .iter()
                    .filter(|(prefix, _)| prefix.contains(&address))
                    .max_by_key(|(prefix, _)| prefix.prefix_len());
                let found = longest.map_or(Bitmap::default(), |(_, bitmap)| *bitmap);
                let holding = blocks.iter().enumerate().filter(|(_, b)| b.contains(address));
                prop_assert_eq!(found, Bitmap::of(holding.map(|(rule, _)| rule)), "{}", address);
            }
        }
    }
}
