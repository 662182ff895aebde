//! Rules of iptables that choose a packet's class: by its source's set, and of processes on the host's
//! network by the number of their cgroup.
//!
//! The last rule that matches decides. They stand in `mangle`, which is asked before `nat`: what is
//! masqueraded has the pod's address still.

use std::collections::BTreeSet;

use netqos_core::classes::TrafficClass;
use netqos_netlink::Handle;

use super::command::{run, run_with};
use super::names::{self, Family};
use crate::Result;

const CHAIN: &str = "POSTROUTING";
/// Seconds to wait for others who change the tables.
const PATIENCE: &str = "5";

/// The rules of a family, as `iptables -S` prints them, without the `-A POSTROUTING` before. The
/// cgroups' numbers are those that processes have.
pub(super) fn wanted(family: Family, cgroups: &BTreeSet<u32>) -> Vec<String> {
    let classes = TrafficClass::ALL.map(|class| of_set(family, class));
    let cgroups = cgroups.iter().map(|number| of_cgroup(*number));
    classes
        .into_iter()
        .chain(cgroups)
        .chain([of_parts(family)])
        .collect()
}

fn of_set(family: Family, class: TrafficClass) -> String {
    let (set, class) = (family.class_set(class), printed(names::rest(class)));
    format!("-m set --match-set {set} src -j CLASSIFY --set-class {class}")
}

fn of_cgroup(number: u32) -> String {
    let class = printed(Handle::from_raw(number));
    format!("-m cgroup --cgroup {number} -j CLASSIFY --set-class {class}")
}

fn of_parts(family: Family) -> String {
    let set = family.parts_set();
    format!("-j SET --map-set {set} src --map-prio")
}

/// As iptables prints a class.
fn printed(class: Handle) -> String {
    format!("{:04x}:{:04x}", class.raw() >> 16, class.minor())
}

/// Those rules that are ours of what `iptables -S` says.
fn ours(family: Family, text: &str) -> Vec<String> {
    let beginning = format!("-A {CHAIN} ");
    let rules = text
        .lines()
        .filter_map(|line| line.strip_prefix(&beginning));
    rules
        .map(str::trim)
        .filter(|rule| is_ours(family, rule))
        .map(str::to_owned)
        .collect()
}

fn is_ours(family: Family, rule: &str) -> bool {
    let of_class = TrafficClass::ALL.map(|class| of_set(family, class));
    cgroup(rule).is_some() || of_class.iter().any(|known| known == rule) || rule == of_parts(family)
}

/// The cgroups' number that one of our rules is of.
fn cgroup(rule: &str) -> Option<u32> {
    let rest = rule.strip_prefix("-m cgroup --cgroup ")?;
    let number: u32 = rest.split(' ').next()?.parse().ok()?;
    let class = Handle::from_raw(number);
    let is_known = TrafficClass::ALL.map(names::rest).contains(&class) || names::is_part(class);
    (is_known && rule == of_cgroup(number)).then_some(number)
}

/// The cgroups' numbers that there are rules of.
pub(super) fn cgroups(family: Family) -> Result<BTreeSet<u32>> {
    Ok(read(family)?
        .iter()
        .filter_map(|rule| cgroup(rule))
        .collect())
}

fn read(family: Family) -> Result<Vec<String>> {
    let text = run(
        family.iptables(),
        &["-w", PATIENCE, "-t", "mangle", "-S", CHAIN],
    )?;
    Ok(ours(family, &text))
}

/// Makes the rules of a family these, in one go; how many differ.
pub(super) fn hold(family: Family, wanted: &[String]) -> Result<usize> {
    let found = read(family)?;
    if found == wanted {
        return Ok(0);
    }
    change(family, &found, wanted)?;
    let differing = |these: &[String], those: &[String]| {
        these.iter().filter(|rule| !those.contains(rule)).count()
    };
    // At least the order did.
    Ok((differing(&found, wanted) + differing(wanted, &found)).max(1))
}

/// Removes the rules of a family but for those that are of other people's sets; how many there were.
pub(super) fn remove(family: Family, others: &BTreeSet<String>) -> Result<usize> {
    let is_of_others = |rule: &String| {
        let mut classes = TrafficClass::ALL.into_iter();
        let is_of_class = classes.any(|class| {
            *rule == of_set(family, class) && others.contains(&family.class_set(class))
        });
        is_of_class || (*rule == of_parts(family) && others.contains(&family.parts_set()))
    };
    let mut ours = read(family)?;
    ours.retain(|rule| !is_of_others(rule));
    if !ours.is_empty() {
        change(family, &ours, &[])?;
    }
    Ok(ours.len())
}

/// Takes these rules away and puts those behind all others, in one go.
fn change(family: Family, removed: &[String], added: &[String]) -> Result<()> {
    let removed = removed.iter().map(|rule| format!("-D {CHAIN} {rule}\n"));
    let added = added.iter().map(|rule| format!("-A {CHAIN} {rule}\n"));
    let script: String = removed.chain(added).collect();
    run_with(
        family.iptables_restore(),
        &["-w", PATIENCE, "--noflush"],
        &format!("*mangle\n{script}COMMIT\n"),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_proposal_has_them_and_what_it_lacks_behind() {
        let cgroups = BTreeSet::from([0x1_0003, 0x1_0100]);
        let expected = [
            "-m set --match-set system_class_v6 src -j CLASSIFY --set-class 0001:0002",
            "-m set --match-set ls_class_v6 src -j CLASSIFY --set-class 0001:0003",
            "-m set --match-set be_class_v6 src -j CLASSIFY --set-class 0001:0004",
            "-m cgroup --cgroup 65539 -j CLASSIFY --set-class 0001:0003",
            "-m cgroup --cgroup 65792 -j CLASSIFY --set-class 0001:0100",
            "-j SET --map-set pod_class_v6 src --map-prio",
        ];
        assert_eq!(wanted(Family::V6, &cgroups), expected);
    }

    #[test]
    fn ours_are_told_from_others() {
        let text = "-P POSTROUTING ACCEPT\n\
            -A POSTROUTING -o eth0 -j MARK --set-xmark 0x1/0xffffffff\n\
            -A POSTROUTING -m set --match-set ls_class src -j CLASSIFY --set-class 0001:0003\n\
            -A POSTROUTING -m set --match-set ls_class src -j CLASSIFY --set-class 0001:0009\n\
            -A POSTROUTING -m set --match-set ls_class src -o eth0 -j CLASSIFY --set-class 0001:0003\n\
            -A POSTROUTING -m cgroup --cgroup 65539 -j CLASSIFY --set-class 0001:0003\n\
            -A POSTROUTING -m cgroup --cgroup 65540 -j CLASSIFY --set-class 0001:0003\n\
            -A POSTROUTING -m cgroup --cgroup 65545 -j CLASSIFY --set-class 0001:0009\n\
            -A POSTROUTING -m cgroup --cgroup 65792 -j DROP\n\
            -A POSTROUTING -j SET --map-set pod_class src --map-prio\n\
            -A POSTROUTING -j SET --map-set pod_class_v6 src --map-prio\n";
        let expected = [
            "-m set --match-set ls_class src -j CLASSIFY --set-class 0001:0003",
            "-m cgroup --cgroup 65539 -j CLASSIFY --set-class 0001:0003",
            "-j SET --map-set pod_class src --map-prio",
        ];
        assert_eq!(ours(Family::V4, text), expected);
    }
}
