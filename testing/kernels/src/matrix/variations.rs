//! Variations of a machine, its kernel and its uplink.

use super::{Text, plugin, uplink};
use crate::cell::Outcome::{Missing, WorksOtherwise};
use crate::cell::Row;
use crate::judge::Judge;
use crate::kernel::Kernel::{self, Newest, V5_10, V6_1, V6_12};

/// Kernels, and the variations that are tested on each of them.
pub const VARIATIONS: &[(&[Kernel], &[Row])] = &[
    (
        &[V6_1],
        &[
            // A module that is missing.
            without("without-tbf", "no sch_tbf", &["sch_tbf"]).expect(Missing),
            without("without-ifb", "no ifb", &["ifb"]).expect(WorksOtherwise),
            ifb_without(
                "without-ifb-egress-ifb",
                "no ifb, `\"egress\": \"ifb\"`",
                &["ifb"],
            )
            .expect(Missing),
            plugin(
                "without-ifb-macvlan",
                "no ifb, macvlan",
                "check=yes attach=macvlan",
            )
            .without(&["ifb"])
            .expect(Missing),
            without("without-cls-bpf", "no cls_bpf", &["cls_bpf"]).expect(WorksOtherwise),
            without("without-ingress", "no sch_ingress", &["sch_ingress"]).expect(WorksOtherwise),
            ifb_without(
                "without-ingress-egress-ifb",
                "no sch_ingress, `\"egress\": \"ifb\"`",
                &["sch_ingress"],
            )
            .expect(Missing),
            ifb_without(
                "without-mirred-egress-ifb",
                "no act_mirred, `\"egress\": \"ifb\"`",
                &["act_mirred"],
            )
            .expect(Missing),
            ifb_without(
                "without-u32-egress-ifb",
                "no cls_u32, `\"egress\": \"ifb\"`",
                &["cls_u32"],
            )
            .expect(Missing),
            ifb_without(
                "without-nft-fwd",
                "no nft_fwd_netdev, `\"egress\": \"ifb\"`",
                &["nft_fwd_netdev"],
            )
            .expect(WorksOtherwise),
            ifb_without(
                "without-nf-tables",
                "no nf_tables, `\"egress\": \"ifb\"`",
                &["nf_tables"],
            )
            .expect(WorksOtherwise),
            no_rules("rules-without-ingress", "rules, no sch_ingress").without(&["sch_ingress"]),
            no_rules("rules-without-cls-bpf", "rules, no cls_bpf").without(&["cls_bpf"]),
            without("without-veth", "no veth", &["veth"]).expect(Missing),
            card_without("uplink-without-htb", "classes, no sch_htb", &["sch_htb"]).expect(Missing),
            card_without("uplink-without-ifb", "classes, no ifb", &["ifb"]).expect(Missing),
            card_without(
                "uplink-without-cls-bpf",
                "classes, no cls_bpf",
                &["cls_bpf"],
            )
            .expect(Missing),
            card_without(
                "uplink-without-ingress",
                "classes, no sch_ingress",
                &["sch_ingress"],
            )
            .expect(Missing),
            card_without(
                "uplink-without-mirred",
                "classes, no act_mirred",
                &["act_mirred"],
            )
            .expect(Missing),
        ],
    ),
    (
        &[V5_10],
        &[card_without(
            "uplink-without-fq-codel",
            "classes, no sch_fq_codel",
            &["sch_fq_codel"],
        )],
    ),
    (
        &[V6_1],
        &[
            tc_without(
                "uplink-tc-without-ip-set",
                "classes, backend `tc`, no ip_set",
                &["ip_set"],
            )
            .expect(Missing),
            tc_without(
                "uplink-tc-without-xt-set",
                "classes, backend `tc`, no xt_set",
                &["xt_set"],
            )
            .expect(Missing),
            tc_without(
                "uplink-tc-without-xt-classify",
                "classes, backend `tc`, no xt_CLASSIFY",
                &["xt_CLASSIFY"],
            )
            .expect(Missing),
            tc_without(
                "uplink-tc-without-hash-net",
                "classes, backend `tc`, no ip_set_hash_net",
                &["ip_set_hash_net"],
            )
            .expect(Missing),
            // Pods of the host's network are known by their cgroups.
            tc_without(
                "uplink-tc-without-xt-cgroup",
                "classes, backend `tc`, no xt_cgroup, pods with a network of their own",
                &["xt_cgroup"],
            ),
            // Settings of the kernel.
            plugin("plugin-no-jit", "`bpf_jit_enable=0`, plugin", "check=yes").sysctls(NO_JIT),
        ],
    ),
    (
        &[V5_10, V6_1, V6_12],
        &[scenario!(
            "rules-no-jit",
            "`bpf_jit_enable=0`,",
            "networkqos-story2-free-is-limited"
        )
        .sysctls(NO_JIT)],
    ),
    (
        &[V6_1],
        &[
            uplink("uplink-no-jit", "`bpf_jit_enable=0`, classes", "check=yes").sysctls(NO_JIT),
            plugin("plugin-jit-harden", "`bpf_jit_harden=2`, plugin", "").sysctls(JIT_HARDENED),
            scenario!(
                "rules-jit-harden",
                "`bpf_jit_harden=2`,",
                "networkqos-story2-free-is-limited"
            )
            .sysctls(JIT_HARDENED),
            uplink("uplink-jit-harden", "`bpf_jit_harden=2`, classes", "").sysctls(JIT_HARDENED),
            scenario!(
                "rules-lockdown",
                "lockdown `confidentiality`,",
                "networkqos-story2-free-is-limited"
            )
            .command_line(LOCKDOWN),
            uplink("uplink-lockdown", "lockdown `confidentiality`, classes", "")
                .command_line(LOCKDOWN),
            plugin("plugin-cgroup1", "cgroup v1, plugin", "cgroup=1"),
            uplink("uplink-cgroup1", "cgroup v1, classes", "cgroup=1"),
            plugin("plugin-fq", "`default_qdisc=fq`, plugin", "").sysctls(FQ),
        ],
    ),
    (
        &[V6_12],
        &[
            // The root qdisc of the uplink.
            card("uplink-fq", "`default_qdisc=fq`, card with one queue", FQ),
            card(
                "uplink-fq-codel",
                "`default_qdisc=fq_codel`, card with one queue",
                FQ_CODEL,
            ),
            card(
                "uplink-cake",
                "`default_qdisc=cake`, card with one queue",
                &["net.core.default_qdisc=cake"],
            ),
            uplink("uplink-mq", "card with four queues", "kind=card").card(4),
            restored(
                "restore-fq",
                "root `fq` with parameters of its own",
                "preset=fq:limit:500:flow_limit:50",
            ),
            restored(
                "restore-fq-codel",
                "root `fq_codel` with parameters of its own",
                "preset=fq_codel:target:10ms:limit:500",
            ),
            restored(
                "restore-mq",
                "root `mq` set by hand, card with four queues",
                "kind=card preset=mq",
            )
            .card(4),
            Row::new(
                "restore-meanwhile",
                "`default_qdisc` changed from fq_codel to fq before cleanup, card with four queues",
                "restore",
                Judge::RestoredByDefault,
            )
            .with("kind=card meanwhile=fq")
            .card(4)
            .sysctls(FQ_CODEL),
            // Kinds of uplinks.
            uplink("uplink-bond", "bond of two links", "kind=bond"),
            uplink("uplink-team", "team of two links", "kind=team"),
            uplink(
                "uplink-bridge",
                "bridge with the uplink as its port",
                "kind=bridge",
            ),
            uplink("uplink-vlan", "VLAN on the uplink", "kind=vlan"),
            uplink(
                "uplink-clsact",
                "`--hook clsact` on a kernel with tcx",
                "hook=clsact",
            ),
            Row::new(
                "leaf",
                "two flows of a class and a sparse one, by leaf",
                "leaf",
                Judge::Leaf,
            ),
        ],
    ),
    (
        &[V6_1, V6_12],
        &[uplink("uplink-ipv6", "classes, IPv6", "family=6")],
    ),
    (
        &[V6_12],
        &[uplink(
            "uplink-no-bypass",
            "`--divide-idle-lines`",
            "flags=--divide-idle-lines",
        )],
    ),
    (
        &[V6_12, Newest],
        &[Row::new(
            "netkit",
            "pod with an end of a netkit pair",
            "netkit",
            Judge::Netkit,
        )],
    ),
    (
        &[V6_12],
        &[
            // Tunnels on the uplink.
            tunnel("tunnel-vxlan", "VXLAN", "tunnel=vxlan"),
            tunnel("tunnel-geneve", "Geneve", "tunnel=geneve"),
            tunnel("tunnel-ipip", "IPIP", "tunnel=ipip"),
            tunnel("tunnel-wireguard", "WireGuard", "tunnel=wireguard"),
        ],
    ),
];

/// Modules or settings.
type Words = &'static [Text];

const NO_JIT: Words = &["net.core.bpf_jit_enable=0"];
const JIT_HARDENED: Words = &["net.core.bpf_jit_harden=2"];
const FQ: Words = &["net.core.default_qdisc=fq"];
const FQ_CODEL: Words = &["net.core.default_qdisc=fq_codel"];
const LOCKDOWN: &str = "lsm=lockdown,capability lockdown=confidentiality";

/// The plugin on a kernel without modules.
const fn without(name: Text, title: Text, modules: Words) -> Row {
    plugin(name, title, "check=yes").without(modules)
}

/// The same, with an ifb for egress.
const fn ifb_without(name: Text, title: Text, modules: Words) -> Row {
    plugin(name, title, "check=yes egress=ifb").without(modules)
}

/// Classes of a card with one queue, on a kernel without modules.
const fn card_without(name: Text, title: Text, modules: Words) -> Row {
    let uplink = uplink(name, title, "check=yes kind=card");
    uplink.card(1).without(modules)
}

/// Classes by the backend `tc`, on a kernel without modules.
const fn tc_without(name: Text, title: Text, modules: Words) -> Row {
    uplink(name, title, "check=yes backend=tc").without(modules)
}

/// Classes of a card with one queue, whose root qdisc this setting makes.
const fn card(name: Text, title: Text, sysctls: Words) -> Row {
    uplink(name, title, "kind=card").card(1).sysctls(sysctls)
}

const fn restored(name: Text, title: Text, arguments: Text) -> Row {
    Row::new(name, title, "restore", Judge::Restored).with(arguments)
}

const fn tunnel(name: Text, title: Text, arguments: Text) -> Row {
    Row::new(name, title, "tunnel", Judge::Tunnel).with(arguments)
}

/// A kernel on which `netqos check` says that rules cannot be enforced.
const fn no_rules(name: Text, title: Text) -> Row {
    Row::new(name, title, "programs", Judge::NoRules).expect(Missing)
}
