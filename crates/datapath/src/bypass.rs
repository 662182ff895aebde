//! Detection of packets that reach a pod past the queue at the host's end of its interface.
//!
//! A program of others at another link may hand a packet to the pod's end itself (`bpf_redirect_peer`, as Cilium does with
//! host routing, and Calico with its eBPF data plane): the host's end, with its queue, its hooks and its counters, never
//! sees it. So the pod's end has received more than the host's end has sent.
//!
//! Kernels before 6.7 (6.6.4, 6.1.120) do not count such packets at the pod's end ("net, bpf: Fix dev's rx stats for
//! bpf_redirect_peer traffic").

#[cfg(feature = "rules")]
use std::net::UdpSocket;
#[cfg(feature = "rules")]
use std::os::fd::AsFd;
#[cfg(feature = "rules")]
use std::time::Duration;
use std::time::Instant;

use netqos_core::{BitRate, ByteCount};
#[cfg(feature = "rules")]
use netqos_netlink::filter::{Bpf, Place};
use netqos_netlink::link::{Traffic, optional};
#[cfg(feature = "rules")]
use netqos_netlink::qdisc::Clsact;
#[cfg(feature = "rules")]
use netqos_netlink::{Handle, Namespace, Socket};

use crate::error::Doing;
use crate::{LimitDatapath, Result};

/// The part of the received bytes that the host's end has not seen, in percent, at which a limit is bypassed.
const LEAST_UNSEEN_PERCENT: u64 = 10;
/// The rate, in percent of the limit, above which it is.
const LEAST_RATE_PERCENT: u64 = 110;
/// The number of observations in a row that make it one.
const TIMES: u32 = 2;
/// The packets with which the kernel is tried: their number, their bytes, and their port.
#[cfg(feature = "rules")]
const PACKETS: usize = 10;
#[cfg(feature = "rules")]
const LENGTH: usize = 64;
#[cfg(feature = "rules")]
const DISCARD: u16 = 9;
/// The longest time until they are counted.
#[cfg(feature = "rules")]
const PATIENCE: Duration = Duration::from_millis(500);
/// The reason why the kernel lacks the counter, if it was tried.
#[cfg(feature = "rules")]
pub(crate) const NOT_COUNTED: &str = "it does not count them at the link that receives them";

/// The links by index: the host's end, and the pod's with the number of its namespace.
type Ends = (u32, u32, i32);

/// Traffic of both ends of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndCounts {
    ends: Ends,
    /// Bytes that the pod's end has received.
    received: u64,
    /// Bytes that the host's end has sent.
    sent: u64,
}

/// Observations of one ingress limit.
#[derive(Clone, Debug, Default)]
pub struct BypassDetector {
    last: Option<(Instant, EndCounts)>,
    times: u32,
}

impl BypassDetector {
    /// Adds an observation. Returns the rate at which the pod receives if its limit is bypassed.
    pub fn observe(&mut self, now: Instant, counts: EndCounts, limit: BitRate) -> Option<BitRate> {
        let last = self.last.replace((now, counts));
        let Some((then, last)) = last.filter(|(_, last)| last.ends == counts.ends) else {
            self.times = 0;
            return None;
        };
        let received = counts.received.saturating_sub(last.received);
        let unseen = received.saturating_sub(counts.sent.saturating_sub(last.sent));
        let nanos = now.saturating_duration_since(then).as_nanos();
        let nanos = nanos.min(u64::MAX.into()) as u64;
        let allowed = limit.bytes_in_nanos(nanos).bytes();
        let is_bypassed = unseen > 0
            && u128::from(unseen) * 100 >= u128::from(received) * u128::from(LEAST_UNSEEN_PERCENT)
            && u128::from(received) * 100 > u128::from(allowed) * u128::from(LEAST_RATE_PERCENT);
        self.times = if is_bypassed { self.times + 1 } else { 0 };
        (self.times >= TIMES).then(|| ByteCount::from_bytes(received).rate_over(nanos))
    }
}

impl LimitDatapath {
    /// Returns what went through both ends of an interface, by the index of the host's; `None` if an end is gone or another
    /// one than at the last observation. It enters no namespace.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn end_counts(
        &mut self,
        host: u32,
        detector: &BypassDetector,
    ) -> Result<Option<EndCounts>> {
        // The pod's end first: bytes that come between the two are seen.
        let ends = match detector.last {
            Some((_, last)) => last.ends,
            None => match self.end_traffic(host, None)?.and_then(|it| it.0) {
                Some(ends) => ends,
                None => return Ok(None),
            },
        };
        let (_, pod, namespace) = ends;
        let in_pod = self.end_traffic(pod, Some(namespace))?;
        let at_host = self.end_traffic(host, None)?;
        let at_host = at_host.filter(|(found, _)| *found == Some(ends));
        let both = in_pod.zip(at_host);
        Ok(both.map(|((_, in_pod), (_, at_host))| EndCounts {
            ends,
            received: in_pod.received,
            sent: at_host.sent,
        }))
    }

    /// Returns what went through a link, and the ends of the pair if it is the host's end of one.
    #[allow(clippy::type_complexity)]
    fn end_traffic(
        &mut self,
        index: u32,
        namespace: Option<i32>,
    ) -> Result<Option<(Option<Ends>, Traffic)>> {
        let found = self.host.socket.link_and_traffic(index, namespace);
        let found = optional(found).doing("count what goes through a link")?;
        Ok(found.map(|(link, traffic)| {
            let pod = link.related.zip(link.related_namespace);
            let pod = pod.filter(|_| link.is_pair_end());
            (pod.map(|(pod, namespace)| (index, pod, namespace)), traffic)
        }))
    }
}

/// Tries if the kernel counts packets that a program hands to the other end of a pair, between two network namespaces
/// that are gone afterwards.
///
/// # Errors
/// It does not, or it cannot be tried: why.
#[cfg(feature = "rules")]
pub(crate) fn try_counter() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (node, pod) = (Namespace::scratch()?, Namespace::scratch()?);
    let (mut socket, mut in_pod) = (Socket::open_in(&node)?, Socket::open_in(&pod)?);
    let (end, inside) = socket.add_veth_pair("probe-a", "probe-b", 1500)?;
    socket.set_link_up(&end, true)?;
    socket.move_link(&inside, &pod)?;
    let inside = in_pod.link_by_name(&inside.name)?;
    in_pod.set_link_up(&inside, true)?;
    // It has an address as soon as it is up.
    let lo = socket.link_by_name("lo")?;
    socket.set_link_up(&lo, true)?;
    socket.add_qdisc(&lo, Handle::CLSACT, Handle::new(0xFFFF, 0), &Clsact)?;
    let program = netqos_bpf::redirect_to_peer(end.index)?;
    let filter = Bpf {
        program: program.as_fd(),
        name: "probe",
        argument: 0,
    };
    let place = Place {
        hook: Handle::CLSACT_INGRESS,
        preference: 1,
        handle: 1,
    };
    socket.put_filter(&lo, place, &filter)?;
    let (_, before) = in_pod.link_and_traffic(inside.index, None)?;
    {
        let _inside = node.enter()?;
        let sender = UdpSocket::bind(("127.0.0.1", 0))?;
        for _ in 0..PACKETS {
            sender.send_to(&[0; LENGTH], ("127.0.0.1", DISCARD))?;
        }
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, after) = in_pod.link_and_traffic(inside.index, None)?;
        if after.received.saturating_sub(before.received) >= (PACKETS * LENGTH) as u64 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(NOT_COUNTED.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMIT: BitRate = BitRate::from_bits_per_second(8_000_000);

    /// What is found of observations: seconds since the first, kB received, kB sent by the host's end.
    fn found(observations: &[(u64, u64, u64)]) -> Vec<Option<u64>> {
        let (mut detector, began) = (BypassDetector::default(), Instant::now());
        let observe = |&(after, received, sent): &(u64, u64, u64)| {
            let counts = EndCounts {
                ends: (7, 2, 0),
                received: received * 1_000,
                sent: sent * 1_000,
            };
            let rate = detector.observe(began + Duration::from_secs(after), counts, LIMIT);
            rate.map(BitRate::bits_per_second)
        };
        observations.iter().map(observe).collect()
    }

    #[test]
    fn limit_is_bypassed_when_bytes_above_it_are_unseen_twice() {
        // 5,000 kB are what the limit allows in five seconds.
        let all = [
            (0, 0, 0),
            (5, 50_000, 0),
            (10, 100_000, 0),
            (15, 150_000, 0),
        ];
        let rate = Some(80_000_000);
        assert_eq!(found(&all), [None, None, rate, rate]);
        let part = [(0, 0, 0), (5, 6_000, 5_000), (10, 12_000, 10_000)];
        assert_eq!(found(&part), [None, None, Some(9_600_000)]);
    }

    #[test]
    fn limit_is_not_bypassed() {
        for (what, observations) in [
            (
                "all is seen",
                [(0, 0, 0), (5, 50_000, 50_000), (10, 100_000, 100_000)],
            ),
            (
                "below the limit",
                [(0, 0, 0), (5, 5_000, 0), (10, 10_000, 0)],
            ),
            (
                "little is unseen",
                [(0, 0, 0), (5, 50_000, 46_000), (10, 100_000, 92_000)],
            ),
            ("once", [(0, 0, 0), (5, 50_000, 0), (10, 100_000, 50_000)]),
            (
                "counters begin anew",
                [(0, 90_000, 0), (5, 50_000, 0), (10, 50_000, 0)],
            ),
        ] {
            assert_eq!(found(&observations), [None; 3], "{what}");
        }
    }

    #[test]
    fn counts_of_other_links_are_not_compared() {
        let mut detector = BypassDetector::default();
        let began = Instant::now();
        for times in 0..4 {
            let counts = EndCounts {
                ends: (7, 2 + times, 0),
                received: 50_000_000 * u64::from(times),
                sent: 0,
            };
            let now = began + Duration::from_secs(5 * u64::from(times));
            assert_eq!(detector.observe(now, counts, LIMIT), None);
        }
    }
}
