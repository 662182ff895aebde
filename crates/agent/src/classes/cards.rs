//! What network cards carry, as the kernel says it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use netqos_core::BitRate;

use super::Recorded;
use super::plan::too_small;

/// Where the kernel says how fast links are.
pub(super) const LINKS: &str = "/sys/class/net";

/// What the total of an agent's lines is too small for, as it was kept, by what their cards carry now.
pub fn kept_total_problem(run: &Path) -> Option<String> {
    let kept = Recorded::read(run)?;
    let links = Path::new(LINKS);
    let lines = kept.uplinks.iter();
    let speeds = lines.map(|line| (line.clone(), speed(links, line)));
    too_small(&kept.slo()?, cards(links, &speeds.collect()))
}

/// What lines carry together that are all network cards, or bonds of such.
pub(super) fn cards(links: &Path, speeds: &BTreeMap<Arc<str>, Option<BitRate>>) -> Option<BitRate> {
    let is_card = |line: &str| {
        let mut signs = ["device", "bonding"].iter();
        signs.any(|sign| links.join(line).join(sign).exists())
    };
    let bits = speeds.iter().map(|(line, speed)| {
        let speed = speed.filter(|_| is_card(line));
        speed.map(BitRate::bits_per_second)
    });
    let bits: Option<u64> = bits.sum();
    bits.filter(|bits| *bits > 0)
        .map(BitRate::from_bits_per_second)
}

/// What a link carries, by its driver, which says megabits; virtual ones and those without a cable say
/// -1, or nothing.
pub(super) fn speed(links: &Path, line: &str) -> Option<BitRate> {
    let text = fs::read_to_string(links.join(line).join("speed")).ok()?;
    let megabits: u64 = text.trim().parse().ok()?;
    let bits = megabits.checked_mul(1_000_000)?;
    // What older drivers say for "unknown", as a number without a sign.
    let is_known = (1..u64::from(u32::MAX)).contains(&megabits);
    is_known.then(|| BitRate::from_bits_per_second(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A veth says 10 Gbit/s, and carries what the machine does.
    #[test]
    fn cards_are_links_with_a_device_and_bonds() {
        let links = tempfile::tempdir().unwrap();
        for (link, sign) in [("eth0", "device"), ("bond0", "bonding"), ("up0", "queues")] {
            fs::create_dir_all(links.path().join(link).join(sign)).unwrap();
        }
        let gbit = |gigabits: u64| Some(BitRate::from_bits_per_second(gigabits * 1_000_000_000));
        for (lines, together) in [
            (&[("eth0", gbit(10))][..], gbit(10)),
            (&[("eth0", gbit(10)), ("bond0", gbit(20))], gbit(30)),
            (&[("eth0", gbit(10)), ("up0", gbit(10))], None),
            (&[("eth0", None)], None),
            (&[], None),
        ] {
            let lines = lines.iter().map(|(line, speed)| ((*line).into(), *speed));
            assert_eq!(cards(links.path(), &lines.collect()), together);
        }
    }
}
