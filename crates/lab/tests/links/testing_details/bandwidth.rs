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
    for (to, packet) in case.met.iter().take(MEASURED) {
        let case = format!("{says}: {packet:?} to {to}");
        let measure = || goodput(stage, to, *packet, family);
        stage.baseline().assert_limited(case, RATE, measure);
    }
    for unmet in case.unmet.iter().take(MEASURED) {
        assert_free(&says, stage, *unmet, family);
    }
    stage.delete();
    stage.wait_for_mark(0, to, packet, family);
    assert_free(&says, stage, (to, packet), family);
}

fn assert_free(says: &str, stage: &Stage, (to, packet): To, family: Family) {
    let rate = goodput(stage, to, packet, family);
    let megabits = rate / 1e6;
    assert!(
        rate > 1.5 * RATE,
        "{says}: {packet:?} to {to}: {megabits:.1} Mbit/s"
    );
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
