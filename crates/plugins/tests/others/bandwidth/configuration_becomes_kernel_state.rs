//! Every way to write a limit, and the queue that it becomes.

use std::time::Duration;

use netqos_bpf::Settings;
use netqos_core::{BitRate, ByteCount, Limit};
use netqos_datapath::Owner;
use netqos_testkit::Call;
use serde_json::{Value, json};

use super::calls::{
    CONTAINERD, CRI_O, VERSIONS, add, bandwidth, call, check, config, del, node, plugin, start,
    state, succeeded,
};
use super::kernel::{Held, in_pod, limiters, links_of_kind, on_host, shape_of};

/// A limit of so many bit/s and netqos' choice of a burst, or of so many bits.
fn limit(rate: u64, burst: u64) -> Option<Limit> {
    Some(Limit {
        burst: (burst > 0).then(|| ByteCount::from_bits(burst)),
        ..Limit::of(BitRate::from_bits_per_second(rate))
    })
}

fn waiting(limit: Option<Limit>, wait: Duration) -> Option<Limit> {
    limit.map(|limit| Limit {
        latency: Some(wait),
        ..limit
    })
}

/// The link holds this limit, whole and marked, or nothing at all.
fn assert_holds(what: &str, link: &Held, limit: Option<Limit>, attachment: &str) {
    let Some(limit) = limit else {
        let bare = Held {
            kind: "veth".to_owned(),
            mtu: 1500,
            tx_queue_len: 1000,
            ..Held::default()
        };
        assert_eq!(*link, bare, "{what}");
        return;
    };
    let shape = shape_of(&limit);
    let wanted = Held {
        kind: "veth".to_owned(),
        alias: format!("netqos:{attachment}"),
        mtu: 1500,
        tx_queue_len: shape.ring(),
        qdiscs: vec![
            "clsact ffff: at ffff:fff1".to_owned(),
            "pfifo_fast 2: at 1:1".to_owned(),
            "tbf 1: at root".to_owned(),
        ],
        // Whose number a limiter has is not this test's to know.
        limiter: link.limiter.map(|found| shape.settings(owner(found))),
        tbf: link.tbf,
        filters: vec!["egress 81 bpf netqos_rank".to_owned()],
        tcx: 0,
        backstop: None,
    };
    assert_eq!(*link, wanted, "{what}");
    assert!(link.limiter.is_some(), "{what}");
    assert!(link.tbf.unwrap() == shape.tbf(), "{what}: {:?}", link.tbf);
}

#[test]
fn in_every_version() {
    let Some((node, pod)) = start() else { return };
    let before = state(&node, &pod);
    let burst = 8_000_000;
    let ten = json!({"ingressRate": 10_000_000, "ingressBurst": burst});
    let annotations = |text: Value| {
        let mut config = json!({"runtimeConfig": bandwidth(10_000_000, 20_000_000, CONTAINERD)});
        config["runtimeConfig"]["io.kubernetes.cri.pod-annotations"] = text;
        config
    };
    let shaping = |unit: &str, argument: Value| json!({"unit": unit, "runtimeConfig": {"trafficShaping": argument}});
    let cases = [
        ("nothing", json!({}), None, None),
        (
            "static, tiny as in the original's own tests",
            json!({"ingressRate": 8, "ingressBurst": 8, "egressRate": 16, "egressBurst": 8}),
            limit(8, 8),
            limit(16, 8),
        ),
        (
            "static, to the pod only",
            ten.clone(),
            limit(10_000_000, burst),
            None,
        ),
        (
            "static, from the pod only",
            json!({"egressRate": 8000, "egressBurst": 80}),
            None,
            limit(8000, 80),
        ),
        (
            "the runtime's, keys as containerd writes them",
            json!({"runtimeConfig": {"bandwidth": {
                "IngressRate": 8_000_000, "IngressBurst": CONTAINERD,
                "EgressRate": 20_000_000, "EgressBurst": CONTAINERD,
            }}}),
            limit(8_000_000, 0),
            limit(20_000_000, 0),
        ),
        (
            "the runtime's, under the key of the original's own tests",
            json!({"RuntimeConfig": {"bandWidth": {"INGRESSRATE": 8, "ingressburst": 8}}}),
            limit(8, 8),
            None,
        ),
        (
            "CRI-O's burst",
            json!({"runtimeConfig": bandwidth(10_000_000, 5_000_000, CRI_O)}),
            limit(10_000_000, 0),
            limit(5_000_000, 0),
        ),
        (
            "the kubelet's burst",
            json!({"runtimeConfig": bandwidth(1_000_000, 1_000_000, 2_147_483_647)}),
            limit(1_000_000, 0),
            limit(1_000_000, 0),
        ),
        (
            "a burst that somebody chose, and one next to a runtime's",
            json!({"runtimeConfig": bandwidth(1_000_000_000, 10_000_000, CONTAINERD - 1)}),
            limit(1_000_000_000, CONTAINERD - 1),
            limit(10_000_000, CONTAINERD - 1),
        ),
        (
            "more than 32 bits of bytes per second",
            json!({"runtimeConfig": bandwidth(100_000_000_000, 40_000_000_000, CONTAINERD)}),
            limit(100_000_000_000, 0),
            limit(40_000_000_000, 0),
        ),
        (
            "static wins over the runtime's",
            json!({"ingressRate": 10_000_000, "ingressBurst": burst,
                   "runtimeConfig": bandwidth(1_000_000, 1_000_000, CONTAINERD)}),
            limit(10_000_000, burst),
            None,
        ),
        (
            "a static zero hides the runtime's",
            json!({"ingressRate": 0, "runtimeConfig": bandwidth(1_000_000, 1_000_000, CONTAINERD)}),
            None,
            None,
        ),
        (
            "trafficShaping, strings in bit/s",
            shaping("", json!({"ingressRate": "10M", "egressRate": "1Gi"})),
            limit(10_000_000, 0),
            limit(1 << 30, 0),
        ),
        (
            "trafficShaping, Kbps as strings and as numbers",
            shaping(
                "Kbps",
                json!({"ingressRate": "10000", "egressRate": 20_000, "egressBurst": "9k"}),
            ),
            limit(10_000_000, 0),
            limit(20_000_000, 9_000_000),
        ),
        (
            "bandwidth wins over trafficShaping",
            json!({"runtimeConfig": {
                "bandwidth": ten, "trafficShaping": {"egressRate": "1M"},
            }}),
            limit(10_000_000, burst),
            None,
        ),
        (
            "the pod's annotations on bursts and waits",
            annotations(json!({
                "netqos.io/ingress-burst": "1M", "netqos.io/ingress-latency": "5ms",
                "netqos.io/egress-latency": "100ms", "unrelated": "x",
            })),
            waiting(limit(10_000_000, 1_000_000), Duration::from_millis(5)),
            waiting(limit(20_000_000, 0), Duration::from_millis(100)),
        ),
        (
            "an annotation that is wrong is none",
            annotations(json!({"netqos.io/ingress-burst": "much", "netqos.io/egress-burst": 1})),
            limit(10_000_000, 0),
            limit(20_000_000, 0),
        ),
    ];
    for version in VERSIONS {
        for (what, more, ingress, egress) in &cases {
            let what = format!("{what}, {version}");
            let mut more = more.clone();
            more["cniVersion"] = version.into();
            let config = config(&pod, more);
            add(&pod, &config);
            assert_holds(&what, &on_host(pod.host_link()), *ingress, "net:a:eth0");
            assert_holds(&what, &in_pod(&pod, "eth0"), *egress, "net:a:eth0");
            let directions = ingress.iter().count() + egress.iter().count();
            assert_eq!(limiters().len(), directions, "{what}");
            if version != "0.3.0" && version != "0.3.1" {
                check(&pod, &config);
            }
            del(&pod, &config);
            assert_eq!(links_of_kind("ifb"), [""; 0], "{what}");
        }
    }
    // But for the programs, which are the node's.
    let after = state(&node, &pod);
    let without_programs = after.without("/sys/fs/bpf/netqos/");
    without_programs.assert_is(&before, "all of them");
}

/// The numbers of `docs/limits.md`, so that those who read it are not misled.
#[test]
fn the_documents_numbers_are_the_kernels() {
    let Some((_node, pod)) = start() else { return };
    let config = config(
        &pod,
        json!({"runtimeConfig": bandwidth(10_000_000, 1_000_000_000, CONTAINERD)}),
    );
    add(&pod, &config);
    let (ingress, egress) = (on_host(pod.host_link()), in_pod(&pod, "eth0"));
    let tbf = ingress.tbf.unwrap();
    assert_eq!((tbf.rate, tbf.limit), (1_250_000, 105_808));
    // 4,542 bytes at 800 ns, in ticks of 64 ns.
    assert!(tbf.buffer.abs_diff(4542 * 800 / 64) <= 1, "{tbf:?}");
    let tbf = egress.tbf.unwrap();
    assert_eq!(tbf.rate, 125_000_000);
    assert!(tbf.buffer.abs_diff(250_000 * 8 / 64) <= 1, "{tbf:?}");
    assert_eq!(ingress.limiter.unwrap().bulk_bound, 28_633_600);
    assert_eq!(egress.limiter.unwrap().bulk_bound, 27_000_000);
}

/// Recorded at a node with containerd: its keys, its annotations, and what plugins before left.
#[test]
fn containerds_recorded_call() {
    let Some(node) = node() else { return };
    let pod = node.pod("cli2").unwrap();
    let text = include_str!("containerd-add.json")
        .replace("@NETNS@", &pod.netns().display().to_string())
        .replace("@VETH@", pod.host_link());
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let call = |command| {
        Call::of(plugin(), command, &pod, &recorded).variable(
            "CNI_ARGS",
            "K8S_POD_NAME=cli2;K8S_POD_INFRA_CONTAINER_ID=9e0e244a83b2;IgnoreUnknown=1;K8S_POD_NAMESPACE=default",
        )
    };
    assert_eq!(call("ADD").succeed().unwrap(), recorded["prevResult"]);
    let attachment = "podnet:cli2:eth0";
    assert_holds(
        "to the pod",
        &on_host(pod.host_link()),
        limit(8_000_000, 0),
        attachment,
    );
    assert_holds(
        "from the pod",
        &in_pod(&pod, "eth0"),
        limit(20_000_000, 0),
        attachment,
    );
    call("CHECK").succeed().unwrap();
    // Twice, the second time without the namespace: as containerd does.
    call("DEL").succeed().unwrap();
    call("DEL").variable("CNI_NETNS", "").succeed().unwrap();
    assert_holds("restored", &on_host(pod.host_link()), None, attachment);
}

/// What is ignored is said, on standard error.
#[test]
fn what_is_ignored_is_said() {
    let Some((_node, pod)) = start() else { return };
    for (more, said) in [
        (
            json!({"unshapedSubnets": ["10.0.0.0/8"]}),
            "unshapedSubnets is ignored",
        ),
        (
            json!({"ingressRate": 8000, "ingressBurst": 8000, "runtimeConfig": {
                "io.kubernetes.cri.pod-annotations": {"netqos.io/ingress-burst": "1M"}}}),
            "annotation netqos.io/ingress-burst is ignored",
        ),
        (
            json!({"runtimeConfig": {"bandwidth": {"ingressRate": 8000, "ingressBurst": 8000},
                "io.kubernetes.cri.pod-annotations": {"netqos.io/ingress-burst": "much"}}}),
            "netqos.io/ingress-burst",
        ),
    ] {
        let outcome = succeeded(&call("ADD", &pod, &config(&pod, more)));
        assert!(outcome.stderr.contains(said), "{outcome:?}");
    }
}

fn owner(settings: Settings) -> Owner {
    Owner {
        id: settings.owner,
        network: settings.network,
    }
}
