//! What is held to a rate, and what is not.

use std::net::SocketAddr;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::{Server, TcpTest, UdpTest};

use super::case::{Case, To};
use super::eyes::Packet;
use super::stage::{Family, MARK, Stage};

/// What the rules hold to, in kbit/s as objects have it, and in bit/s.
const RATE_KILOBITS: u64 = 20_000;
const RATE: f64 = 20e6;
/// What is sent by UDP.
const SENT: BitRate = BitRate::from_bits_per_second(60_000_000);
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
        assert_rate(&says, stage, *met, family, is_held);
    }
    for unmet in case.unmet.iter().take(MEASURED) {
        assert_rate(&says, stage, *unmet, family, is_free);
    }
    stage.delete();
    stage.wait_for_mark(0, to, packet, family);
    assert_rate(&says, stage, (to, packet), family, is_free);
}

fn assert_rate(
    says: &str,
    stage: &Stage,
    (to, packet): To,
    family: Family,
    is_right: fn(f64) -> bool,
) {
    let rate = goodput(stage, to, packet, family);
    let megabits = rate / 1e6;
    assert!(
        is_right(rate),
        "{says}: {packet:?} to {to}: {megabits:.1} Mbit/s"
    );
}

/// A busy machine takes some of a rate, and adds none.
fn is_held(rate: f64) -> bool {
    (0.3 * RATE..=1.25 * RATE).contains(&rate)
}

fn is_free(rate: f64) -> bool {
    rate > 1.5 * RATE
}

/// Payload in bit/s from the pod `source`.
fn goodput(stage: &Stage, to: &str, packet: Packet, family: Family) -> f64 {
    let (Packet::Tcp(port) | Packet::Udp(port)) = packet;
    let address = SocketAddr::new(family.address(to), port);
    let server = stage.inside(to, || Server::bind(address).unwrap());
    let (omit, duration) = (Duration::from_millis(300), Duration::from_millis(1200));
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
