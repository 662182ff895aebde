//! Hosts outside of the cluster: addresses on the loopback of the sandbox, which is the default route of the nodes.

use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::{io, thread};

use super::{Counters, run};

/// The port on which everything is read and nothing answered.
pub const SINK: u16 = 5001;
/// The port on which zeros are sent for as long as the connection lasts.
pub const SOURCE: u16 = 5002;
/// A public address.
pub const ADDRESS: &str = "203.0.113.10";
/// A public address of IPv6.
pub const ADDRESS6: &str = "2001:db8::10";
/// Public and private addresses: of documentation (RFC 5737, RFC 3849), of the prefixes in OKEP-4380, and of private
/// ranges.
const ADDRESSES: [&str; 6] = [
    ADDRESS,
    "52.216.10.10",
    "10.99.0.10",
    "172.16.99.10",
    "192.168.99.10",
    ADDRESS6,
];

/// Hosts of the Internet that take and give any amount of data.
pub struct Internet {
    /// Packets that arrive there.
    pub counters: Counters,
}

impl Internet {
    pub(super) fn start() -> anyhow::Result<Self> {
        for address in ADDRESSES {
            run(Command::new("ip").args(["address", "add", address, "dev", "lo"]))?;
        }
        let counters = Counters::start(None)?;
        serve(SINK, |mut stream| {
            io::copy(&mut stream, &mut io::sink()).map(drop)
        })?;
        serve(SOURCE, |mut stream| {
            io::copy(&mut io::repeat(0), &mut stream).map(drop)
        })?;
        Ok(Self { counters })
    }
}

/// Calls a function for each connection to a port, of either family, in a thread of its own.
fn serve(
    port: u16,
    serve: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // A connection that breaks is its other end's matter.
            thread::spawn(move || serve(stream).ok());
        }
    });
    Ok(())
}
