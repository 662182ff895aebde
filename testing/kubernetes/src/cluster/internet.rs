//! Hosts outside of the cluster: addresses on the loopback of the sandbox, which is the default route of the nodes.

use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde_json::Value;

use super::run;

/// The port on which everything is read and nothing answered.
pub const SINK: u16 = 5001;
/// The port on which zeros are sent for as long as the connection lasts.
pub const SOURCE: u16 = 5002;
/// Public and private addresses: of documentation (RFC 5737), of the prefixes in OKEP-4380, and of private ranges.
const ADDRESSES: [&str; 5] = [
    "203.0.113.10",
    "52.216.10.10",
    "10.99.0.10",
    "172.16.99.10",
    "192.168.99.10",
];
/// Counts packets by source, destination and DSCP.
const COUNTERS: &str = "\
table inet internet {
  set seen { type ipv4_addr . ipv4_addr . dscp; flags dynamic; counter; }
  chain prerouting {
    type filter hook prerouting priority 0;
    update @seen { ip saddr . ip daddr . ip dscp }
  }
}
";

/// Hosts of the Internet that take and give any amount of data.
pub struct Internet(());

/// Packets from one address to another with one DSCP.
struct Seen {
    source: String,
    destination: String,
    /// As `nft` names it.
    dscp: String,
    packets: u64,
    bytes: u64,
}

impl Internet {
    pub(super) fn start() -> anyhow::Result<Self> {
        for address in ADDRESSES {
            let address = format!("{address}/32");
            run(Command::new("ip").args(["address", "add", &address, "dev", "lo"]))?;
        }
        let rules = Path::new(super::ROOT).join("internet.nft");
        fs::write(&rules, COUNTERS)?;
        run(Command::new("nft").arg("-f").arg(rules))?;
        serve(SINK, |mut stream| {
            io::copy(&mut stream, &mut io::sink()).map(drop)
        })?;
        serve(SOURCE, |mut stream| {
            io::copy(&mut io::repeat(0), &mut stream).map(drop)
        })?;
        Ok(Self(()))
    }

    /// The rate that arrives from each of these addresses, in Mbit/s of IP packets over this time.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn receives(&self, sources: &[IpAddr], time: Duration) -> anyhow::Result<Vec<f64>> {
        let bytes = || -> anyhow::Result<Vec<u64>> {
            let seen = all_seen()?;
            let of = |source: &IpAddr| {
                let source = source.to_string();
                let of_source = seen.iter().filter(|it| it.source == source);
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

    /// The packets that have arrived since the last call, by DSCP as `nft` names it, from one address at another.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn seen(&self, source: &str, destination: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let seen = all_seen()?;
        run(Command::new("nft").args(["flush", "set", "inet", "internet", "seen"]))?;
        let of_pair = seen
            .into_iter()
            .filter(|it| it.source == source && it.destination == destination);
        Ok(of_pair.map(|it| (it.dscp, it.packets)).collect())
    }
}

fn all_seen() -> anyhow::Result<Vec<Seen>> {
    let list = run(Command::new("nft").args(["-j", "list", "set", "inet", "internet", "seen"]))?;
    let list: Value = serde_json::from_str(&list)?;
    let sets = list["nftables"].as_array().into_iter().flatten();
    let elements = sets.flat_map(|it| it["set"]["elem"].as_array().into_iter().flatten());
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    Ok(elements
        .map(|it| &it["elem"])
        .map(|it| Seen {
            source: text(&it["val"]["concat"][0]),
            destination: text(&it["val"]["concat"][1]),
            dscp: text(&it["val"]["concat"][2]),
            packets: it["counter"]["packets"].as_u64().unwrap_or_default(),
            bytes: it["counter"]["bytes"].as_u64().unwrap_or_default(),
        })
        .collect())
}

/// Calls a function for each connection to a port, in a thread of its own.
fn serve(
    port: u16,
    serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // A connection that breaks is its other end's matter.
            thread::spawn(move || serve(stream).ok());
        }
    });
    Ok(())
}
