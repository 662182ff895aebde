//! SCTP on the wire. A kernel without it carries it as IP's protocol 132, as every router does: the
//! packets are made here, with what RFC 9260 asks for.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netqos_core::{PortMatch, Protocol, Rule};
use netqos_datapath::rules::RuleCount;
use netqos_index::Change;
use netqos_testkit::BacklogDrops;
use netqos_testkit::rules::frame::checksum;
use netqos_testkit::rules::{HOOKS, Wire, World, limiting, marking, mbit, on_both_hooks, policy};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};

use super::two_pods;

/// M3UA's, which is in the rules, and M2UA's, which is not.
const PORT: u16 = 2905;
const OTHER_PORT: u16 = 2904;
const DSCP: u8 = 30;
/// What of a frame is not the payload of a DATA chunk: Ethernet's header, IPv4's, SCTP's, the chunk's.
const HEADERS: u64 = 14 + 20 + 12 + 16;

/// A packet with one DATA chunk that is a message of its own.
fn packet(port: u16, number: u32, payload: &[u8]) -> Vec<u8> {
    assert_eq!(payload.len() % 4, 0, "a chunk would need padding");
    let mut bytes = Vec::new();
    bytes.extend(PORT.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    // Verification tag; the checksum comes later.
    bytes.extend(0x1234_5678_u32.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([0, 3]);
    bytes.extend((16 + payload.len() as u16).to_be_bytes());
    bytes.extend(number.to_be_bytes());
    // Stream 1, its first message, of no protocol in particular.
    bytes.extend([0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(payload);
    let sum = crc32c(&bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// RFC 9260, appendix A.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// A socket for SCTP's packets, in the pod: none of them is answered with an ICMP message then.
fn raw(world: &World, pod: &str, v6: bool) -> OwnedFd {
    let family = if v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    world.run(pod, || {
        socket(family, SocketType::RAW, Some(ipproto::SCTP)).unwrap()
    })
}

fn send(from: &OwnedFd, to: IpAddr, packet: &[u8]) {
    let sent = sendto(from, packet, SendFlags::empty(), &SocketAddr::new(to, 0)).unwrap();
    assert_eq!(sent, packet.len());
}

/// The code point with which it arrived at the wire, whole and with right checksums.
fn arrival(wire: &Wire, packet: &[u8], payload: &[u8]) -> u8 {
    let frame = wire.receive(payload).unwrap();
    let (class, header) = match frame[12..14] {
        [0x86, 0xdd] => (frame[14] << 4 | frame[15] >> 4, 40),
        _ => {
            assert_eq!(checksum(&frame[14..34]), 0, "IPv4's checksum");
            (frame[15], 20)
        }
    };
    assert_eq!(&frame[14 + header..], packet, "it became another");
    class >> 2
}

fn sctp(port: u16) -> PortMatch {
    PortMatch {
        protocol: Some(Protocol::Sctp),
        port: NonZeroU16::new(port),
    }
}

/// A rule with a rate for the port, in force for `a`.
fn rule(world: &mut World, megabits: u64) {
    let rule = Rule {
        ports: vec![sctp(PORT)],
        bandwidth: limiting(megabits).bandwidth,
        ..marking(DSCP.into())
    };
    world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
}

fn count(world: &World) -> RuleCount {
    let counts = world.rules.counts().unwrap();
    let [count] = counts.as_slice() else {
        panic!("{counts:?}");
    };
    count.clone()
}

#[test]
fn the_checksum_is_the_one_of_the_standard() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn it_is_marked_where_it_goes_to_the_port_of_a_rule_and_counted() {
    on_both_hooks(|hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        rule(&mut world, 50);
        let wire = world.run("b", || Wire::open("eth0"));
        let (mut number, mut matched, mut bytes) = (0, 0, 0);
        for v6 in [false, true] {
            let to = world.address("b", v6).ip();
            let (from, _to) = (raw(&world, "a", v6), raw(&world, "b", v6));
            for port in [PORT, OTHER_PORT, PORT, 0, PORT.swap_bytes()] {
                number += 1;
                let payload = format!("message number {number:5}").into_bytes();
                let packet = packet(port, number, &payload);
                send(&from, to, &packet);
                let right = if port == PORT { DSCP } else { 0 };
                let dscp = arrival(&wire, &packet, &payload);
                assert_eq!(dscp, right, "{hook:?}, {to}, port {port}");
                if port == PORT {
                    matched += 1;
                    bytes += HEADERS + payload.len() as u64 + if v6 { 20 } else { 0 };
                }
            }
        }
        // Another protocol's port of the same number is another port.
        let socket = world.run("a", || UdpSocket::bind("0.0.0.0:0").unwrap());
        let to = SocketAddr::new(world.address("b", false).ip(), PORT);
        socket.send_to(b"a datagram", to).unwrap();
        let frame = wire.receive(b"a datagram").unwrap();
        assert_eq!(frame[15], 0, "{hook:?}");
        let count = count(&world);
        let counted = (count.packets, count.bytes, count.marked);
        assert_eq!(counted, (matched, bytes, matched), "{hook:?}");
        assert_eq!(count.dropped_packets, 0, "{hook:?}");
    });
}

#[test]
fn and_held_to_the_rate_of_the_rule() {
    const MANY: u32 = 1_000;
    let Some(mut world) = two_pods(HOOKS[0]) else {
        return;
    };
    rule(&mut world, 4);
    let (from, to) = (raw(&world, "a", false), raw(&world, "b", false));
    let address = world.address("b", false).ip();
    let payload = [7; 1200];
    let frame = HEADERS + payload.len() as u64;
    // Twice the rate, for a second and a quarter.
    let pause =
        Duration::from_secs_f64(frame as f64 * 8.0 / 2.0 / mbit(4).bits_per_second() as f64);
    let mut buffer = [0; 2048];
    let mut arrivals =
        || std::iter::from_fn(|| recv(&to, &mut buffer, RecvFlags::DONTWAIT).ok()).count();
    let backlogs = BacklogDrops::count().unwrap();
    let began = Instant::now();
    let mut arrived = 0;
    for number in 0..MANY {
        send(&from, address, &packet(PORT, number, &payload));
        arrived += arrivals();
        sleep((pause * (number + 1)).saturating_sub(began.elapsed()));
    }
    let took = began.elapsed();
    // What waits when it ends, 25 ms of it, arrives after that.
    loop {
        sleep(Duration::from_millis(200));
        match arrivals() {
            0 => break,
            late => arrived += late,
        }
    }
    let count = count(&world);
    assert_eq!(count.packets, u64::from(MANY));
    let passed = count.packets - count.dropped_packets;
    assert_eq!(count.marked, passed);
    let drops = backlogs.so_far().unwrap();
    let arrive = passed.saturating_sub(drops)..=passed;
    assert!(
        arrive.contains(&(arrived as u64)),
        "{arrived}, not {arrive:?}"
    );
    // A busy machine may keep the sender waiting, and then less passes.
    let rate = passed as f64 * frame as f64 * 8.0 / took.as_secs_f64();
    assert!((1.2e6..4.4e6).contains(&rate), "{rate:.0}");
}
