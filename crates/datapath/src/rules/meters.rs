//! A rule's rate: a limiter, and a pair of veths that queues for it.
//!
//! ```text
//!  pod's interface ─redirect─► nq…a: tbf + pfifo_fast ─► nq…b: return program ─► pod's interface
//! ```
//!
//! One pair on the node for each rule, whatever number of pods it selects: they share its rate.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use netqos_bpf::Pins;
use netqos_bpf::rules::{Crowd, Rules};
use netqos_core::plan::RuleId;
use netqos_core::{Bandwidth, BitRate, ByteCount, Limit};
use netqos_netlink::filter::{Bpf, Place};
use netqos_netlink::link::{Link, LinkChange, optional};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Socket};

use super::MeterStatus;
use super::tables::{MeterNumbers, rule_number};
use crate::error::Doing;
use crate::hook::ensure_clsact;
use crate::owner::Owner;
use crate::queue::{self, Found};
use crate::shape::largest_packet;
use crate::stall::Pace;
use crate::{Result, Shape};

/// Where the program stands that sends packets back.
const RETURN: Place = Place {
    hook: Handle::CLSACT_INGRESS,
    preference: 1,
    handle: 0x6e73,
};
const RETURN_NAME: &str = "netqos_return";
/// What the aliases of pairs start with; the rule's number follows. No attachment's tag has three parts.
const ALIAS: &str = "netqos:rule:";
/// The most bytes of an alias (`IFALIASZ`, with the zero at its end).
const ALIAS_BYTES: usize = 255;
/// The most links that the queues of rules take on a node: 512 rules. Five hundred pairs took 60 MB of kernel memory, and
/// a list of them 15 ms.
pub const MOST_RULE_LINKS: usize = 1024;
/// The links that a rule's queue takes.
pub(super) const LINKS_OF_QUEUE: usize = 2;
/// The largest that a veth may have: what comes through was within the pod's own.
const MTU: u32 = 65_535;
/// The kernel's default for veths (`GSO_LEGACY_MAX_SIZE`).
const GSO_MAX_SIZE: u32 = 65_536;
/// The longest that a policer without a queue saves up: with less, TCP does not reach the rate
/// over short ways (docs/rules.md has what was measured).
const POLICE_WAIT: Duration = Duration::from_millis(200);

/// A rule's rate in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meter {
    pub(super) made_for: Settings,
    pub(super) numbers: MeterNumbers,
    /// The index of the other end of its veth pair, or 0.
    pub(super) peer: u32,
    pub(super) status: MeterStatus,
}

impl Meter {
    /// Returns true if its pair is among these links.
    pub(super) fn is_at(&self, links: &BTreeSet<u32>) -> bool {
        links.contains(&self.numbers.queue) || links.contains(&self.peer)
    }
}

/// A meter that shall be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'r> {
    pub(super) rule: &'r RuleId,
    pub(super) settings: Settings,
}

/// What a meter shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) bandwidth: Bandwidth,
    pub(super) way: Way,
    /// The largest MTU of the pods that share it.
    pub(super) mtu: u32,
}

/// How a rate is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a pair of veths, in which packets wait.
    Queue,
    /// Without one: excess is dropped at once.
    Police,
    /// Not at all: what a queue would drop is counted.
    Shadow,
}

/// The names of a rule's pair.
fn names(rule: u64) -> (String, String) {
    // Forty bits; the whole number is in the alias.
    let number = rule >> 24;
    (format!("nq{number:010x}a"), format!("nq{number:010x}b"))
}

/// True for a name that [`names`] gives to the first end of a pair.
fn is_pairs_first(name: &str) -> bool {
    let digits = name
        .strip_prefix("nq")
        .and_then(|name| name.strip_suffix('a'));
    digits.is_some_and(|digits| {
        digits.len() == 10 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The aliases of a rule's pair: `netqos:rule:0123456789abcdef`, and on the second end the rule's name behind it. An
/// earlier version knows a pair by the bare number on its first end.
fn aliases(rule: &RuleId) -> [String; 2] {
    let number = format!("{ALIAS}{:016x}", rule_number(rule));
    let mut named = format!(
        "{number} egress[{}] of NetworkQoS {}",
        rule.index, rule.policy
    );
    // Names of objects are ASCII.
    named.truncate(ALIAS_BYTES);
    [number, named]
}

/// Returns the number of the rule for which this link, an end of a pair, was made.
fn number_in(link: &Link) -> Option<u64> {
    let rest = link.alias.as_deref()?.strip_prefix(ALIAS)?;
    let digits = rest.split_once(' ').map_or(rest, |(digits, _)| digits);
    u64::from_str_radix(digits, 16).ok()
}

/// Returns true for an end of a pair that queues for a rule.
pub fn is_rule_link(link: &Link) -> bool {
    number_in(link).is_some()
}

/// A programmed meter.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) meter: Meter,
    /// The number of writes to the kernel.
    pub(super) changes: u64,
    /// The number of packets that it dropped.
    pub(super) dropped: u32,
    /// The state of its queue before that, and the rate at which the queue must send.
    pub(super) queue_state: Option<(Statistics, Pace)>,
}

/// Makes a meter what it shall be. What is right already is not touched.
pub(super) fn apply(
    socket: &mut Socket,
    pins: &Pins,
    rules: &Rules,
    wanted: &Wanted<'_>,
) -> Result<Made> {
    let number = rule_number(wanted.rule);
    let Settings {
        bandwidth: Bandwidth { rate, burst },
        way,
        mtu,
    } = wanted.settings;
    let (mut changes, mut dropped, mut queue_state) = (0, 0, None);
    // Through the pair come packets of the pods' size, not of the pair's own.
    let queued = |gso_max_size| queued(wanted.settings.bandwidth, mtu, gso_max_size);
    let (shape, burst, queue) = if way == Way::Police {
        // The pair of before, if there was one, is spare from now on: see `Ends`.
        let wait = POLICE_WAIT.max(burst.map_or(Duration::ZERO, |burst| {
            Duration::from_nanos(rate.nanos_for(burst))
        }));
        let limit = Limit {
            rate,
            burst: None,
            latency: Some(wait),
        };
        let shape = Shape::for_packets(&limit, mtu, GSO_MAX_SIZE);
        (shape, rate.bytes_in_nanos(wait.as_nanos() as u64), None)
    } else if way == Way::Shadow {
        let shape = queued(GSO_MAX_SIZE);
        (shape, shape.burst, None)
    } else {
        let (pair, made) = ensure_pair(socket, rules, wanted.rule)?;
        changes += made;
        let shape = queued(pair.gso_max_size);
        let found = Found::read(socket, &pair)?;
        if found.tbf().is_none_or(|there| there != shape.tbf()) {
            changes += 1;
        }
        queue_state = Some((found.statistics(), shape.pace()));
        // No record says how long its bands are: netqos alone sets the length of a pair.
        dropped = queue::apply(socket, &pair, &found, &shape, true, &mut None)?;
        (shape, shape.burst, Some(pair))
    };
    let settings = shape.settings(Owner {
        id: number,
        network: 0,
    });
    let limiter = pins.limiters().claim(&settings, None)?;
    if rules.crowds.claim(&u32::from(limiter), &Crowd::default())? {
        changes += 1;
    }
    let meter = Meter {
        made_for: wanted.settings,
        peer: queue.as_ref().and_then(|pair| pair.related).unwrap_or(0),
        numbers: MeterNumbers {
            limiter,
            queue: queue.as_ref().map_or(0, |pair| pair.index),
        },
        status: MeterStatus {
            limiter,
            queue: queue.map(|pair| pair.name),
            rate,
            burst,
        },
    };
    Ok(Made {
        meter,
        changes,
        dropped,
        queue_state,
    })
}

/// The least burst that a user may ask for: one packet of the largest kind, which TCP sends at
/// once, or what passes in a tenth of a second. Where nobody asks, netqos knows better: it cuts up
/// such packets at low rates.
fn least_burst(rate: BitRate, gso_max_size: u32) -> ByteCount {
    largest_packet(gso_max_size).min(rate.bytes_in_nanos(100_000_000))
}

/// The burst that a rule's rate gets with a queue, where its interfaces have this MTU and the kernel's
/// other defaults: more than is asked for where that is too little. For who says so before anything is
/// in force.
pub fn usual_burst(bandwidth: Bandwidth, mtu: u32) -> ByteCount {
    queued(bandwidth, mtu, GSO_MAX_SIZE).burst
}

/// The settings of a rule's queue.
fn queued(Bandwidth { rate, burst }: Bandwidth, mtu: u32, gso_max_size: u32) -> Shape {
    let limit = Limit {
        rate,
        burst: burst.map(|burst| burst.max(least_burst(rate, gso_max_size))),
        latency: None,
    };
    let shape = Shape::for_packets(&limit, mtu, gso_max_size);
    match burst {
        // With a large burst and a low rate TCP recovers slowly from losses of segmented packets: in the first
        // ten seconds at 1 Mbit/s, goodput was 8 % below to 25 % above the rate.
        Some(_) => shape.uncut(),
        None => shape,
    }
}

/// Returns true if there is a pair for this rule.
pub(super) fn has_pair(socket: &mut Socket, rule: &RuleId) -> Result<bool> {
    let number = rule_number(rule);
    let there = optional(socket.link_by_name(&names(number).0)).doing("find link")?;
    Ok(there.is_some_and(|link| number_in(&link) == Some(number)))
}

/// The end of the pair into which packets are redirected, made whole.
fn ensure_pair(socket: &mut Socket, rules: &Rules, rule: &RuleId) -> Result<(Link, u64)> {
    let number = rule_number(rule);
    let (name, peer) = names(number);
    let mut changes = 0;
    let there = optional(socket.link_by_name(&name)).doing("find link")?;
    let is_ours = |link: &Link| link.alias.is_none() || number_in(link) == Some(number);
    let pair = match there.filter(is_ours) {
        Some(link) => (link, socket.link_by_name(&peer).doing("find link")?),
        None => {
            changes += 1;
            socket
                .add_veth_pair(&name, &peer, MTU)
                .doing("adding link")?
        }
    };
    for (end, alias) in [&pair.0, &pair.1].into_iter().zip(aliases(rule)) {
        if end.alias.as_ref() != Some(&alias) {
            let change = LinkChange {
                alias: Some(alias),
                ..LinkChange::default()
            };
            socket.change_link(end, &change).doing("tag link")?;
        }
    }
    for end in [&pair.0, &pair.1] {
        if !end.is_up {
            changes += 1;
            // Nobody is to be found there; without IPv6 nothing is looked for.
            let setting = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.name);
            let _ = fs::write(setting, "1");
            socket.set_link_up(end, true).doing("set link up")?;
        }
    }
    if !has_return_program(socket, rules, &pair.1)? {
        changes += 1;
        ensure_clsact(socket, &pair.1)?;
        let filter = Bpf {
            program: rules.return_program()?,
            name: RETURN_NAME,
            argument: 0,
        };
        socket
            .put_filter(&pair.1, RETURN, &filter)
            .doing("add filter")?;
    }
    Ok((pair.0, changes))
}

fn has_return_program(socket: &mut Socket, rules: &Rules, end: &Link) -> Result<bool> {
    let installed = socket.filters(end, RETURN.hook).doing("list filters")?;
    let program = rules.return_program_id()?;
    Ok(installed.iter().any(|filter| {
        filter.place == RETURN && filter.bpf().is_some_and(|bpf| bpf.program_id == program)
    }))
}

/// Returns true if a meter's queue is as it was made.
pub(super) fn is_intact(socket: &mut Socket, rules: &Rules, meter: &Meter) -> Result<bool> {
    let Settings { bandwidth, mtu, .. } = meter.made_for;
    for index in [meter.numbers.queue, meter.peer] {
        let Some(end) = optional(socket.link_by_index(index)).doing("find link")? else {
            return Ok(false);
        };
        let is_right = if index == meter.peer {
            has_return_program(socket, rules, &end)?
        } else {
            let found = Found::read(socket, &end)?;
            let tbf = queued(bandwidth, mtu, end.gso_max_size).tbf();
            found.has_bands() && found.tbf().is_some_and(|there| there == tbf)
        };
        if !(end.is_up && is_right) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drops the packets in a meter's queue. Returns their number.
pub(super) fn empty(socket: &mut Socket, meter: &Meter) -> Result<u32> {
    let Settings { bandwidth, mtu, .. } = meter.made_for;
    let pair = socket
        .link_by_index(meter.numbers.queue)
        .doing("find link")?;
    let found = Found::read(socket, &pair)?;
    let shape = queued(bandwidth, mtu, pair.gso_max_size);
    let queued = found.statistics().queued_packets;
    queue::empty(socket, &pair, &found, &shape, queued)
}

/// Takes a meter away: its limiter now. Its pair is [spare](Ends) from then on.
pub(super) fn release(pins: &Pins, rules: &Rules, rule: u64, limiter: u16) -> Result<()> {
    // The limiter last: who is killed in between finds it again, and with it the rest.
    rules.crowds.remove(&u32::from(limiter))?;
    pins.limiters().release(limiter, rule)?;
    Ok(())
}

/// The ends of pairs on this node.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The number of those of pairs in use.
    pub(super) used: usize,
    /// Those of all other pairs.
    pub(super) spare: Vec<Link>,
}

/// Returns the ends of pairs on this node. A pair is in use if this is true of its rule's number.
pub(super) fn ends(socket: &mut Socket, in_use: impl Fn(u64) -> bool) -> Result<Ends> {
    let mut ends = Ends::default();
    for link in socket.links().doing("list links")? {
        match number_in(&link) {
            Some(number) if in_use(number) => ends.used += 1,
            Some(_) => ends.spare.push(link),
            // Whoever made it was killed before it could say whose it is.
            None if link.alias.is_none() && is_pairs_first(&link.name) => ends.spare.push(link),
            None => {}
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use netqos_core::ObjectName;

    use super::*;

    fn link(alias: &str) -> Link {
        Link {
            alias: Some(alias.to_owned()),
            ..Link::default()
        }
    }

    #[test]
    fn alias_names_the_rule_and_is_read_back() {
        let rule = |namespace: &str, name: &str| RuleId {
            policy: ObjectName::new(namespace, name),
            index: 3,
        };
        let free = rule("games", "free");
        let number = format!("netqos:rule:{:016x}", rule_number(&free));
        let named = format!("{number} egress[3] of NetworkQoS games/free");
        assert_eq!(aliases(&free), [number, named]);
        let long = rule(&"n".repeat(63), &"p".repeat(253));
        assert_eq!(aliases(&long)[1].len(), 255);
        for rule in [free, long] {
            for alias in aliases(&rule) {
                assert_eq!(number_in(&link(&alias)), Some(rule_number(&rule)));
                // No attachment is looked for by it.
                assert!(alias.parse::<netqos_core::Tag>().is_err());
            }
        }
    }

    #[test]
    fn aliases_of_other_links_are_not_rules() {
        assert_eq!(number_in(&link("netqos:rule:00000000000000ff")), Some(255));
        for alias in [
            "",
            "netqos:rule:",
            "netqos:line:up0",
            "netqos:net:a:eth0",
            "uplink",
        ] {
            assert!(!is_rule_link(&link(alias)), "{alias}");
        }
        assert!(!is_rule_link(&Link::default()));
    }
}
