//! From what a pod was promised to what a measurement should find, and whether it did.

use std::time::Duration;

use netqos_agent::{LineStatus, Status};
use netqos_api::koordinator::BackendKind;
use netqos_core::{BitRate, Direction};
use netqos_traffic::{Dscp, Sample};

use crate::manifest::{Expect, HeldTo, Measurement, Reaches, What};
use crate::node::{End, Node};
use crate::report::{Configured, Outcome, divided_by, rounded};

/// An Ethernet header, which limits count and payload does not. In bytes, as all below.
const ETHERNET: u32 = 14;
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;
/// With the timestamps that Linux sends by default (RFC 7323).
const TCP: u32 = 32;

/// What is not held to a rule gets so many times its rate at least. A rule's burst gives a short
/// measurement two or three times the rate; and any machine forwards more than ten times what
/// somebody limits to for a demonstration.
const BEYOND: u64 = 10;
/// How long what is to be reached is looked at: an interval or two of it say little.
const REACHED: Duration = Duration::from_millis(100);

/// What it is to be held to, else the narrowest limit of pods on the way, with what of it is left
/// for payload.
pub(crate) fn configured(
    node: &Node,
    measurement: &Measurement,
    from: &End<'_>,
    to: &End<'_>,
) -> Option<Configured> {
    if matches!(
        measurement.what,
        What::Latency { .. } | What::Udp { marks: true, .. }
    ) {
        return None;
    }
    let mtu = node.mtu(&measurement.from, &measurement.to, measurement.way());
    let senders = measurement.senders().count() as u64;
    let by = |rate: BitRate| Configured {
        pod: None,
        direction: None,
        rule: None,
        rate,
        payload: payload(rate, &measurement.what, senders, mtu, to.address.is_ipv4()),
    };
    let only = match &measurement.expect.held_to {
        Some(HeldTo::Rate(rate)) => return Some(by(*rate)),
        Some(HeldTo::Rule(rule, rate)) => {
            return Some(Configured {
                rule: Some(rule.to_string()),
                ..by(*rate)
            });
        }
        Some(HeldTo::Limit(direction)) => Some(*direction),
        None => None,
    };
    let limits = [
        (Direction::Egress, &measurement.from, from.limits.egress),
        (Direction::Ingress, &measurement.to, to.limits.ingress),
    ];
    let narrowest = limits
        .into_iter()
        .filter_map(|(direction, place, limit)| Some((direction, place, limit?)))
        .filter(|(direction, ..)| only.is_none_or(|only| only == *direction))
        .min_by_key(|(.., limit)| limit.rate);
    let (direction, place, limit) = narrowest?;
    Some(Configured {
        direction: Some(direction),
        pod: Some(place.clone()),
        ..by(limit.rate)
    })
}

/// Whether all lines of a node are divided by this backend, at least in one direction.
///
/// # Errors
/// Why they are not.
pub(crate) fn divided(by: BackendKind, status: &Status) -> Result<(), String> {
    if status.lines.is_empty() {
        return Err(format!("no line of {} is divided", status.node));
    }
    // Who only writes files counts nothing.
    let counts = matches!(by, BackendKind::Kernel | BackendKind::Tc);
    for line in &status.lines {
        let LineStatus { name, failing, .. } = line;
        let why = match failing.as_str() {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let is = divided_by(line);
        if is != by.name() {
            return Err(format!("{name} is divided by {is}, not {by}{why}"));
        }
        if counts && line.directions.iter().all(|way| way.rate.is_none()) {
            return Err(format!("{by} has no packets of {name}{why}"));
        }
    }
    Ok(())
}

/// How much payload fits a limit, which counts whole Ethernet frames; and no more than is sent.
fn payload(limit: BitRate, what: &What, senders: u64, mtu: u32, is_ipv4: bool) -> BitRate {
    let ip = if is_ipv4 { IPV4 } else { IPV6 };
    let (of_frame, frame, sent) = match what {
        What::Udp { rate, size, .. } => {
            let size = u32::try_from(*size).unwrap_or(u32::MAX);
            let all = rate.bits_per_second().saturating_mul(senders);
            let sent = BitRate::from_bits_per_second(all);
            (size, size.saturating_add(UDP + ip + ETHERNET), sent)
        }
        _ => (
            mtu.saturating_sub(ip + TCP),
            mtu.saturating_add(ETHERNET),
            BitRate::from_bits_per_second(u64::MAX),
        ),
    };
    let bits = u128::from(limit.bits_per_second()) * u128::from(of_frame) / u128::from(frame);
    let fits = BitRate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX));
    fits.min(sent)
}

/// What of the expectations did not come true, one sentence each; `None` when nothing was expected.
pub(crate) fn failures(
    expect: &Expect,
    configured: Option<&Configured>,
    outcome: &Outcome,
) -> Option<Vec<String>> {
    let mut checks = Vec::new();
    let rate = outcome.rate().unwrap_or(BitRate::from_bits_per_second(0));
    if let (Some(_), Some(configured)) = (&expect.held_to, configured) {
        let (is, should) = (
            rate.bits_per_second() as f64,
            configured.payload.bits_per_second() as f64,
        );
        let off = (is / should - 1.0) * 100.0;
        checks.push((
            off.abs() <= expect.tolerance,
            format!(
                "{} is {off:+.1} % from the {} that {} leaves for payload; {} % were allowed",
                rounded(rate),
                rounded(configured.payload),
                configured.limit(),
                expect.tolerance
            ),
        ));
    }
    if let Some(least) = expect.at_least {
        checks.push((
            rate >= least,
            format!("{} is less than {}", rounded(rate), rounded(least)),
        ));
    }
    if let Some(reaches) = expect.reaches {
        checks.push(reached(reaches, outcome));
    }
    if let Some((rule, limit)) = &expect.not_held_to {
        let least = limit.bits_per_second().saturating_mul(BEYOND);
        checks.push((
            rate.bits_per_second() >= least,
            format!(
                "{} is less than {BEYOND} times the {} that {rule} holds others to",
                rounded(rate),
                rounded(*limit)
            ),
        ));
    }
    let times = outcome.times();
    for (name, most, is) in [
        ("p50", expect.p50_at_most, times.map(|times| times.p50)),
        ("p99", expect.p99_at_most, times.map(|times| times.p99)),
    ] {
        if let Some(most) = most {
            let text = match is {
                Some(is) => format!("{name} of {is:.2?} is more than {most:.2?}"),
                None => format!("there is no {name}: nothing came back"),
            };
            checks.push((is.is_some_and(|is| is <= most), text));
        }
    }
    if let (Some(most), Some(loss)) = (expect.loss_at_most, outcome.loss_percent()) {
        let text = format!("{loss:.1} % were lost; {most} % were allowed");
        checks.push((loss <= most, text));
    }
    if let Some(dscp) = expect.dscp {
        checks.push(mark(dscp, outcome));
    }
    if checks.is_empty() {
        return None;
    }
    let failures = checks.into_iter().filter(|(holds, _)| !holds);
    Some(failures.map(|(_, text)| text).collect())
}

/// What arrived in the tenth of a second that begins when it is to be there.
fn reached(reaches: Reaches, outcome: &Outcome) -> (bool, String) {
    let Reaches { rate, within } = reaches;
    let (mut bytes, mut time) = (0_u64, Duration::ZERO);
    let samples = outcome
        .goodput()
        .map_or(&[][..], |goodput| &goodput.samples);
    let end = within.saturating_add(REACHED);
    // Samples end some microseconds too early or too late: each counts where its middle is.
    let is_within = |it: &&Sample| {
        let middle = it.at.saturating_sub(it.elapsed / 2);
        within < middle && middle <= end
    };
    for sample in samples.iter().filter(is_within) {
        bytes = bytes.saturating_add(sample.received.bytes());
        time += sample.elapsed;
    }
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let is = bits.checked_div(time.as_nanos()).unwrap_or_default();
    let is = BitRate::from_bits_per_second(u64::try_from(is).unwrap_or(u64::MAX));
    let text = format!(
        "{} after {within:.0?} is less than {}",
        rounded(is),
        rounded(rate)
    );
    (is >= rate, text)
}

fn mark(expected: Dscp, outcome: &Outcome) -> (bool, String) {
    let Outcome::Udp(report) = outcome else {
        return (false, "marks are not seen here".to_owned());
    };
    let seen: Vec<_> = report
        .dscp_seen
        .iter()
        .map(|seen| format!("{} on {}", seen.dscp, seen.datagrams))
        .collect();
    (
        matches!(&report.dscp_seen[..], [seen] if seen.dscp == expected),
        format!(
            "DSCP {expected} was expected, and there was {}",
            match &seen[..] {
                [] => "nothing".to_owned(),
                seen => seen.join(", "),
            }
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::RuleName;
    use netqos_agent::DirectionStatus;
    use netqos_core::{ByteCount, ObjectName};
    use netqos_traffic::{Flow, Goodput, LatencyReport, Quantiles, TcpReport};

    fn bits(bits: u64) -> BitRate {
        BitRate::from_bits_per_second(bits)
    }

    fn tcp() -> What {
        What::Tcp {
            streams: 1,
            congestion_control: None,
        }
    }

    #[test]
    fn who_divides_is_who_says_so_and_has_the_packets() {
        let line = |by: &str, rates: [Option<u64>; 2]| {
            let direction = |rate| DirectionStatus {
                rate,
                ..DirectionStatus::default()
            };
            LineStatus {
                name: "eth0".to_owned(),
                divided_by: by.to_owned(),
                failing: "no HTB".to_owned(),
                directions: rates.map(direction).into(),
                ..LineStatus::default()
            }
        };
        let (idle, one_way) = ([None, None], [None, Some(0)]);
        // What is amiss is not all: tc says it of what comes in, which nobody divides.
        let right = line("tc", one_way);
        for (by, lines, says) in [
            (BackendKind::Tc, vec![right.clone()], None),
            (
                BackendKind::Tc,
                vec![line("kernel", one_way)],
                Some("eth0 is divided by kernel, not tc: no HTB"),
            ),
            (
                BackendKind::Tc,
                vec![right.clone(), line("", one_way)],
                Some("eth0 is divided by nobody, not tc: no HTB"),
            ),
            (BackendKind::Tc, vec![], Some("no line of n is divided")),
            (
                BackendKind::Tc,
                vec![right, line("tc", idle)],
                Some("tc has no packets of eth0: no HTB"),
            ),
            (BackendKind::TerwayQos, vec![line("terway-qos", idle)], None),
            (
                BackendKind::TerwayQos,
                vec![line("", idle)],
                Some("eth0 is divided by nobody, not terway-qos: no HTB"),
            ),
        ] {
            let status = Status {
                node: "n".to_owned(),
                lines,
                ..Status::default()
            };
            assert_eq!(divided(by, &status).err().as_deref(), says);
        }
    }

    fn tcp_outcome(rate: BitRate) -> Outcome {
        Outcome::Tcp(TcpReport {
            flow: Flow::Upload,
            streams: 1,
            congestion_control: None,
            goodput: Goodput {
                rate,
                received: ByteCount::ZERO,
                elapsed: Duration::ZERO,
                samples: Vec::new(),
            },
        })
    }

    #[test]
    fn payload_is_what_the_headers_leave() {
        // 1448 of 1514 bytes: the 95.6 % that everybody knows.
        assert_eq!(
            payload(bits(10_000_000), &tcp(), 1, 1500, true),
            bits(9_564_068)
        );
        assert_eq!(
            payload(bits(10_000_000), &tcp(), 1, 1500, false),
            bits(9_431_968)
        );
        let udp = |rate| What::Udp {
            rate: bits(rate),
            size: 1400,
            dscp: Dscp::default(),
            marks: false,
        };
        assert_eq!(
            payload(bits(10_000_000), &udp(20_000_000), 1, 1500, true),
            bits(9_708_737)
        );
        assert_eq!(
            payload(bits(10_000_000), &udp(5_000_000), 1, 1500, true),
            bits(5_000_000)
        );
        assert_eq!(
            payload(bits(10_000_000), &udp(4_000_000), 2, 1500, true),
            bits(8_000_000),
            "both together"
        );
    }

    #[test]
    fn a_rate_is_held_on_both_sides() {
        let configured = Configured {
            direction: Some(Direction::Ingress),
            pod: Some(crate::manifest::Place::Node),
            rule: None,
            rate: bits(10_000_000),
            payload: bits(9_564_068),
        };
        let expect = Expect {
            held_to: Some(HeldTo::Limit(Direction::Ingress)),
            tolerance: 5.0,
            ..Expect::default()
        };
        for (rate, holds) in [
            (9_564_068, true),
            (9_100_000, true),
            (9_000_000, false),
            (10_030_000, true),
            (10_100_000, false),
        ] {
            let failures = failures(&expect, Some(&configured), &tcp_outcome(bits(rate))).unwrap();
            assert_eq!(failures.is_empty(), holds, "{rate}: {failures:?}");
        }
        assert_eq!(
            failures(&Expect::default(), Some(&configured), &tcp_outcome(bits(1))),
            None,
            "nothing was expected"
        );
    }

    #[test]
    fn what_is_not_held_to_a_rule_is_far_beyond_its_rate() {
        let rule = RuleName {
            object: ObjectName::new("games", "free"),
            index: 0,
        };
        let expect = Expect {
            not_held_to: Some((rule, bits(1_000_000))),
            ..Expect::default()
        };
        for (rate, failure) in [
            (10_000_000, None),
            (
                9_990_000,
                Some(
                    "9.99 Mbit/s is less than 10 times the 1 Mbit/s that games/free[0] holds others to",
                ),
            ),
        ] {
            let failures = failures(&expect, None, &tcp_outcome(bits(rate))).unwrap();
            assert_eq!(failures.first().map(String::as_str), failure);
        }
    }

    #[test]
    fn what_is_to_be_reached_is_looked_at_from_then_on() {
        let step = Duration::from_millis(20);
        let at = |number: u32, bytes: u64| Sample {
            at: step * number,
            elapsed: step,
            received: ByteCount::from_bytes(bytes),
        };
        // 10 Mbit/s are 25 kB in an interval.
        let outcome = |from: u32| {
            let samples =
                (1..=50).map(|number| at(number, if number > from { 25_000 } else { 10_000 }));
            let mut outcome = tcp_outcome(bits(0));
            if let Outcome::Tcp(report) = &mut outcome {
                report.goodput.samples = samples.collect();
            }
            outcome
        };
        let expect = Expect {
            reaches: Some(Reaches {
                rate: bits(10_000_000),
                within: Duration::from_millis(100),
            }),
            ..Expect::default()
        };
        for (from, failure) in [
            (0, None),
            (5, None),
            (6, Some("8.8 Mbit/s after 100ms is less than 10 Mbit/s")),
            (50, Some("4 Mbit/s after 100ms is less than 10 Mbit/s")),
        ] {
            let failures = failures(&expect, None, &outcome(from)).unwrap();
            assert_eq!(failures.first().map(String::as_str), failure, "{from}");
        }
        assert_eq!(
            failures(&expect, None, &tcp_outcome(bits(0)))
                .unwrap()
                .len(),
            1
        );
        // The last sample of the tenth of a second ends 90 µs late, with what a lost packet held up.
        let mut late = outcome(50);
        if let Outcome::Tcp(report) = &mut late {
            let last = &mut report.goodput.samples[9];
            last.at += Duration::from_micros(90);
            last.received = at(10, 90_000).received;
        }
        assert_eq!(failures(&expect, None, &late), Some(Vec::new()));
    }

    #[test]
    fn latency_and_loss_are_held_from_above() {
        let times = Quantiles::of(vec![Duration::from_millis(2)]).unwrap();
        let outcome = |lost| {
            Outcome::Latency(LatencyReport {
                sent: 10,
                received: 10 - lost,
                lost,
                round_trip: (lost < 10).then_some(times),
            })
        };
        let expect = Expect {
            p99_at_most: Some(Duration::from_millis(2)),
            loss_at_most: Some(10.0),
            ..Expect::default()
        };
        assert_eq!(failures(&expect, None, &outcome(1)).unwrap(), [""; 0]);
        assert_eq!(
            failures(&expect, None, &outcome(2)).unwrap(),
            ["20.0 % were lost; 10 % were allowed"]
        );
        assert_eq!(failures(&expect, None, &outcome(10)).unwrap().len(), 2);
    }
}
