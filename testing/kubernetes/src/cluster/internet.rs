//! What is outside of the cluster: addresses on the loopback of the sandbox, which is the nodes' default route.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

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
pub struct Internet {
    received: Arc<Mutex<HashMap<IpAddr, u64>>>,
}

impl Internet {
    pub(super) fn start() -> anyhow::Result<Self> {
        for address in ADDRESSES {
            let address = format!("{address}/32");
            run(Command::new("ip").args(["address", "add", &address, "dev", "lo"]))?;
        }
        let rules = std::path::Path::new(super::ROOT).join("internet.nft");
        std::fs::write(&rules, COUNTERS)?;
        run(Command::new("nft").arg("-f").arg(rules))?;
        let received: Arc<Mutex<HashMap<IpAddr, u64>>> = Arc::default();
        let counters = Arc::clone(&received);
        serve(SINK, move |stream| {
            let counters = Arc::clone(&counters);
            take(stream, &counters)
        })?;
        serve(SOURCE, give)?;
        Ok(Self { received })
    }

    /// The payload that arrives from each of these addresses, in Mbit/s over this time.
    pub fn receives(&self, sources: &[IpAddr], time: Duration) -> Vec<f64> {
        let bytes = || -> Vec<u64> {
            let received = self.received.lock();
            let received = received.unwrap_or_else(PoisonError::into_inner);
            let of = |source| received.get(source).copied().unwrap_or_default();
            sources.iter().map(of).collect()
        };
        let (before, began) = (bytes(), Instant::now());
        thread::sleep(time);
        let (after, seconds) = (bytes(), began.elapsed().as_secs_f64());
        let rate = |(before, after)| (after - before) as f64 * 8.0 / seconds / 1e6;
        before.into_iter().zip(after).map(rate).collect()
    }

    /// The packets that have arrived since the last call, by DSCP, from one address at another.
    ///
    /// # Errors
    /// Returns an error if `nft` fails.
    pub fn seen(&self, source: &str, destination: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let list =
            run(Command::new("nft").args(["-j", "list", "set", "inet", "internet", "seen"]))?;
        let list: Value = serde_json::from_str(&list)?;
        run(Command::new("nft").args(["flush", "set", "inet", "internet", "seen"]))?;
        let sets = list["nftables"].as_array().into_iter().flatten();
        let elements = sets.flat_map(|it| it["set"]["elem"].as_array().into_iter().flatten());
        let of_pair = elements.map(|it| &it["elem"]).filter(|it| {
            let fields = &it["val"]["concat"];
            fields[0] == source && fields[1] == destination
        });
        Ok(of_pair
            .map(|it| {
                let dscp = &it["val"]["concat"][2];
                let dscp = dscp
                    .as_str()
                    .map_or_else(|| dscp.to_string(), str::to_owned);
                (dscp, it["counter"]["packets"].as_u64().unwrap_or_default())
            })
            .collect())
    }
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

fn take(mut stream: TcpStream, received: &Mutex<HashMap<IpAddr, u64>>) -> io::Result<()> {
    let source = stream.peer_addr()?.ip();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        *received.entry(source).or_default() += length as u64;
    }
}

fn give(mut stream: TcpStream) -> io::Result<()> {
    let zeros = vec![0; 64 * 1024];
    loop {
        stream.write_all(&zeros)?;
    }
}
