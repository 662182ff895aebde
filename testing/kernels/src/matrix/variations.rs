//! Variations of a machine, its kernel and its uplink.

use super::{plugin, scenario, uplink};
use crate::cell::Outcome::{Missing, WorksOtherwise};
use crate::cell::Row;
use crate::judge::Judge;
use crate::kernel::Kernel::{self, Newest, V5_10, V6_1, V6_12};

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
        no_rules("rules-without-ingress", "rules, no sch_ingress").without(&["sch_ingress"]),
    ),
    (
        V6_1,
        no_rules("rules-without-cls-bpf", "rules, no cls_bpf").without(&["cls_bpf"]),
    ),
    (
        V6_1,
        plugin("without-veth", "no veth", "check=yes")
            .without(&["veth"])
            .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-without-htb",
            "classes, no sch_htb",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["sch_htb"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-without-ifb",
            "classes, no ifb",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["ifb"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-without-cls-bpf",
            "classes, no cls_bpf",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["cls_bpf"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-without-ingress",
            "classes, no sch_ingress",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["sch_ingress"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-without-mirred",
            "classes, no act_mirred",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["act_mirred"])
        .expect(Missing),
    ),
    (
        V5_10,
        uplink(
            "uplink-without-fq-codel",
            "classes, no sch_fq_codel",
            "check=yes kind=card",
        )
        .card(1)
        .without(&["sch_fq_codel"]),
    ),
    (
        V6_1,
        uplink(
            "uplink-tc-without-ip-set",
            "classes, backend `tc`, no ip_set",
            "check=yes backend=tc",
        )
        .without(&["ip_set"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-tc-without-xt-set",
            "classes, backend `tc`, no xt_set",
            "check=yes backend=tc",
        )
        .without(&["xt_set"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-tc-without-xt-classify",
            "classes, backend `tc`, no xt_CLASSIFY",
            "check=yes backend=tc",
        )
        .without(&["xt_CLASSIFY"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-tc-without-hash-net",
            "classes, backend `tc`, no ip_set_hash_net",
            "check=yes backend=tc",
        )
        .without(&["ip_set_hash_net"])
        .expect(Missing),
    ),
    (
        V6_1,
        uplink(
            "uplink-tc-without-xt-cgroup",
            // Pods of the host's network are known by their cgroups.
            "classes, backend `tc`, no xt_cgroup, pods with a network of their own",
            "check=yes backend=tc",
        )
        .without(&["xt_cgroup"]),
    ),
    // Settings of the kernel.
    (
        V6_1,
        plugin("plugin-no-jit", "`bpf_jit_enable=0`, plugin", "check=yes").sysctls(NO_JIT),
    ),
    (
        V5_10,
        scenario(
            "rules-no-jit",
            "`bpf_jit_enable=0`, `networkqos-story2-free-is-limited`",
            "scenario=networkqos-story2-free-is-limited",
        )
        .sysctls(NO_JIT),
    ),
    (
        V6_1,
        scenario(
            "rules-no-jit",
            "`bpf_jit_enable=0`, `networkqos-story2-free-is-limited`",
            "scenario=networkqos-story2-free-is-limited",
        )
        .sysctls(NO_JIT),
    ),
    (
        V6_12,
        scenario(
            "rules-no-jit",
            "`bpf_jit_enable=0`, `networkqos-story2-free-is-limited`",
            "scenario=networkqos-story2-free-is-limited",
        )
        .sysctls(NO_JIT),
    ),
    (
        V6_1,
        uplink("uplink-no-jit", "`bpf_jit_enable=0`, classes", "check=yes").sysctls(NO_JIT),
    ),
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
        ),
    ),
    (
        V6_12,
        restored(
            "restore-fq-codel",
            "root `fq_codel` with parameters of its own",
            "preset=fq_codel:target:10ms:limit:500",
        ),
    ),
    (
        V6_12,
        restored(
            "restore-mq",
            "root `mq` set by hand, card with four queues",
            "kind=card preset=mq",
        )
        .card(4),
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

const NETKIT: Row = Row::new(
    "netkit",
    "pod with an end of a netkit pair",
    "netkit",
    Judge::Netkit,
);
const NO_JIT: &[&str] = &["net.core.bpf_jit_enable=0"];
const JIT_HARDENED: &[&str] = &["net.core.bpf_jit_harden=2"];
const LOCKDOWN: &str = "lsm=lockdown,capability lockdown=confidentiality";

const fn restored(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "restore", Judge::Restored).with(arguments)
}

const fn tunnel(name: &'static str, title: &'static str, arguments: &'static str) -> Row {
    Row::new(name, title, "tunnel", Judge::Tunnel).with(arguments)
}

/// A kernel on which `netqos check` says that rules cannot be enforced.
const fn no_rules(name: &'static str, title: &'static str) -> Row {
    Row::new(name, title, "programs", Judge::NoRules).expect(Missing)
}
