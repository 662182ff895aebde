//! Without programs: the plain token bucket, whose own queue is bounded.

use serde_json::json;

use super::calls::{add, call, check, del, limited, limited_to, on_node, start, state, succeeded};
use super::kernel::{Held, everything, in_pod, on_host, shape};

/// What a link with a plain limit holds.
fn assert_plain(link: &Held, rate: u64) {
    assert_eq!(link.qdiscs, ["tbf 1: at root"]);
    assert!(link.tbf.unwrap() == shape(rate, 0).tbf(), "{:?}", link.tbf);
    assert_eq!((link.filters.len(), link.tcx), (0, 0));
}

#[test]
fn when_it_is_asked_for() {
    let Some((node, pod)) = start() else { return };
    let before = state(&node, &pod);
    let config = limited_to(&pod, 10_000_000, 1_000_000_000, json!({"hook": "none"}));
    add(&pod, &config);
    assert_plain(&on_host(pod.host_link()), 10_000_000);
    assert_plain(&in_pod(&pod, "eth0"), 1_000_000_000);
    // Nothing was loaded either.
    assert_eq!(node.files("/sys/fs/bpf/netqos"), [""; 0]);
    check(&pod, &config);
    on_node(
        &node,
        "tc qdisc change dev veth-a root handle 1: tbf rate 10mbit burst 4542 limit 9000",
    );
    let failed = call("CHECK", &pod, &config).fail().unwrap();
    assert_eq!(failed, (999, "Limit doesn't match".to_owned()));
    del(&pod, &config);
    state(&node, &pod).assert_is(&before, "DEL");
}

/// The variable of the environment says it for every network of the node.
#[test]
fn when_the_environment_asks_for_it() {
    let Some((_node, pod)) = start() else { return };
    let config = limited(&pod, json!({"egress": "ifb"}));
    let plain = call("ADD", &pod, &config).variable("NETQOS_HOOK", "none");
    plain.succeed().unwrap();
    assert_plain(&on_host(&netqos_api::ifb_name("net", "a")), 20_000_000);
    assert_eq!(
        on_host(pod.host_link()).filters,
        ["ingress 65535 u32 to bwpc3a99edf74e2"]
    );
    check(&pod, &config);
}

/// Where the programs cannot be pinned the limit holds, and standard error says what is lost.
#[test]
fn when_there_is_no_bpf_file_system() {
    let Some((_node, pod)) = start() else { return };
    std::fs::write("/run/file", "").unwrap();
    let bare = everything(&[&pod]);
    let config = limited(&pod, json!({"bpffs": "/run/file"}));
    let outcome = succeeded(&call("ADD", &pod, &config));
    let said = "netqos: net/a/eth0: flows are not ranked: no BPF file system at /run/file: ";
    assert!(outcome.stderr.starts_with(said), "{outcome:?}");
    assert_plain(&on_host(pod.host_link()), 10_000_000);
    assert_plain(&in_pod(&pod, "eth0"), 20_000_000);
    check(&pod, &config);
    del(&pod, &config);
    assert_eq!(everything(&[&pod]), bare);
    // By name it is refused.
    for hook in super::calls::hooks() {
        let more = json!({"bpffs": "/run/file", "hook": hook});
        let config = limited(&pod, more);
        let (code, text) = call("ADD", &pod, &config).fail().unwrap();
        assert_eq!(code, 999);
        assert!(
            text.starts_with("no BPF file system at /run/file: "),
            "{text}"
        );
        assert_eq!(everything(&[&pod]), bare);
    }
}
