//! What is held to a rate, and what is not.

use std::net::SocketAddr;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::{Server, TcpTest, UdpTest};

use crate::case::{Case, To};
use crate::eyes::Packet;
use crate::stage::{Family, MARK, Stage};

/// What the rules hold to, in kbit/s as objects have it, and in bit/s.
const RATE_KILOBITS: u64 = 20_000;
const RATE: f64 = 20e6;
/// What is sent by UDP.
const SENT: BitRate = BitRate::from_bits_per_second(60_000_000);
/// A busy machine may spoil one, not all of so many.
const TRIES: usize = 3;
/// So many of each list are measured, which takes a second each.
const MEASURED: usize = 2;

/// Creates the object, measures, deletes it, and measures again.
pub(crate) fn check(stage: &Stage, family: Family, case: &Case) {
    let says = format!("{family:?}: {}", case.says);
    let (to, packet) = case.met[0];
    stage.create(&format!(
        "{{dscp: {MARK}, bandwidth: {{rate: {RATE_KILOBITS}}}, classifier: {{{}}}}}",
        case.classifier
    ));
    stage.wait_for_mark(MARK, to, packet, family);
    for met in case.met.iter().take(MEASURED) {
        eventually(&says, stage, *met, family, is_held);
    }
    for unmet in case.unmet.iter().take(MEASURED) {
        eventually(&says, stage, *unmet, family, is_free);
    }
    stage.delete();
    stage.wait_for_mark(0, to, packet, family);
    eventually(&says, stage, (to, packet), family, is_free);
}

fn eventually(
    says: &str,
    stage: &Stage,
    (to, packet): To,
    family: Family,
    is_right: fn(f64) -> bool,
) {
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let rate = goodput(stage, to, packet, family);
        if is_right(rate) {
            return;
        }
        found.push(format!("{:.1} Mbit/s", rate / 1e6));
    }
    panic!("{says}: {packet:?} to {to}: {}", found.join(", "));
}

/// Headers are 4 to 9 % of a limit that counts frames.
fn is_held(rate: f64) -> bool {
    (0.82 * RATE..=1.05 * RATE).contains(&rate)
}

fn is_free(rate: f64) -> bool {
    rate > 2.5 * RATE
}

/// Payload in bit/s from the pod `source`.
fn goodput(stage: &Stage, to: &str, packet: Packet, family: Family) -> f64 {
    let (Packet::Tcp(port) | Packet::Udp(port)) = packet;
    let address = SocketAddr::new(family.address(to), port);
    let server = stage.inside(to, || Server::bind(address).unwrap());
    let (omit, duration) = (Duration::from_millis(300), Duration::from_millis(700));
    let goodput = stage.inside("source", || match packet {
        Packet::Tcp(_) => {
            let test = TcpTest {
                omit,
                duration,
                congestion_control: Some("cubic".to_owned()),
                ..TcpTest::new(server.local_addr())
            };
            test.run(|_| ()).unwrap().goodput
        }
        Packet::Udp(_) => {
            let test = UdpTest {
                omit,
                duration,
                ..UdpTest::new(server.local_addr(), SENT)
            };
            test.run(|_| ()).unwrap().goodput
        }
    });
    goodput.rate.bits_per_second() as f64
}
