//! One datagram may exceed a limiter's bound. Tested with packets that nobody sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use netqos_bpf::rules::{Bitmap, Chain, Crowd, Endpoint, Rule, RuleKey, Rules, Verdict};
use netqos_bpf::{Pins, Settings};
use netqos_testkit::Node;
use netqos_testkit::rules::Datagram;

const CHAIN: u64 = 1;
/// 10 kbit/s: what leaves the virtual queue during a test does not count.
const NANOS_PER_BYTE: u64 = 800_000;
/// Of a limit of 10 Mbit/s.
const BOUND: usize = 35_792;
const BEYOND: usize = 66_000;
const FRAME: usize = 1514;

/// A rule with a rate that two pods share.
struct Metered {
    _node: Node,
    rules: Rules,
    pins: Pins,
    owner: u64,
}

impl Metered {
    /// `None` when the test has to be skipped.
    fn new() -> Option<Self> {
        let node = Node::new().unwrap()?;
        let bpffs = Path::new("/sys/fs/bpf");
        let rules = Rules::ensure(bpffs).unwrap();
        let chain = Chain {
            words: 1,
            anywhere: Bitmap::of([0]),
            portless: Bitmap::of([0]),
            ..Chain::default()
        };
        rules.chains.put(&CHAIN, &chain).unwrap();
        for pod in 1..=2 {
            let endpoint = Endpoint::new(1, 0, CHAIN, 0, 0);
            rules.endpoints.put(&pod, &endpoint).unwrap();
        }
        Some(Self {
            _node: node,
            rules,
            pins: Pins::ensure(bpffs).unwrap(),
            owner: 0,
        })
    }

    /// Empties the virtual queue.
    fn reset(&mut self) {
        self.owner += 1;
        let bound = BOUND as u64 * NANOS_PER_BYTE;
        // 100 bytes are sparse, and a frame is not.
        let sparse = 16 * 100 * NANOS_PER_BYTE;
        let settings = Settings {
            cost_per_byte: NANOS_PER_BYTE,
            bulk_bound: bound,
            sparse_bound: 2 * bound,
            flow_allowance: sparse,
            band_allowance: sparse,
            owner: self.owner,
            ..Settings::default()
        };
        let limiter = self.pins.limiters().claim(&settings, None).unwrap();
        let crowd = Crowd::default();
        self.rules.crowds.claim(&limiter.into(), &crowd).unwrap();
        let rule = Rule::new(1, None, limiter.into(), 0, false);
        let key = RuleKey::new(CHAIN, 0);
        self.rules.rules_of.put(&key, &rule).unwrap();
    }

    /// The bytes of these frames of a pod that are admitted.
    fn admitted(&self, pod: u16, frames: &[Vec<u8>]) -> usize {
        let is_admitted = |frame: &&Vec<u8>| {
            let verdict = self.rules.run(pod, frame, 1).unwrap().verdict;
            verdict != Verdict::Drop
        };
        frames.iter().filter(is_admitted).map(Vec::len).sum()
    }
}

/// Both families: what is tested with one is tested with the other.
fn both_families(test: impl Fn(&mut Metered, Datagram)) {
    let Some(mut metered) = Metered::new() else {
        return;
    };
    for is_ipv6 in [false, true] {
        metered.reset();
        test(&mut metered, datagram(2, is_ipv6));
    }
}

fn datagram(host: u8, is_ipv6: bool) -> Datagram {
    let address = |host: u8| match is_ipv6 {
        false => IpAddr::from(Ipv4Addr::new(10, 0, 0, host)),
        true => IpAddr::from(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, host.into())),
    };
    Datagram {
        to_mac: [2, 0, 0, 0, 0, 1],
        from: address(host),
        to: address(9),
        number: host.into(),
    }
}

/// The fragments of the largest datagram, of so many bytes each.
fn fragments(of: Datagram, length: u16) -> Vec<Vec<u8>> {
    let size = if of.to.is_ipv6() { 65_535 } else { 65_515 };
    let fragment = |offset: u16| {
        let length = length.min(size - offset);
        of.fragment(offset, length, offset + length < size)
    };
    (0..size).step_by(length.into()).map(fragment).collect()
}

/// Later fragments without end.
fn endless(of: Datagram) -> Vec<Vec<u8>> {
    vec![of.fragment(1448, 1448, true); 200]
}

/// Frames of another host, more than the bound has room for.
fn bulk() -> Vec<Vec<u8>> {
    vec![datagram(3, false).fragment(0, 1480, false); 50]
}

fn bytes(frames: &[Vec<u8>]) -> usize {
    frames.iter().map(Vec::len).sum()
}

#[test]
fn large_datagram_into_empty_queue_is_admitted_whole() {
    both_families(|metered, datagram| {
        // Up to the longest frame that a test run takes.
        for length in [1232, 1448, 3000] {
            metered.reset();
            let sent = fragments(datagram, length);
            // What is sparse does not matter, before it or behind it.
            let small = [bulk()[0][..100].to_vec()];
            assert_eq!(metered.admitted(1, &small), 100);
            assert_eq!(metered.admitted(1, &sent), bytes(&sent), "{length}");
            assert_eq!(metered.admitted(1, &bulk()), 0);
            let other = self::datagram(4, datagram.to.is_ipv6());
            assert_eq!(metered.admitted(1, &fragments(other, length)), 0);
            let small = [self::datagram(5, datagram.to.is_ipv6()).fragment(0, 40, false)];
            assert_ne!(metered.admitted(1, &small), 0);

            // Not while another pod sends.
            metered.reset();
            let mut admitted = metered.admitted(1, &sent[..1]);
            admitted += metered.admitted(2, &bulk()[..1]);
            admitted += metered.admitted(1, &sent[1..]);
            assert!(admitted <= BOUND + sent[0].len(), "{admitted}");
        }
    });
}

#[test]
fn first_fragment_behind_full_frame_gets_the_bound_alone() {
    both_families(|metered, datagram| {
        metered.admitted(1, &bulk()[..1]);
        let admitted = metered.admitted(1, &fragments(datagram, 1448));
        assert!(admitted <= BOUND + FRAME, "{admitted}");
    });
}

#[test]
fn fragments_without_end_get_no_more_than_one_datagram() {
    both_families(|metered, datagram| {
        for (number, most) in [(1, BOUND + BEYOND + FRAME), (2, 0)] {
            let datagram = Datagram { number, ..datagram };
            let mut admitted = metered.admitted(1, &[datagram.fragment(0, 1448, true)]);
            admitted += metered.admitted(1, &endless(datagram));
            assert!(admitted <= most, "{admitted}");
        }
        // Neither are they more than a pod's share when two send.
        metered.reset();
        metered.admitted(1, &[datagram.fragment(0, 8, true)]);
        let turns = (0..100).map(|_| {
            let by_other = metered.admitted(2, &bulk()[..1]);
            [by_other, metered.admitted(1, &endless(datagram)[..1])]
        });
        let [other, endless] = turns.fold([0, 0], |sum, turn| [sum[0] + turn[0], sum[1] + turn[1]]);
        assert!(other > BOUND / 5, "{other}");
        assert!(endless <= BOUND, "{endless}");
    });
}

#[test]
fn of_many_datagrams_one_gets_more() {
    both_families(|metered, datagram| {
        let all = [2, 3, 4].map(|number| Datagram { number, ..datagram });
        for datagram in all {
            assert_ne!(metered.admitted(1, &[datagram.fragment(0, 8, true)]), 0);
        }
        let admitted = all.map(|datagram| metered.admitted(1, &endless(datagram)));
        let sum: usize = admitted.iter().sum();
        assert!(sum <= BOUND + BEYOND + FRAME, "{admitted:?}");

        // Those of another sender do not.
        metered.reset();
        let other = Datagram {
            number: 2,
            ..self::datagram(5, datagram.to.is_ipv6())
        };
        metered.admitted(1, &[datagram.fragment(0, 1448, true)]);
        let admitted = metered.admitted(1, &endless(other));
        assert!(admitted <= BOUND + FRAME, "{admitted}");
    });
}

/// A neighbour that has to be looked for lets later fragments overtake earlier ones.
#[test]
fn fragments_in_any_order_are_admitted_whole() {
    both_families(|metered, datagram| {
        let mut sent = fragments(datagram, 1448);
        sent.reverse();
        assert_eq!(metered.admitted(1, &sent), bytes(&sent));
    });
}
