//! The program of rules, as the kernel runs it, on packets that nobody sent.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use netqos_bpf::rules::{
    Bitmap, Block4, Chain, ChainFlags, ClassKey, CounterKey, Endpoint, PortKey, Rule, RuleKey,
    Rules, Verdict,
};
use netqos_bpf::{Pins, Settings};

use crate::bpffs;

const CHAIN: u64 = 0x1122_3344_5566_7788;
const CLASS: u64 = 42;
const ENDPOINT: u16 = 7;
const NETWORK: u32 = 3;

/// The rules in a BPF file system that nobody else sees; `None`, with a reason, where that cannot
/// be had.
fn rules() -> Option<(tempfile::TempDir, Rules)> {
    let folder = bpffs::private()?;
    let rules = Rules::ensure(folder.path()).unwrap();
    Some((folder, rules))
}

/// An Ethernet frame with a UDP datagram over IPv4, with this traffic class.
fn datagram(to: [u8; 4], port: u16, class: u8) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    let mut ip = vec![
        0x45, class, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, to[0], to[1], to[2], to[3],
    ];
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend(1000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 16, 0, 0]);
    frame.extend([0; 8]);
    frame
}

/// RFC 1071; 0 over a header whose checksum is right.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn prefixes_classes_and_ports_are_anded_and_the_first_rule_wins() {
    let Some((_folder, mut rules)) = rules() else {
        return;
    };
    // 0: the class, port 53 only. 1: 10.1.0.0/16. 2: anywhere but 10.1.2.0/24.
    let anywhere = Bitmap::default();
    let chain = Chain {
        words: 1,
        flags: ChainFlags::BLOCKS4 | ChainFlags::SETS | ChainFlags::PORTS,
        shadow: Bitmap::default(),
        anywhere,
        portless: Bitmap::of([1, 2]),
    };
    let block = |prefix: &str, of: &[usize]| {
        let key = Block4::new(CHAIN, prefix.parse().unwrap());
        rules
            .blocks4
            .put(&key, &Bitmap::of(of.iter().copied()))
            .unwrap();
    };
    block("0.0.0.0/0", &[2]);
    block("10.1.0.0/16", &[1, 2]);
    block("10.1.2.0/24", &[1]);
    let class = ClassKey {
        chain: CHAIN,
        class: CLASS,
    };
    rules.classes.put(&class, &Bitmap::of([0])).unwrap();
    for (port, of) in [(53, vec![0, 1, 2]), (0, vec![1, 2])] {
        let key = PortKey::new(CHAIN, 17, port);
        rules.ports.put(&key, &Bitmap::of(of)).unwrap();
    }
    for (index, dscp) in [10, 20, 30].into_iter().enumerate() {
        let rule = Rule::new(100 + index as u64, Some(dscp), 0, 0, false);
        let key = RuleKey::new(CHAIN, index as u32);
        rules.rules_of.put(&key, &rule).unwrap();
    }
    rules.chains.put(&CHAIN, &chain).unwrap();
    let endpoint = Endpoint::new(1, NETWORK, CHAIN, 0, 0);
    rules.endpoints.put(&ENDPOINT.into(), &endpoint).unwrap();
    let peer = "10.1.2.9".parse().unwrap();
    rules.networks.put(NETWORK, peer, CLASS).unwrap();

    for (to, port, marked) in [
        ([10, 1, 2, 9], 53, 10),
        ([10, 1, 2, 9], 54, 20),
        ([10, 1, 2, 8], 53, 20),
        ([10, 1, 3, 8], 53, 20),
        ([192, 0, 2, 1], 80, 30),
    ] {
        // The two bits of ECN are kept.
        let ran = rules.run(ENDPOINT, &datagram(to, port, 0x03), 1).unwrap();
        assert_eq!(ran.verdict, Verdict::Next);
        assert_eq!(ran.packet[15], marked << 2 | 0x03, "{to:?}:{port}");
        assert_eq!(checksum(&ran.packet[14..34]), 0);
    }
    let counters = rules.counters.all().unwrap();
    let first = CounterKey::new(101, ENDPOINT);
    let second = counters.iter().find(|(key, _)| *key == first).unwrap();
    assert_eq!((second.1.packets, second.1.marked), (3, 3));

    // Without the peer its rule is not met any more.
    rules.networks.remove_all(NETWORK, &[peer]).unwrap();
    let ran = rules
        .run(ENDPOINT, &datagram([10, 1, 2, 9], 53, 0), 1)
        .unwrap();
    assert_eq!(ran.packet[15], 20 << 2);
}

/// An Ethernet frame with a UDP datagram over IPv6, with this flow label.
fn datagram6(label: u32, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xDD]);
    frame.extend((0x6000_0000 | label).to_be_bytes());
    frame.extend([0, 16, 17, 64]);
    for host in [2, 9] {
        frame.extend([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    frame.extend(1000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 16, 0, 0]);
    frame.extend([0; 8]);
    frame
}

/// A socket chooses another label after a timeout, and a pod may choose one for each packet.
#[test]
fn packets_with_other_flow_labels_are_of_one_flow_and_other_ports_are_not() {
    const RULE: u64 = 100;
    let Some((folder, rules)) = rules() else {
        return;
    };
    let pins = Pins::ensure(folder.path()).unwrap();
    let chain = Chain {
        words: 1,
        flags: 0,
        shadow: Bitmap::default(),
        anywhere: Bitmap::of([0]),
        portless: Bitmap::of([0]),
    };
    rules.chains.put(&CHAIN, &chain).unwrap();
    // A packet takes a second of the limit, and a flow of a few packets is bulk.
    let settings = |owner| Settings {
        cost_per_byte: 1_000_000_000 / 70,
        bulk_bound: u64::MAX / 4,
        sparse_bound: u64::MAX / 4,
        flow_allowance: 100_000_000_000,
        band_allowance: u64::MAX / 4,
        owner,
        ..Settings::default()
    };
    let counted = |owner: u64, packets: &mut dyn Iterator<Item = Vec<u8>>| {
        let limiter = pins.limiters().claim(&settings(owner), None).unwrap();
        let rule = Rule::new(RULE, None, limiter.into(), 0, false);
        rules.rules_of.put(&RuleKey::new(CHAIN, 0), &rule).unwrap();
        let endpoint = Endpoint::new(1, NETWORK, CHAIN, 0, 0);
        rules.endpoints.put(&ENDPOINT.into(), &endpoint).unwrap();
        for packet in packets {
            rules.run(ENDPOINT, &packet, 1).unwrap();
        }
        let counters = pins.limiters().get(limiter).unwrap().unwrap().counters;
        (counters.sparse_packets, counters.bulk_packets)
    };
    let (sparse, bulk) = counted(1, &mut (0..100).map(|label| datagram6(label, 53)));
    assert_eq!(sparse + bulk, 100);
    assert!(bulk >= 80, "{bulk} of 100");
    let (sparse, bulk) = counted(2, &mut (0..100).map(|port| datagram6(7, 1000 + port)));
    assert_eq!((sparse, bulk), (100, 0));
}

#[test]
fn a_map_of_peers_grows_and_loses_nobody() {
    let Some((folder, mut rules)) = rules() else {
        return;
    };
    let address = |number: u32| std::net::IpAddr::from((0x0A00_0000 + number).to_be_bytes());
    for number in 0..3000 {
        let class = u64::from(number);
        rules.networks.put(1, address(number), class).unwrap();
    }
    let many: Vec<_> = (3000..20_000).map(|n| (address(n), u64::from(n))).collect();
    rules.networks.put_all(1, &many, many.len()).unwrap();
    // Another process finds them too.
    let mut again = Rules::open(folder.path()).unwrap().unwrap();
    let mut all = again.networks.all(1).unwrap();
    all.sort_unstable();
    let expected: Vec<_> = (0..20_000).map(|n| (address(n), u64::from(n))).collect();
    assert_eq!(all, expected);
    again.networks.forget(1).unwrap();
    assert_eq!(again.networks.networks().unwrap(), [0_u32; 0]);
}

/// A hash table of BPF puts an element's new value at the head of its bucket before it takes the old
/// one out: a lookup that has passed the head, and comes to the old one's place after that, finds
/// neither.
#[test]
fn peer_class_changes_peer_is_always_found() {
    // A peer for each bucket, so that most share theirs.
    const PEERS: usize = 1024;
    const RUNS: u32 = 6_000;
    let Some((folder, mut rules)) = rules() else {
        return;
    };
    let chain = Chain {
        words: 1,
        flags: ChainFlags::SETS,
        portless: Bitmap::of([0]),
        ..Chain::default()
    };
    for class in [CLASS, CLASS + 1] {
        let key = ClassKey {
            chain: CHAIN,
            class,
        };
        rules.classes.put(&key, &Bitmap::of([0])).unwrap();
    }
    let rule = Rule::new(100, Some(10), 0, 0, false);
    rules.rules_of.put(&RuleKey::new(CHAIN, 0), &rule).unwrap();
    rules.chains.put(&CHAIN, &chain).unwrap();
    let endpoint = Endpoint::new(1, NETWORK, CHAIN, 0, 0);
    rules.endpoints.put(&0, &endpoint).unwrap();
    let address = |peer: usize| (0x0A01_0000 + peer as u32).to_be_bytes();
    let peers: Vec<_> = (0..PEERS)
        .map(|peer| (address(peer).into(), CLASS))
        .collect();
    rules.networks.put_all(NETWORK, &peers, PEERS).unwrap();

    let other = Rules::open(folder.path()).unwrap().unwrap();
    let changing = AtomicUsize::new(0);
    let mut changes = 0;
    thread::scope(|scope| {
        let runner = scope.spawn(|| {
            for peer in 0..PEERS {
                changing.store(peer, Relaxed);
                let packet = datagram(address(peer), 80, 0);
                other.run_repeatedly(&packet, RUNS).unwrap();
            }
        });
        while !runner.is_finished() {
            changes += 1;
            let address = address(changing.load(Relaxed)).into();
            let class = CLASS + changes % 2;
            rules.networks.put(NETWORK, address, class).unwrap();
        }
    });
    assert!(changes > 1_000, "only {changes} changes");
    let counters = rules.counters.all().unwrap();
    let found: u64 = counters.iter().map(|(_, counter)| counter.packets).sum();
    let runs = PEERS as u64 * u64::from(RUNS);
    assert_eq!(runs - found, 0, "of {runs}, by {changes} changes");
}
