//! Fragments, options, tags, extension headers, and what is no packet at all.

use std::net::IpAddr;
use std::path::Path;

use netqos_bpf::rules::{Rules, Verdict};
use netqos_core::{Destination, IpBlock, Rule};
use netqos_index::Change;
use netqos_testkit::rules::frame::{
    AUTHENTICATION, DESTINATION, DOT1AD, DOT1Q, FRAGMENT, Frame, HOP_BY_HOP, ICMP, Part, ROUTING,
};
use netqos_testkit::rules::{HOOKS, Wire, World, marking, on_both_hooks, policy, udp_port};

use super::two_pods;

const UNMARKED: u8 = 0;
/// By a rule for destinations, whatever the protocol.
const BY_ADDRESS: u8 = 10;
/// By a rule for UDP's port 53, which goes before the other.
const BY_PORT: u8 = 20;

/// A pod's program, to be run on frames.
struct Program {
    _world: World,
    rules: Rules,
    number: u16,
}

fn block(cidr: &str) -> Destination {
    Destination::Block(IpBlock::try_new(cidr.parse().unwrap(), vec![]).unwrap())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Program {
    fn new() -> Option<Self> {
        let mut world = World::new(HOOKS[0])?;
        world.pod("a", "player");
        let by_address = Rule {
            to: vec![block("192.0.2.0/24"), block("2001:db8::/32")],
            ..marking(BY_ADDRESS.into())
        };
        let by_port = Rule {
            ports: vec![udp_port(53)],
            ..marking(BY_PORT.into())
        };
        let rules = vec![by_address, by_port];
        let outcome = world.apply(Change::Policy(policy("p", 1, "player", rules)));
        let number = outcome.endpoints.values().next().unwrap().number;
        Some(Self {
            rules: Rules::open(Path::new("/sys/fs/bpf")).unwrap().unwrap(),
            _world: world,
            number,
        })
    }

    #[track_caller]
    fn assert_marks(&self, frame: &Frame, dscp: u8, what: &str) {
        for class in [0x00, 0x01, 0x02, 0x03, 0xff, 0xb9] {
            let frame = Frame {
                class,
                ..frame.clone()
            };
            let ran = self.rules.run(self.number, &frame.bytes(), 1).unwrap();
            let right = match dscp {
                UNMARKED => frame.bytes(),
                dscp => frame.marked(dscp),
            };
            assert_eq!(ran.verdict, Verdict::Next, "{what}");
            assert_eq!(ran.packet, right, "{what}, traffic class {class:#x}");
        }
    }
}

/// Each to where both rules could mark it, and to where only that for the port could.
#[test]
fn are_marked_by_what_can_be_known_of_them() {
    let Some(program) = Program::new() else {
        return;
    };
    let v4 = || Frame::udp(ip("192.0.2.1"), 53);
    let v6 = || Frame::udp(ip("2001:db8::1"), 53);
    let mut cases = vec![("IPv4", v4(), BY_PORT), ("IPv6", v6(), BY_PORT)];
    for options in 1..=10 {
        cases.push(("IPv4 options", Frame { options, ..v4() }, BY_PORT));
    }
    for (what, tags, dscp) in [
        ("a tag", &[DOT1Q][..], BY_PORT),
        ("a tag of providers", &[DOT1AD], BY_PORT),
        ("QinQ", &[DOT1AD, DOT1Q], BY_PORT),
        ("two tags", &[DOT1Q, DOT1Q], BY_PORT),
        ("three tags", &[DOT1AD, DOT1Q, DOT1Q], UNMARKED),
    ] {
        for frame in [v4(), v6()] {
            let tags = tags.to_vec();
            cases.push((what, Frame { tags, ..frame }, dscp));
        }
    }
    let every = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT, AUTHENTICATION];
    for (what, extensions, dscp) in [
        ("hop by hop", &[HOP_BY_HOP][..], BY_PORT),
        ("destination options", &[DESTINATION], BY_PORT),
        ("routing", &[ROUTING], BY_PORT),
        ("a fragment that is all", &[FRAGMENT], BY_PORT),
        ("authentication", &[AUTHENTICATION], BY_PORT),
        ("one of each", &every, BY_PORT),
        ("eight headers", &[DESTINATION; 8], BY_PORT),
        ("nine headers", &[DESTINATION; 9], BY_ADDRESS),
    ] {
        let extensions = extensions.to_vec();
        cases.push((what, Frame { extensions, ..v6() }, dscp));
    }
    for frame in [v4(), v6()] {
        for (part, dscp) in [(Part::First, BY_PORT), (Part::Later, BY_ADDRESS)] {
            cases.push((
                "a fragment",
                Frame {
                    part,
                    ..frame.clone()
                },
                dscp,
            ));
        }
        let extensions = vec![HOP_BY_HOP, DESTINATION];
        let part = Part::Later;
        let later = Frame {
            part,
            extensions,
            ..frame.clone()
        };
        cases.push(("a fragment behind headers", later, BY_ADDRESS));
        for protocol in [6, 132, 136, ICMP, 47] {
            let other = Frame {
                protocol,
                ..frame.clone()
            };
            cases.push(("another protocol", other, BY_ADDRESS));
        }
        let other = Frame { port: 54, ..frame };
        cases.push(("another port", other, BY_ADDRESS));
    }
    for (what, frame, dscp) in cases {
        program.assert_marks(&frame, dscp, what);
        // To elsewhere there is only the rule for the port.
        let to = ip(if frame.to.is_ipv4() {
            "203.0.113.1"
        } else {
            "2001:db9::1"
        });
        let elsewhere = match dscp {
            BY_PORT => BY_PORT,
            _ => UNMARKED,
        };
        program.assert_marks(&Frame { to, ..frame }, elsewhere, what);
    }
}

/// What is cut off is marked by what there is, and never written to past its end.
#[test]
fn are_left_alone_where_they_are_cut_off_or_no_packets() {
    let Some(program) = Program::new() else {
        return;
    };
    let run = |frame: &[u8]| program.rules.run(program.number, frame, 1);
    let v4 = Frame::udp(ip("192.0.2.1"), 53);
    let v6 = Frame::udp(ip("2001:db8::1"), 53);
    let tagged = |frame: &Frame| Frame {
        tags: vec![DOT1AD, DOT1Q],
        ..frame.clone()
    };
    let extended = Frame {
        extensions: vec![HOP_BY_HOP, ROUTING, AUTHENTICATION],
        ..v6.clone()
    };
    let options = Frame {
        options: 4,
        ..v4.clone()
    };
    for frame in [&v4, &v6, &tagged(&v4), &tagged(&v6), &extended, &options] {
        let whole = frame.bytes();
        let header = frame.network() + if frame.to.is_ipv4() { 20 } else { 40 };
        let transport = whole.len() - 8 - frame.payload.len();
        for length in 15..whole.len() {
            let dscp = match length {
                _ if length >= transport + 4 => Some(BY_PORT),
                _ if length >= header => Some(BY_ADDRESS),
                _ => None,
            };
            let mut right = match dscp {
                Some(dscp) => frame.marked(dscp),
                None => whole.clone(),
            };
            right.truncate(length);
            match run(&whole[..length]) {
                Ok(ran) => {
                    assert_eq!(ran.packet, right, "{length} of {frame:?}");
                    assert_eq!(ran.verdict, Verdict::Next);
                }
                // The kernel does not try what has no IP header; on the wire it passes.
                Err(_) => assert!(length < header, "{length} of {frame:?}"),
            }
        }
    }
    let altered = |frame: &Frame, at: usize, byte: u8| {
        let mut bytes = frame.bytes();
        bytes[at] = byte;
        bytes
    };
    for bytes in [
        // ARP; no length or protocol; not the version that was promised; half a header.
        altered(&v4, 13, 0x06),
        altered(&v4, 12, 0x00),
        altered(&v4, 14, 0x65),
        altered(&v4, 14, 0x44),
        altered(&v6, 14, 0x46),
        vec![0xff; 60],
    ] {
        let ran = run(&bytes).unwrap();
        assert_eq!((ran.verdict, &ran.packet), (Verdict::Next, &bytes));
    }
}

/// The same on the way from one pod to another over a bridge, where the kernel has taken the outer
/// tag out of the packet.
#[test]
fn are_marked_on_the_wire_with_their_tags() {
    on_both_hooks(|hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        let node = &world.node;
        node.run("ip", &["link", "add", "bridge0", "type", "bridge"])
            .unwrap();
        node.run("ip", &["link", "set", "bridge0", "up"]).unwrap();
        for pod in ["a", "b"] {
            let link = world.pod_named(pod).host_link();
            node.run("ip", &["link", "set", link, "master", "bridge0"])
                .unwrap();
        }
        let wire = |pod: &str| world.run(pod, || Wire::open("eth0"));
        let (from, to) = (wire("a"), wire("b"));
        let mac = world.run("b", || {
            let mut socket = netqos_netlink::Socket::open().unwrap();
            socket.link_by_name("eth0").unwrap().mac()
        });
        let octets = mac
            .split(':')
            .map(|octet| u8::from_str_radix(octet, 16).unwrap());
        let to_mac: [u8; 6] = octets.collect::<Vec<_>>().try_into().unwrap();
        let rules = vec![Rule {
            ports: vec![udp_port(53)],
            ..marking(BY_PORT.into())
        }];
        world.apply(Change::Policy(policy("p", 1, "player", rules)));
        let mut number = 0_u32;
        for tags in [
            &[][..],
            &[DOT1Q],
            &[DOT1AD],
            &[DOT1AD, DOT1Q],
            &[DOT1Q, DOT1Q],
            &[DOT1AD, DOT1Q, DOT1Q],
        ] {
            for address in ["192.0.2.1", "2001:db8::1"] {
                for (port, is_marked) in [(53, true), (54, false)] {
                    number += 1;
                    let payload = format!("frame number {number:6}").into_bytes();
                    let frame = Frame {
                        to_mac,
                        tags: tags.to_vec(),
                        class: (number % 4) as u8,
                        payload: payload.clone(),
                        ..Frame::udp(ip(address), port)
                    };
                    let right = match is_marked {
                        true => frame.marked(BY_PORT),
                        false => frame.bytes(),
                    };
                    from.send(&frame.bytes());
                    let mut seen = to.receive(&payload).unwrap();
                    if !tags.is_empty() {
                        seen.splice(12..12, right[12..16].iter().copied());
                    }
                    assert_eq!(seen, right, "{hook:?}: {frame:?}");
                }
            }
        }
    });
}
