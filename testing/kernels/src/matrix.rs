//! The cells: each capability on each kernel, each variation on one.

/// A scenario of `examples`, which its title names.
macro_rules! scenario {
    ($name:expr, $title:literal, $scenario:literal) => {
        Row::new(
            $name,
            concat!($title, " `", $scenario, "`"),
            "scenario",
            Judge::Scenario,
        )
        .with(concat!("scenario=", $scenario))
    };
}

mod variations;

use crate::cell::Outcome::{Missing, WorksOtherwise};
use crate::cell::{Cell, Row};
use crate::judge::Judge;
use crate::kernel::Kernel::{self, Newest, V5_10, V6_1, V6_12};

type Text = &'static str;

/// The columns of the table.
pub const KERNELS: [Kernel; 4] = [V5_10, V6_1, V6_12, Newest];

/// Capabilities, which each kernel is tested for.
pub const CAPABILITIES: &[Row] = &[
    Row::new(
        "programs",
        "`netqos check` loads all programs",
        "programs",
        Judge::Programs,
    )
    .except(&[(V5_10, WorksOtherwise), (V6_1, WorksOtherwise)]),
    Row::new(
        "programs-without-conntrack",
        "the same without nf_conntrack",
        "programs",
        Judge::ProgramsWithoutConntrack,
    )
    .with("conntrack=no")
    .expect(WorksOtherwise),
    plugin("plugin", "plugin: bridge, 10 Mbit/s", ""),
    plugin("plugin-ifb", "plugin: `\"egress\": \"ifb\"`", "egress=ifb"),
    plugin(
        "plugin-tcx",
        "plugin: `\"hook\": \"tcx\"`",
        "check=yes hook=tcx",
    )
    .except(&[(V5_10, Missing), (V6_1, Missing)]),
    plugin("plugin-ptp", "plugin: ptp", "attach=ptp"),
    plugin("plugin-macvlan", "plugin: macvlan", "attach=macvlan"),
    plugin("plugin-ipvlan", "plugin: ipvlan", "attach=ipvlan"),
    plugin("plugin-vlan", "plugin: vlan", "attach=vlan"),
    plugin("plugin-ipv6", "plugin: IPv6", "family=6"),
    tests(
        "tests-plugin",
        "tests of the plugin: ADD, CHECK, DEL, beside others, macvlan",
        "package=netqos-plugins target=others only=bandwidth::add_is_idempotent,\
         bandwidth::configuration_becomes,bandwidth::failed_add,bandwidth::del_restores,\
         bandwidth::lives_beside,bandwidth::macvlan_pods",
    ),
    tests(
        "tests-rules",
        "tests of rules: marks, counters, repairs, rates",
        "package=netqos-datapath target=links only=rules::a_rule_marks,rules::applied_twice,\
         rules::programs_are_put_back,rules::rates_take_effect,rules::without_a_queue",
    ),
    tests(
        "tests-limit-changes",
        "tests of limits: random changes under load, repairs",
        "package=netqos-datapath target=links \
         only=limit_change_keeps_flow,limits::applied_twice,limits_take_effect,the_pods_end,a_redirect,beside_calico",
    ),
    tests(
        "tests-agent",
        "tests of the agent: ingress limits that are bypassed, Calico",
        "package=netqos-agent target=others only=bypassed_limit_is_found,\
         unverified_limit,rules_of_the_sender,beside_calico",
    ),
    tests(
        "tests-rule-changes",
        "tests of rules: random changes under load, repairs, stalled queues",
        "package=netqos-datapath target=links only=meter_change_keeps_flow,rule_repair",
    ),
    tests(
        "tests-class-changes",
        "tests of classes: random changes under load, stalled queues",
        "package=netqos-classes target=links only=limit_changes,stalled_leaves",
    )
    .except(&[(V5_10, WorksOtherwise)]),
    tests(
        "tests-packets",
        "tests of rules: packets of every kind, random policies",
        // Not that a machine's throughput is high.
        "package=netqos-datapath target=others \
         only=beside_other,counted_as_they_are,switched_in,packets_of_every,sctp_goes,program_decides",
    ),
    tests(
        "tests-classes",
        "tests of classes: changes, repairs, what waits",
        "package=netqos-classes target=links only=kernel::fair_leaves,kernel::what_waits,\
         kernel::shares_take_effect,kernel::others_are_left_alone,kernel::hooks_of_both_kinds",
    ),
    uplink(
        "uplink",
        "classes: backend `kernel`, 14 and 6 of 20 Mbit/s",
        "",
    ),
    uplink(
        "uplink-tc",
        "classes: backend `tc`, egress only",
        "backend=tc",
    ),
    scenario!("iperf-slow", "limits:", "iperf-slow"),
    scenario!("rules", "rules:", "networkqos-story1-marks"),
    scenario!("rules-limit", "rules:", "networkqos-story2-free-is-limited"),
    scenario!("rules-priorities", "rules:", "networkqos-story3-priorities"),
    scenario!(
        "rules-secondary-network",
        "rules:",
        "networkqos-secondary-network"
    ),
    scenario!("rules-ipv6", "rules:", "networkqos-ipv6"),
    scenario!("rules-annotations", "rules:", "networkqos-with-annotations"),
    scenario!("classes", "classes:", "classes-story2-offline-yields"),
    scenario!(
        "classes-pod-limit",
        "classes:",
        "classes-story3-a-pod-is-limited"
    ),
    scenario!(
        "classes-backends",
        "classes:",
        "classes-story4-backend-per-node"
    ),
];

const fn tests(name: Text, title: Text, arguments: Text) -> Row {
    Row::new(name, title, "tests_of_target", Judge::Tests)
        .with(arguments)
        // They skip what needs tcx hooks.
        .except(&[(V5_10, WorksOtherwise), (V6_1, WorksOtherwise)])
}

/// All cells, in the order in which they run: what fails soonest first.
pub fn cells() -> impl Iterator<Item = Cell> {
    let capabilities = CAPABILITIES.iter();
    let capabilities = capabilities.flat_map(|row| KERNELS.map(|kernel| Cell { kernel, row }));
    capabilities.chain(variations())
}

/// The cells of variations.
pub fn variations() -> impl Iterator<Item = Cell> {
    let groups = variations::VARIATIONS.iter();
    groups.flat_map(|(kernels, rows)| {
        let cells = move |row| kernels.iter().map(move |&kernel| Cell { kernel, row });
        rows.iter().flat_map(cells)
    })
}

/// The cell of a name, as `--only` takes it.
pub fn parse(name: &str) -> Result<Cell, String> {
    let found = cells().find(|cell| cell.to_string() == name);
    found.ok_or_else(|| "no such cell; --list prints them".to_owned())
}

const fn plugin(name: Text, title: Text, arguments: Text) -> Row {
    Row::new(name, title, "plugin", Judge::Plugin).with(arguments)
}

const fn uplink(name: Text, title: Text, arguments: Text) -> Row {
    Row::new(name, title, "uplink", Judge::Uplink).with(arguments)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::repository;

    #[test]
    fn cell_names_are_unique() {
        let names: BTreeSet<String> = cells().map(|cell| cell.to_string()).collect();
        assert_eq!(names.len(), cells().count());
        assert!(names.iter().all(|name| parse(name).is_ok()));
    }

    #[test]
    fn kernels_page_has_every_row_of_the_matrix() {
        let page = fs::read_to_string(repository().join("docs/kernels.md")).unwrap();
        let titles: BTreeSet<&str> = cells().map(|cell| cell.row.title).collect();
        for title in titles {
            let row = format!("| {title} |");
            assert!(page.contains(&row), "{row}: make test-kernels ARGS=--table");
        }
    }
}
