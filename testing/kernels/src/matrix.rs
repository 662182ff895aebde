//! The cells: each capability on each kernel, each variation on one.

use crate::cell::Outcome::{Missing, WorksOtherwise};
use crate::cell::{Cell, Row};
use crate::judge::Judge;
use crate::kernel::Kernel::{self, Newest, V5_10, V6_1, V6_12};

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
    plugin("plugin-tcx", "plugin: `\"hook\": \"tcx\"`", "hook=tcx")
        .except(&[(V5_10, Missing), (V6_1, Missing)]),
    plugin("plugin-ptp", "plugin: ptp", "attach=ptp"),
    plugin("plugin-macvlan", "plugin: macvlan", "attach=macvlan"),
    plugin("plugin-ipvlan", "plugin: ipvlan", "attach=ipvlan"),
    plugin("plugin-vlan", "plugin: vlan", "attach=vlan"),
    plugin("plugin-ipv6", "plugin: IPv6", "family=6"),
    tests(
        "tests-plugin",
        "tests of the plugin: ADD, CHECK, DEL, beside others, macvlan",
        "package=netqos-plugins target=bandwidth \
         only=add_is_idempotent,configuration_becomes,failed_add,del_restores,lives_beside,macvlan_pods",
    ),
    tests(
        "tests-rules",
        "tests of rules: marks, counters, repairs, rates",
        "package=netqos-datapath target=rules \
         only=a_rule_marks,applied_twice,programs_are_put_back,rates_take_effect,without_a_queue",
    ),
    tests(
        "tests-packets",
        "tests of rules: packets of every kind, random policies",
        "package=netqos-datapath target=rules_packets",
    ),
    tests(
        "tests-classes",
        "tests of classes: changes, repairs, what waits",
        "package=netqos-classes target=kernel \
         only=fair_leaves,what_waits,shares_take_effect,others_are_left_alone,hooks_of_both_kinds",
    ),
    uplink(
        "uplink",
        "classes: backend `kernel`, 14 and 6 of 20 Mbit/s",
        "",
    ),
    uplink("uplink-tc", "classes: backend `tc`, the same", "backend=tc").expect(WorksOtherwise),
    scenario("iperf-slow", "limits: `iperf-slow`", "scenario=iperf-slow"),
    scenario(
        "rules",
        "rules: `networkqos-story1-marks`",
        "scenario=networkqos-story1-marks",
    ),
    scenario(
        "rules-limit",
        "rules: `networkqos-story2-free-is-limited`",
        "scenario=networkqos-story2-free-is-limited",
    ),
    scenario(
        "rules-priorities",
        "rules: `networkqos-story3-priorities`",
        "scenario=networkqos-story3-priorities",
    ),
    scenario(
        "rules-secondary-network",
        "rules: `networkqos-secondary-network`",
        "scenario=networkqos-secondary-network",
    ),
    scenario(
        "rules-ipv6",
        "rules: `networkqos-ipv6`",
        "scenario=networkqos-ipv6",
    ),
    scenario(
        "rules-annotations",
        "rules: `networkqos-with-annotations`",
        "scenario=networkqos-with-annotations",
    ),
    scenario(
        "classes",
        "classes: `classes-story2-offline-yields`",
        "scenario=classes-story2-offline-yields",
    ),
    scenario(
        "classes-pod-limit",
        "classes: `classes-story3-a-pod-is-limited`",
        "scenario=classes-story3-a-pod-is-limited",
    ),
    scenario(
        "classes-backends",
        "classes: `classes-story4-backend-per-node`",
        "scenario=classes-story4-backend-per-node",
    ),
];

/// Variations, each tested on one kernel.
pub const VARIATIONS: &[(Kernel, Row)] = &[
    // A module that is missing.
    (
        V6_1,
        plugin("without-tbf", "no sch_tbf", "check=yes")
            .without(&["sch_tbf"])
            .expect(Missing),
    ),
    (
        V6_1,
        plugin("without-ifb", "no ifb", "check=yes")
            .without(&["ifb"])
            .expect(WorksOtherwise),
    ),
    (
        V6_1,
        plugin(
            "without-ifb-egress-ifb",
            "no ifb, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["ifb"])
        .expect(Missing),
    ),
    (
        V6_1,
        plugin(
            "without-ifb-macvlan",
            "no ifb, macvlan",
            "check=yes attach=macvlan",
        )
        .without(&["ifb"])
        .expect(Missing),
    ),
    (
        V6_1,
        plugin("without-cls-bpf", "no cls_bpf", "check=yes")
            .without(&["cls_bpf"])
            .expect(WorksOtherwise),
    ),
    (
        V6_1,
        plugin("without-ingress", "no sch_ingress", "check=yes")
            .without(&["sch_ingress"])
            .expect(WorksOtherwise),
    ),
    (
        V6_1,
        plugin(
            "without-ingress-egress-ifb",
            "no sch_ingress, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["sch_ingress"])
        .expect(Missing),
    ),
    (
        V6_1,
        plugin(
            "without-mirred-egress-ifb",
            "no act_mirred, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["act_mirred"])
        .expect(Missing),
    ),
    (
        V6_1,
        plugin(
            "without-u32-egress-ifb",
            "no cls_u32, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["cls_u32"])
        .expect(Missing),
    ),
    (
        V6_1,
        plugin(
            "without-nft-fwd",
            "no nft_fwd_netdev, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["nft_fwd_netdev"])
        .expect(WorksOtherwise),
    ),
    (
        V6_1,
        plugin(
            "without-nf-tables",
            "no nf_tables, `\"egress\": \"ifb\"`",
            "check=yes egress=ifb",
        )
        .without(&["nf_tables"])
        .expect(WorksOtherwise),
    ),
    (
        V6_1,
        plugin("without-veth", "no veth", "check=yes")
            .without(&["veth"])
            .expect(Missing),
    ),
    (
        V6_1,
        uplink("uplink-without-htb", "classes, no sch_htb", "kind=card")
            .card(1)
            .without(&["sch_htb"])
            .expect(Missing),
    ),
    (
        V6_1,
        uplink("uplink-without-ifb", "classes, no ifb", "kind=card")
            .card(1)
            .without(&["ifb"])
            .expect(Missing),
    ),
    (
        V6_1,
        uplink("uplink-without-cls-bpf", "classes, no cls_bpf", "kind=card")
            .card(1)
            .without(&["cls_bpf"])
            .expect(Missing),
    ),
    // Settings of the kernel.
    (
        V6_1,
        plugin("plugin-jit-harden", "`bpf_jit_harden=2`, plugin", "").sysctls(JIT_HARDENED),
    ),
    (
        V6_1,
        scenario(
            "rules-jit-harden",
            "`bpf_jit_harden=2`, `networkqos-story2-free-is-limited`",
            "scenario=networkqos-story2-free-is-limited",
        )
        .sysctls(JIT_HARDENED),
    ),
    (
        V6_1,
        uplink("uplink-jit-harden", "`bpf_jit_harden=2`, classes", "").sysctls(JIT_HARDENED),
    ),
    (
        V6_1,
        scenario(
            "rules-lockdown",
            "lockdown `confidentiality`, `networkqos-story2-free-is-limited`",
            "scenario=networkqos-story2-free-is-limited",
        )
        .command_line(LOCKDOWN),
    ),
    (
        V6_1,
        uplink("uplink-lockdown", "lockdown `confidentiality`, classes", "").command_line(LOCKDOWN),
    ),
    (
        V6_1,
        plugin("plugin-cgroup1", "cgroup v1, plugin", "cgroup=1"),
    ),
    (
        V6_1,
        uplink("uplink-cgroup1", "cgroup v1, classes", "cgroup=1"),
    ),
    (
        V6_1,
        plugin("plugin-fq", "`default_qdisc=fq`, plugin", "")
            .sysctls(&["net.core.default_qdisc=fq"]),
    ),
    // The root qdisc of the uplink.
    (
        V6_12,
        uplink(
            "uplink-fq",
            "`default_qdisc=fq`, card with one queue",
            "kind=card",
        )
        .card(1)
        .sysctls(&["net.core.default_qdisc=fq"]),
    ),
    (
        V6_12,
        uplink(
            "uplink-fq-codel",
            "`default_qdisc=fq_codel`, card with one queue",
            "kind=card",
        )
        .card(1)
        .sysctls(&["net.core.default_qdisc=fq_codel"]),
    ),
    (
        V6_12,
        uplink(
            "uplink-cake",
            "`default_qdisc=cake`, card with one queue",
            "kind=card",
        )
        .card(1)
        .sysctls(&["net.core.default_qdisc=cake"]),
    ),
    (
        V6_12,
        uplink("uplink-mq", "card with four queues", "kind=card").card(4),
    ),
    (
        V6_12,
        restored(
            "restore-fq",
            "root `fq` with parameters of its own",
            "preset=fq:limit:500:flow_limit:50",
        )
        .expect(WorksOtherwise),
    ),
    (
        V6_12,
        restored(
            "restore-fq-codel",
            "root `fq_codel` with parameters of its own",
            "preset=fq_codel:target:10ms:limit:500",
        )
        .expect(WorksOtherwise),
    ),
    (
        V6_12,
        restored(
            "restore-mq",
            "root `mq` set by hand, card with four queues",
            "kind=card preset=mq",
        )
        .card(4)
        .expect(WorksOtherwise),
    ),
    (
        V6_12,
        Row::new(
            "restore-meanwhile",
            "`default_qdisc` changed from fq_codel to fq before cleanup, card with four queues",
            "restore",
            Judge::RestoredByDefault,
        )
        .with("kind=card meanwhile=fq")
        .expect(WorksOtherwise)
        .card(4)
        .sysctls(&["net.core.default_qdisc=fq_codel"]),
    ),
    // Kinds of uplinks.
    (
        V6_12,
        uplink("uplink-bond", "bond of two links", "kind=bond"),
    ),
    (
        V6_12,
        uplink("uplink-team", "team of two links", "kind=team"),
    ),
    (
        V6_12,
        uplink(
            "uplink-bridge",
            "bridge with the uplink as its port",
            "kind=bridge",
        ),
    ),
    (
        V6_12,
        uplink("uplink-vlan", "VLAN on the uplink", "kind=vlan"),
    ),
    (
        V6_12,
        uplink(
            "uplink-clsact",
            "`--hook clsact` on a kernel with tcx",
            "hook=clsact",
        ),
    ),
    (
        V6_12,
        Row::new(
            "leaf",
            "two flows of a class and a sparse one, by leaf",
            "leaf",
            Judge::Leaf,
        ),
    ),
    (V6_1, uplink("uplink-ipv6", "classes, IPv6", "family=6")),
    (V6_12, uplink("uplink-ipv6", "classes, IPv6", "family=6")),
    (
        V6_12,
        uplink(
            "uplink-no-bypass",
            "`--divide-idle-lines`",
            "flags=--divide-idle-lines",
        ),
    ),
    (V6_12, NETKIT),
    (Newest, NETKIT),
    // Tunnels on the uplink.
    (V6_12, tunnel("tunnel-vxlan", "VXLAN", "tunnel=vxlan")),
    (V6_12, tunnel("tunnel-geneve", "Geneve", "tunnel=geneve")),
    (V6_12, tunnel("tunnel-ipip", "IPIP", "tunnel=ipip")),
    (
        V6_12,
        tunnel("tunnel-wireguard", "WireGuard", "tunnel=wireguard"),
    ),
];

const fn tests(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "tests_of_target", Judge::Tests).with(arguments)
}

const NETKIT: Row = Row::new(
    "netkit",
    "pod with an end of a netkit pair",
    "netkit",
    Judge::Netkit,
);
const JIT_HARDENED: &[&str] = &["net.core.bpf_jit_harden=2"];
const LOCKDOWN: &str = "lsm=lockdown,capability lockdown=confidentiality";

/// All cells, in the order in which they run: what fails soonest first.
pub fn cells() -> impl Iterator<Item = Cell> {
    let capabilities = CAPABILITIES.iter();
    let capabilities = capabilities.flat_map(|row| KERNELS.map(|kernel| Cell { kernel, row }));
    let variations = VARIATIONS.iter();
    capabilities.chain(variations.map(|(kernel, row)| Cell {
        kernel: *kernel,
        row,
    }))
}

/// The cell of a name, as `--only` takes it.
pub fn parse(name: &str) -> Result<Cell, String> {
    let found = cells().find(|cell| cell.to_string() == name);
    found.ok_or_else(|| "no such cell; --list prints them".to_owned())
}

const fn plugin(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "plugin", Judge::Plugin).with(arguments)
}

const fn uplink(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "uplink", Judge::Uplink).with(arguments)
}

const fn restored(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "restore", Judge::Restored).with(arguments)
}

const fn tunnel(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "tunnel", Judge::Tunnel).with(arguments)
}

const fn scenario(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "scenario", Judge::Scenario).with(arguments)
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
