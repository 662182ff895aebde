//! Packets in tunnels count in the class of the pod that they are for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use netqos_classes::{Kernel, KernelOptions, TunnelKind, Tunnels};
use netqos_core::classes::TrafficClass;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, options, shares};
use netqos_traffic::Flow;
use socket2::{Domain, Protocol, Socket, Type};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ETHERNET: u16 = 0x6558;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// Packets of each case.
const PACKETS: usize = 20;

/// An IP packet to this address, with a header that is right.
fn ip(to: IpAddr) -> Vec<u8> {
    let payload = [0; 800];
    let mut packet = match to {
        IpAddr::V4(to) => {
            let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1];
            header[2..4].copy_from_slice(&820_u16.to_be_bytes());
            header.extend(to.octets());
            header
        }
        IpAddr::V6(to) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
            header[4..6].copy_from_slice(&800_u16.to_be_bytes());
            header.extend([0xfd; 16]);
            header.extend(to.octets());
            header
        }
    };
    packet.extend(payload);
    packet
}

/// An Ethernet frame around a packet.
fn frame(protocol: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(protocol.to_be_bytes());
    frame.extend(packet);
    frame
}

/// A VXLAN header and what follows it (RFC 7348, 5).
fn vxlan(inner: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat()
}

/// A Geneve header with options of so many words, and what follows it (RFC 8926, 3.4).
fn geneve(words: u8, protocol: u16, inner: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let options = vec![0xaa; usize::from(words) * 4];
    [&[words, 0, high, low, 0, 0, 7, 0], &options[..], inner].concat()
}

/// With one byte replaced.
fn with(mut packet: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    packet[at] = value;
    packet
}

/// Sends datagrams from the outside to this port of the node.
fn send(world: &World, v6: bool, port: u16, datagram: &[u8]) {
    let to = if v6 {
        world.outside.gateway6()
    } else {
        world.outside.gateway()
    };
    let to = SocketAddr::new(to.parse().unwrap(), port);
    let any = if v6 { "[::]:0" } else { "0.0.0.0:0" };
    let socket = world
        .outside
        .inside(|| UdpSocket::bind(any).unwrap())
        .unwrap();
    for _ in 0..PACKETS {
        socket.send_to(datagram, to).unwrap();
    }
}

/// Sends packets of another protocol of IPv4 from the outside to the node.
fn send_raw(world: &World, protocol: i32, packet: &[u8]) {
    let to: Ipv4Addr = world.outside.gateway().parse().unwrap();
    let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol))).unwrap();
    let socket = world.outside.inside(open).unwrap();
    for _ in 0..PACKETS {
        socket
            .send_to(packet, &SocketAddr::new(to.into(), 0).into())
            .unwrap();
    }
}

/// The class in which most bytes are counted that this sends, and how many bytes are, once they are so many.
fn counted(world: &World, flow: Flow, least: u64, act: impl FnOnce()) -> (TrafficClass, u64) {
    let before = world.sent(flow);
    act();
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        // What waits in the tree is counted when it leaves it.
        thread::sleep(Duration::from_millis(30));
        let after = world.sent(flow);
        let grown = TrafficClass::ALL.map(|class| (after[&class] - before[&class], class));
        let (bytes, class) = grown.into_iter().max().unwrap();
        if bytes >= least || Instant::now() > end {
            return (class, bytes);
        }
    }
}

/// A node whose backend knows these tunnels besides those of its links.
fn world_with(tunnels: Tunnels) -> Option<World> {
    let mut world = World::new()?;
    world.backend = Kernel::open(KernelOptions {
        tunnels,
        ..options()
    })
    .unwrap();
    world.divide(shares(100));
    Some(world)
}

fn addresses(world: &World, pod: &str) -> [IpAddr; 2] {
    let pod = &world.pods[pod];
    [pod.address(), pod.address6()].map(|text| text.parse().unwrap())
}

/// Fails unless all of [`PACKETS`] packets of at least this length count in this class.
fn assert_packets_counted(
    world: &World,
    name: &str,
    (flow, class): (Flow, TrafficClass),
    length: usize,
    act: impl FnOnce(),
) {
    let least = (PACKETS * length) as u64;
    let (found, bytes) = counted(world, flow, least, act);
    assert_eq!(found, class, "{name}: {bytes}");
    assert!(least > 0 && bytes >= least, "{name}: {bytes} of {least}");
}

/// The same of datagrams from the outside to this port of the node, by each family.
fn assert_counted(world: &World, name: &str, port: u16, datagram: &[u8], class: TrafficClass) {
    for (v6, header) in [(false, IPV4_HEADER), (true, IPV6_HEADER)] {
        let length = header + UDP_HEADER + datagram.len();
        let name = format!("{name}, IPv6 {v6}");
        let to = (Flow::Download, class);
        assert_packets_counted(world, &name, to, length, || {
            send(world, v6, port, datagram);
        });
    }
}

/// The same of packets of another protocol of IPv4.
fn assert_raw_counted(world: &World, protocol: i32, packet: &[u8], class: TrafficClass) {
    let length = IPV4_HEADER + packet.len();
    let name = format!("protocol {protocol}");
    let to = (Flow::Download, class);
    assert_packets_counted(world, &name, to, length, || {
        send_raw(world, protocol, packet);
    });
}

#[test]
fn packet_in_vxlan_or_geneve_counts_for_the_inner_pod() {
    let Some(world) = world_with(Tunnels::default()) else {
        return;
    };
    for (pod, class) in [("ls", LS), ("be", BE)] {
        for (to, protocol) in addresses(&world, pod).into_iter().zip([IPV4, IPV6]) {
            let packet = ip(to);
            let inner = frame(protocol, &packet);
            assert_counted(&world, "VXLAN", 4789, &vxlan(&inner), class);
            assert_counted(&world, "VXLAN", 8472, &vxlan(&inner), class);
            for words in [0, 1, 63] {
                let datagram = geneve(words, ETHERNET, &inner);
                assert_counted(
                    &world,
                    &format!("Geneve, {words} words"),
                    6081,
                    &datagram,
                    class,
                );
            }
            assert_counted(
                &world,
                "Geneve of IP",
                6081,
                &geneve(2, protocol, &packet),
                class,
            );
            // By a port that is no tunnel's.
            assert_counted(&world, "another port", 4790, &vxlan(&inner), SYSTEM);
        }
    }
}

#[test]
fn hostile_inner_headers_count_at_most_for_the_inner_pod() {
    let Some(world) = world_with(Tunnels::default()) else {
        return;
    };
    let [be, be6] = addresses(&world, "be");
    let plain = vxlan(&frame(IPV4, &ip(be)));
    let elsewhere = frame(
        IPV4,
        &[&ip("203.0.113.1".parse().unwrap())[..28], &plain].concat(),
    );
    // Where the inner IP header is.
    let network = 8 + 14;
    for (name, port, datagram, class) in [
        (
            "longer than it is",
            4789,
            with(plain.clone(), network + 2, 0xff),
            BE,
        ),
        (
            "shorter than it is",
            4789,
            with(plain.clone(), network + 2, 0),
            BE,
        ),
        (
            "header beyond the end",
            4789,
            with(plain.clone(), network, 0x4f),
            BE,
        ),
        (
            "header of nothing",
            4789,
            with(plain.clone(), network, 0x40),
            BE,
        ),
        (
            "a later fragment",
            4789,
            with(plain.clone(), network + 7, 9),
            BE,
        ),
        (
            "of another version",
            4789,
            with(plain.clone(), network, 0x65),
            SYSTEM,
        ),
        (
            "of no EtherType",
            4789,
            with(plain.clone(), 8 + 12, 0x99),
            SYSTEM,
        ),
        (
            "cut in the address",
            4789,
            plain[..network + 18].to_vec(),
            SYSTEM,
        ),
        ("cut in the frame", 4789, plain[..8 + 13].to_vec(), SYSTEM),
        ("cut in the header", 4789, plain[..4].to_vec(), SYSTEM),
        ("empty", 4789, Vec::new(), SYSTEM),
        (
            "IPv6, cut",
            4789,
            vxlan(&frame(IPV6, &ip(be6)[..39])),
            SYSTEM,
        ),
        ("in a second tunnel", 4789, vxlan(&elsewhere), SYSTEM),
        (
            "Geneve, cut in its options",
            6081,
            geneve(63, ETHERNET, &[])[..100].to_vec(),
            SYSTEM,
        ),
        (
            "Geneve, of version 1",
            6081,
            with(geneve(0, ETHERNET, &frame(IPV4, &ip(be))), 0, 0x40),
            SYSTEM,
        ),
        (
            "Geneve, of no protocol",
            6081,
            geneve(0, 0x1234, &ip(be)),
            SYSTEM,
        ),
    ] {
        assert_counted(&world, name, port, &datagram, class);
    }
}

/// A fragment but the first has no ports, by which a tunnel is known.
#[test]
fn outer_fragment_counts_for_the_pod_if_it_is_the_first() {
    let Some(world) = world_with(Tunnels::default()) else {
        return;
    };
    let [be, _] = addresses(&world, "be");
    let datagram = [vxlan(&frame(IPV4, &ip(be))), vec![0; 3000]].concat();
    let before = world.sent(Flow::Download);
    send(&world, false, 4789, &datagram);
    thread::sleep(Duration::from_millis(300));
    let after = world.sent(Flow::Download);
    let grown = |class| after[&class] - before[&class];
    assert!(grown(BE) >= (PACKETS * 1400) as u64, "{before:?} {after:?}");
    assert!(
        grown(SYSTEM) >= (PACKETS * 2000) as u64,
        "{before:?} {after:?}"
    );
}

#[test]
fn ip_in_ip_counts_for_the_inner_pod_if_the_node_has_such_a_tunnel() {
    for has_ip_in_ip in [false, true] {
        let run = move || {
            let tunnels = Tunnels {
                has_ip_in_ip,
                ..Tunnels::default()
            };
            let Some(world) = world_with(tunnels) else {
                return;
            };
            let [be, be6] = addresses(&world, "be");
            let class = if has_ip_in_ip { BE } else { SYSTEM };
            for (protocol, packet, class) in [
                (4, ip(be), class),
                (41, ip(be6), class),
                (4, ip(be6), SYSTEM),
                (41, ip(be), SYSTEM),
                (4, ip(be)[..19].to_vec(), SYSTEM),
                // GRE.
                (47, ip(be), SYSTEM),
            ] {
                assert_raw_counted(&world, protocol, &packet, class);
            }
        };
        thread::spawn(run).join().unwrap();
    }
}

#[test]
fn wireguard_counts_in_its_configured_class_both_ways() {
    for class in [LS, BE, SYSTEM] {
        let run = move || {
            let tunnels = Tunnels {
                udp: [(51820, TunnelKind::WireGuard)].into(),
                opaque_class: class,
                ..Tunnels::default()
            };
            let Some(world) = world_with(tunnels) else {
                return;
            };
            assert_counted(&world, "WireGuard", 51820, &[4; 900], class);
            let port = UdpSocket::bind("0.0.0.0:51820").unwrap();
            let to = SocketAddr::new(world.outside.address().parse().unwrap(), 51820);
            let send = || (0..PACKETS).for_each(|_| assert!(port.send_to(&[4; 900], to).is_ok()));
            let length = IPV4_HEADER + UDP_HEADER + 900;
            assert_packets_counted(&world, "sent", (Flow::Upload, class), length, send);
        };
        thread::spawn(run).join().unwrap();
    }
}

/// Makes a link; false, and a line that says so, where the kernel has none of its kind.
fn make(world: &World, kind: &str, more: &str) -> bool {
    let words = format!("link add tunnel0 type {kind} {more}");
    let words: Vec<&str> = words.split_whitespace().collect();
    let made = world.node.run("ip", &words);
    if let Err(why) = &made {
        eprintln!("skipped: this kernel makes no link of kind {kind}: {why}");
    }
    made.is_ok()
}

#[test]
fn tunnel_that_comes_and_goes_is_followed() {
    let Some(mut world) = world_with(Tunnels::default()) else {
        return;
    };
    let [be, _] = addresses(&world, "be");
    let inner = frame(IPV4, &ip(be));
    for (kind, more, datagram) in [
        ("vxlan", "id 7 dstport 5555 dev lo", vxlan(&inner)),
        (
            "geneve",
            "id 7 dstport 5555 remote 192.0.2.9",
            geneve(1, ETHERNET, &inner),
        ),
    ] {
        assert_counted(&world, kind, 5555, &datagram, SYSTEM);
        if !make(&world, kind, more) {
            continue;
        }
        assert_eq!(world.divide(shares(100)).changes, 1);
        assert_counted(&world, kind, 5555, &datagram, BE);
        assert_eq!(world.divide(shares(100)).changes, 0);
        world.node.run("ip", &["link", "del", "tunnel0"]).unwrap();
        assert_eq!(world.divide(shares(100)).changes, 1);
        assert_counted(&world, kind, 5555, &datagram, SYSTEM);
    }
}

#[test]
fn ip_in_ip_device_is_found() {
    let Some(mut world) = world_with(Tunnels::default()) else {
        return;
    };
    let [be, _] = addresses(&world, "be");
    if !make(&world, "ipip", "remote 192.0.2.9 local 192.0.2.8") {
        return;
    }
    world.divide(shares(100));
    assert_raw_counted(&world, 4, &ip(be), BE);
}

#[test]
fn wireguard_device_is_found_with_its_port() {
    let Some(mut world) = world_with(Tunnels::default()) else {
        return;
    };
    if !make(&world, "wireguard", "") {
        return;
    }
    // It chooses a port when it comes up.
    world
        .node
        .run("ip", &["link", "set", "tunnel0", "up"])
        .unwrap();
    let port = netqos_netlink::wireguard::listen_port("tunnel0")
        .unwrap()
        .unwrap();
    world.divide(shares(100));
    assert_counted(&world, "WireGuard", port, &[4; 900], LS);
}
