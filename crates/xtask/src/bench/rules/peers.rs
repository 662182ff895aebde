//! Very many peers in a hundred rules.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;
use netqos_core::NetworkKey;
use netqos_index::Change;
use serde::{Deserialize, Serialize};

use super::program::nanos;
use super::stage::{RULES, Stage, marking_to, object, on_a_node, policy, tables};

/// The figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManyPeers {
    pub peers: u32,
    pub bytes_each: f64,
    /// Writes to the kernel when one comes, and when it goes.
    pub writes: (u64, u64),
    /// Nanoseconds of the program with few of them, and with all.
    pub lookup_before: f64,
    pub lookup_after: f64,
}

/// Measures, with a selector for each of the rules, and so many runs of the program for one figure.
pub fn measure(peers: u32, runs: u32) -> Result<ManyPeers> {
    on_a_node(|node| {
        let mut stage = Stage::on(node)?;
        let _pod = stage.pod("sender", "sender")?;
        let rule = |number: usize| marking_to(&format!("kind-{number}"), number);
        let policies = (0..5).map(|place| {
            let rules = (0..RULES).map(|n| rule(place * RULES + n)).collect();
            Change::Policy(policy("sender", place, rules))
        });
        stage.apply(policies)?;
        let pod = |number: u32| {
            let address = Ipv4Addr::from(0x0A64_0000 + number).into();
            let kind = format!("kind-{}", number % 100);
            object(&format!("peer-{number}"), &kind, None, address)
        };
        let come = |number: u32| Change::Pod(pod(number));
        stage.apply((0..100).map(come))?;
        let to: Vec<IpAddr> = (0..100_u32)
            .map(|n| Ipv4Addr::from(0x0A64_0000 + n).into())
            .collect();
        let lookup_before = nanos(&to, runs)?;
        stage.apply((100..peers).map(come))?;
        let lookup_after = nanos(&to, runs)?;
        let mut rules = tables()?;
        let mut bytes = 0;
        for network in rules.networks.networks()? {
            bytes += rules.networks.bytes(network)?;
        }
        let count = stage.index.plan().peers.on(&NetworkKey::Default).count();
        let comes = stage.apply([come(peers)])?.changes;
        let goes = stage.apply([Change::PodGone(pod(peers).id)])?.changes;
        Ok(ManyPeers {
            peers,
            bytes_each: bytes as f64 / count.max(1) as f64,
            writes: (comes, goes),
            lookup_before,
            lookup_after,
        })
    })
}
