//! CHECK after somebody took away or changed one piece; and ADD, which mends it.

use netqos_bpf::Settings;
use netqos_netlink::nft::{Chain, Forward, IngressHook, Rule, Transaction};
use netqos_netlink::{Nft, Socket};
use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::calls::{
    add, call, check, config, del, inside, limited, limited_by, limited_to, on_node, start, ways,
};
use super::kernel::{everything, limiters, on_host, pins, put_in_our_place};

/// Where something is done, and what.
enum Sabotage {
    Node(&'static str),
    Pod(&'static str),
    Act(fn()),
}

use Sabotage::{Act, Node as OnNode, Pod as InPod};

/// What is done, by which hooks and ways of egress it shows, and how CHECK begins to say so.
/// `@IFB@` is the ifb's name.
const CASES: &[(Sabotage, &[&str], &[&str], &str)] = &[
    (
        OnNode("tc qdisc del dev veth-a root"),
        HOOKS,
        BOTH,
        "Failed to find qdisc",
    ),
    (
        InPod("tc qdisc del dev eth0 root"),
        HOOKS,
        POD,
        "Failed to find qdisc",
    ),
    (
        OnNode("tc qdisc del dev @IFB@ root"),
        HOOKS,
        IFB,
        "Failed to find qdisc",
    ),
    (
        OnNode("tc qdisc change dev veth-a root handle 1: tbf rate 9mbit burst 4542 limit 105808"),
        HOOKS,
        BOTH,
        "Rate doesn't match",
    ),
    (
        OnNode("tc qdisc change dev veth-a root handle 1: tbf rate 10mbit burst 4542 limit 105809"),
        HOOKS,
        BOTH,
        "Limit doesn't match",
    ),
    (
        OnNode("tc qdisc change dev veth-a root handle 1: tbf rate 10mbit burst 9000 limit 105808"),
        HOOKS,
        BOTH,
        "Buffer doesn't match",
    ),
    (
        InPod("tc qdisc change dev eth0 root handle 1: tbf rate 21mbit burst 5000 limit 137516"),
        HOOKS,
        POD,
        "Rate doesn't match",
    ),
    (
        OnNode("tc qdisc del dev veth-a parent 1:1 handle 2:"),
        HOOKS,
        BOTH,
        "Failed to find qdisc",
    ),
    (
        OnNode("tc qdisc replace dev veth-a parent 1:1 handle 3: bfifo limit 100000"),
        HOOKS,
        BOTH,
        "Failed to find qdisc",
    ),
    (
        OnNode("tc filter del dev veth-a egress"),
        CLSACT,
        BOTH,
        "ingress of veth-a: the filter that ranks is missing",
    ),
    (
        OnNode("tc qdisc del dev veth-a clsact"),
        CLSACT,
        POD,
        "ingress of veth-a: the filter that ranks is missing",
    ),
    (
        InPod("tc qdisc del dev eth0 clsact"),
        CLSACT,
        POD,
        "egress of eth0: the filter that ranks is missing",
    ),
    (
        OnNode("tc filter del dev @IFB@ egress"),
        CLSACT,
        IFB,
        "egress of @IFB@: the filter that ranks is missing",
    ),
    (
        Act(|| put_filter(7)),
        CLSACT,
        BOTH,
        "ingress of veth-a: the filter that ranks goes by limiter 7, not ",
    ),
    (
        Act(|| {
            limiters().iter().for_each(|(id, limiter)| {
                pins()
                    .unwrap()
                    .limiters()
                    .release(*id, limiter.owner)
                    .unwrap();
            })
        }),
        HOOKS,
        BOTH,
        "ingress of veth-a: the limiter is missing or has other settings",
    ),
    (
        Act(|| {
            limiters().iter().for_each(|(_, limiter)| {
                let changed = Settings {
                    bulk_bound: 1,
                    ..*limiter
                };
                pins().unwrap().limiters().claim(&changed, None).unwrap();
            })
        }),
        HOOKS,
        BOTH,
        "ingress of veth-a: the limiter is missing or has other settings",
    ),
    (
        OnNode("find /sys/fs/bpf/netqos/v1/links -mindepth 1 -delete"),
        TCX,
        BOTH,
        "ingress of veth-a: the tcx link of the program that ranks is missing",
    ),
    (
        OnNode("rm -r /sys/fs/bpf/netqos"),
        CLSACT,
        BOTH,
        "ingress of veth-a: the programs that rank are not loaded",
    ),
    (
        OnNode("ip link set dev veth-a alias "),
        HOOKS,
        BOTH,
        "ingress of veth-a: the alias that says whose it is is missing",
    ),
    (
        InPod("ip link set dev eth0 alias "),
        HOOKS,
        POD,
        "egress of eth0: the alias that says whose it is is missing",
    ),
    (OnNode("ip link del @IFB@"), HOOKS, IFB, "get ifb device: "),
    (
        OnNode("tc filter del dev veth-a ingress"),
        HOOKS,
        IFB,
        "egress of @IFB@: traffic of veth-a is not redirected to it",
    ),
    (
        OnNode(
            "tc filter del dev veth-a ingress; tc filter add dev veth-a ingress pref 65535 protocol all u32 match u32 0 0 action mirred egress redirect dev lo",
        ),
        HOOKS,
        IFB,
        "egress of @IFB@: traffic of veth-a is not redirected to it",
    ),
    (
        // As a firewall's `flush ruleset` does.
        Act(|| {
            let mut nft = Nft::open().unwrap();
            let transaction = Transaction::on("netqos").delete_chain("from-veth-a");
            nft.commit(transaction).unwrap();
            nft.delete_empty_table("netqos").unwrap();
        }),
        HOOKS,
        IFB,
        NO_CHAIN,
    ),
    (
        Act(|| put_backstop(i32::MAX, &["lo"])),
        HOOKS,
        IFB,
        OTHER_RULE,
    ),
    (Act(|| put_backstop(i32::MAX, &[])), HOOKS, IFB, OTHER_RULE),
    (
        Act(|| put_backstop(0, &[&netqos_api::ifb_name("net", "a")])),
        HOOKS,
        IFB,
        OTHER_HOOK,
    ),
    (OnNode("rm -r /run/netqos"), HOOKS, BOTH, ""),
];

const NO_CHAIN: &str = "egress of @IFB@: what other programs keep from the redirect of veth-a is \
    not caught: nftables has no chain from-veth-a in table netdev netqos";
const OTHER_RULE: &str = "egress of @IFB@: what other programs keep from the redirect of veth-a \
    is not caught: chain from-veth-a has another rule, or none";
const OTHER_HOOK: &str = "egress of @IFB@: what other programs keep from the redirect of veth-a \
    is not caught: chain from-veth-a is at another hook";

const HOOKS: &[&str] = &["clsact", "tcx"];
const CLSACT: &[&str] = &["clsact"];
const TCX: &[&str] = &["tcx"];
const BOTH: &[&str] = &["pod", "ifb"];
const POD: &[&str] = &["pod"];
const IFB: &[&str] = &["ifb"];

/// Puts a filter of our name in the place of ours on the pod's host link.
fn put_filter(argument: u16) {
    put_in_our_place("veth-a", "netqos_rank", argument);
}

/// Puts another backstop in the place of that of the pod's host link, which leads to these links.
fn put_backstop(priority: i32, to: &[&str]) {
    let mut socket = Socket::open().unwrap();
    let mut index = |name: &str| socket.link_by_name(name).unwrap().index;
    let chain = Chain {
        name: "from-veth-a".to_owned(),
        hook: Some(IngressHook {
            device: "veth-a".to_owned(),
            priority,
        }),
    };
    let rules: Vec<_> = to
        .iter()
        .map(|to| Rule {
            chain: chain.name.clone(),
            comment: "netqos:net:a:eth0".to_owned(),
            forward: Some(Forward {
                from: index("veth-a"),
                to: index(to),
            }),
        })
        .collect();
    let transaction = Transaction::on("netqos").delete_chain(&chain.name);
    let transaction = rules
        .iter()
        .fold(transaction.add_chain(&chain), |transaction, rule| {
            transaction.add_rule(rule)
        });
    Nft::open().unwrap().commit(transaction).unwrap();
}

fn commit(sabotage: &Sabotage, node: &Node, pod: &Pod, ifb: &str) {
    match sabotage {
        OnNode(commands) => on_node(node, &commands.replace("@IFB@", ifb)),
        InPod(commands) => inside(node, pod, commands),
        Act(act) => act(),
    }
}

#[test]
fn and_add_mends_it() {
    let Some((node, pod)) = start() else { return };
    let ifb = netqos_api::ifb_name("net", "a");
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        add(&pod, &config);
        let whole = everything(&[&pod]);
        for (number, (sabotage, hooks, ways, text)) in CASES.iter().enumerate() {
            if !hooks.contains(&hook) || !ways.contains(&egress) {
                continue;
            }
            let what = format!("case {number}, {hook}, {egress}: {text}");
            check(&pod, &config);
            commit(sabotage, &node, &pod, &ifb);
            let (code, message) = call("CHECK", &pod, &config).fail().expect(&what);
            assert_eq!(code, 999, "{what}");
            assert!(
                message.starts_with(&text.replace("@IFB@", &ifb)),
                "{what}: {message}"
            );
            add(&pod, &config);
            assert_eq!(everything(&[&pod]), whole, "{what}");
        }
        del(&pod, &config);
    }
}

/// What somebody else put in our place is noticed too, and is not ADD's to remove.
#[test]
fn and_what_stands_in_its_place() {
    let Some((node, pod)) = start() else { return };
    let config = limited(&pod, json!({}));
    add(&pod, &config);
    let replace = "tc qdisc del dev veth-a root; tc qdisc add dev veth-a root handle 1: htb";
    on_node(&node, replace);
    let failed = |command| call(command, &pod, &config).fail().unwrap();
    assert_eq!(failed("CHECK"), (999, "Failed to find qdisc".to_owned()));
    assert!(failed("ADD").1.starts_with("create qdisc: file exists: "));
    assert_eq!(on_host("veth-a").qdiscs, ["htb 1: at root"]);
    del(&pod, &config);
    assert_eq!(on_host("veth-a").qdiscs, ["htb 1: at root"]);
}

/// What is asked for is not what ADD was asked for.
#[test]
fn and_a_configuration_that_changed() {
    let Some((_node, pod)) = start() else { return };
    let one = |key: &str, burst: &str| config(&pod, json!({key: 8_000_000, burst: 80_000}));
    let ingress = one("ingressRate", "ingressBurst");
    let both = limited_to(&pod, 8_000_000, 8_000_000, json!({}));
    let faster = limited_to(&pod, 9_000_000, 8_000_000, json!({}));
    let none = config(&pod, json!({}));
    let cases: [(&Value, &Value, &str); 5] = [
        (&none, &both, "Failed to find qdisc"),
        (&both, &faster, "Rate doesn't match"),
        (&ingress, &both, ""),
        (&both, &ingress, ""),
        (
            &one("egressRate", "egressBurst"),
            &ingress,
            "Failed to find qdisc",
        ),
    ];
    for (made, asked, text) in cases {
        add(&pod, made);
        check(&pod, made);
        let (code, message) = call("CHECK", &pod, asked).fail().unwrap();
        assert_eq!(code, 999);
        assert!(message.starts_with(text), "{message}");
        del(&pod, made);
    }
    // Nothing asked, nothing to find: CRI-O calls CHECK after every ADD.
    check(&pod, &none);
}

/// As the plugin `tuning` does, behind this one in the chain.
#[test]
fn an_mtu_that_is_lowered_later_is_no_fault() {
    let Some((node, pod)) = start() else { return };
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        add(&pod, &config);
        let set = |mtu: &str| {
            pod.run(&node, "ip", &["link", "set", "eth0", "mtu", mtu])
                .unwrap();
            node.run("ip", &["link", "set", pod.host_link(), "mtu", mtu])
                .unwrap();
        };
        set("1400");
        check(&pod, &config);
        set("1500");
        check(&pod, &config);
        // Its frames would be too large for the bucket.
        set("9000");
        call("CHECK", &pod, &config).fail().unwrap();
        set("1500");
        del(&pod, &config);
    }
}
