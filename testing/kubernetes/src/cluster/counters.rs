//! Packets that arrive in a network namespace, counted by nftables.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

use super::run;

/// Counts packets by source, destination and DSCP. The first lines delete the table of an earlier call. nftables 1.0.6
/// reads the DSCP of IPv6 only where it compares it, so that the name of a set has it.
const RULES: &str = "\
table inet arrivals
delete table inet arrivals
table inet arrivals {
  set seen { type ipv4_addr . ipv4_addr . dscp; flags dynamic; counter; }
  set seen6-cs0 { type ipv6_addr . ipv6_addr; flags dynamic; counter; }
  set seen6-ef { type ipv6_addr . ipv6_addr; flags dynamic; counter; }
  set seen6-other { type ipv6_addr . ipv6_addr; flags dynamic; counter; }
  chain prerouting {
    type filter hook prerouting priority -300;
    update @seen { ip saddr . ip daddr . ip dscp }
    ip6 dscp cs0 update @seen6-cs0 { ip6 saddr . ip6 daddr }
    ip6 dscp ef update @seen6-ef { ip6 saddr . ip6 daddr }
    ip6 dscp != { cs0, ef } update @seen6-other { ip6 saddr . ip6 daddr }
  }
}
";

/// Counters of packets, by the addresses and the DSCP that they arrive with.
pub struct Counters {
    /// The process in whose network namespace they are; `None` for that of the caller.
    process: Option<u32>,
}

/// Packets from one address to another with one DSCP.
struct PacketCount {
    source: IpAddr,
    destination: IpAddr,
    /// As `nft` names it; one of IPv6 that is neither cs0 nor ef is other.
    dscp: String,
    packets: u64,
    bytes: u64,
}

impl Counters {
    pub(super) fn start(process: Option<u32>) -> anyhow::Result<Self> {
        let rules = std::path::Path::new(super::ROOT).join("counters.nft");
        fs::write(&rules, RULES)?;
        let counters = Self { process };
        run(counters.nft().arg("-f").arg(rules))?;
        Ok(counters)
    }

    fn nft(&self) -> Command {
        let Some(process) = self.process else {
            return Command::new("nft");
        };
        let mut command = Command::new("nsenter");
        command.args(["--target", &process.to_string(), "--net", "--", "nft"]);
        command
    }

    /// The rate that arrives from each of these addresses, in Mbit/s of IP packets over this time.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn rates(&self, sources: &[IpAddr], time: Duration) -> anyhow::Result<Vec<f64>> {
        let bytes = || -> anyhow::Result<Vec<u64>> {
            let seen = self.all()?;
            let of = |source: &IpAddr| {
                let of_source = seen.iter().filter(|it| it.source == *source);
                of_source.map(|it| it.bytes).sum()
            };
            Ok(sources.iter().map(of).collect())
        };
        let (before, began) = (bytes()?, Instant::now());
        thread::sleep(time);
        let (after, seconds) = (bytes()?, began.elapsed().as_secs_f64());
        let rate =
            |(before, after): (u64, u64)| after.saturating_sub(before) as f64 * 8.0 / seconds / 1e6;
        Ok(before.into_iter().zip(after).map(rate).collect())
    }

    /// Forgets all packets.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn reset(&self) -> anyhow::Result<()> {
        for set in ["seen", "seen6-cs0", "seen6-ef", "seen6-other"] {
            run(self.nft().args(["flush", "set", "inet", "arrivals", set]))?;
        }
        Ok(())
    }

    /// The packets that have arrived from one address at another, by DSCP as `nft` names it.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn seen(&self, source: IpAddr, destination: IpAddr) -> anyhow::Result<Vec<(String, u64)>> {
        let of_pair = self
            .all()?
            .into_iter()
            .filter(|it| it.source == source && it.destination == destination);
        Ok(of_pair.map(|it| (it.dscp, it.packets)).collect())
    }

    fn all(&self) -> anyhow::Result<Vec<PacketCount>> {
        let list = run(self.nft().args(["-j", "list", "table", "inet", "arrivals"]))?;
        let list: Value = serde_json::from_str(&list)?;
        let sets = list["nftables"].as_array().into_iter().flatten();
        let sets = sets.map(|it| &it["set"]);
        let elements = sets.flat_map(|set| {
            let elements = set["elem"].as_array().into_iter().flatten();
            elements.map(|it| (&set["name"], &it["elem"]))
        });
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        elements
            .map(|(set, it)| {
                let key = &it["val"]["concat"];
                let set = text(set);
                Ok(PacketCount {
                    source: text(&key[0]).parse()?,
                    destination: text(&key[1]).parse()?,
                    dscp: match set.split_once('-') {
                        Some((_, dscp)) => dscp.to_owned(),
                        None => text(&key[2]),
                    },
                    packets: it["counter"]["packets"].as_u64().unwrap_or_default(),
                    bytes: it["counter"]["bytes"].as_u64().unwrap_or_default(),
                })
            })
            .collect()
    }
}
