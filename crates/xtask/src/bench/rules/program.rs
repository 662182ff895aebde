//! The program of rules by itself, on packets that nobody sent.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use netqos_index::Change;
use serde::{Deserialize, Serialize};

use super::stage::{SINK, Stage, on_a_node, policies, tables};

/// What a run takes with so many rules in the chain, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramRun {
    pub rules: usize,
    /// One destination again and again.
    pub same: f64,
    /// A thousand destinations in turn.
    pub scattered: f64,
}

/// Measures chains of these lengths, with so many runs for one figure.
pub fn measure(counts: &[usize], runs: u32) -> Result<Vec<ProgramRun>> {
    on_a_node(|node| {
        let mut stage = Stage::on(node)?;
        let _pod = stage.pod("sender", "sender")?;
        let same = [Ipv4Addr::new(10, 99, 1, 1).into()];
        let scattered: Vec<IpAddr> = (0..1000_u32)
            .map(|n| Ipv4Addr::from(0x0A63_0000 + n * 131 % 65_536).into())
            .collect();
        let mut found = Vec::new();
        for &rules in counts {
            stage.apply(policies("sender", rules).into_iter().map(Change::Policy))?;
            found.push(ProgramRun {
                rules,
                same: nanos(&same, runs)?,
                scattered: nanos(&scattered, runs)?,
            });
        }
        Ok(found)
    })
}

/// Nanoseconds of a run for packets to these addresses, of the calling thread's node: the least of
/// five times so many.
pub fn nanos(to: &[IpAddr], runs: u32) -> Result<f64> {
    let rules = tables()?;
    let endpoints = rules.endpoints.all()?;
    let (_, endpoint) = endpoints
        .iter()
        .find(|(number, endpoint)| *number != 0 && endpoint.chain != 0)
        .context("no endpoint has rules")?;
    rules.endpoints.put(&0, endpoint)?;
    let each = runs / u32::try_from(to.len())?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let mut sum = 0.0;
        for address in to {
            let ran = rules.run_repeatedly(&frame(*address), each)?;
            sum += ran.took.as_nanos() as f64;
        }
        best = best.min(sum / to.len() as f64);
    }
    Ok(best)
}

/// A UDP datagram to this address and the sink's port, in an Ethernet frame.
fn frame(to: IpAddr) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([
        0x08, 0x00, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2,
    ]);
    if let IpAddr::V4(to) = to {
        frame.extend(to.octets());
    }
    frame.extend([0x10, 0]);
    frame.extend(SINK.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend([0; 18]);
    frame
}
