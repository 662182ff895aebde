//! ADD that fails: early or half-way, nothing of it stays.

use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::calls::{
    WAYS, add, call, del, inside, limited, limited_by, on_node, start, state, warm_up, ways,
};
use super::kernel::{limiters, set_alias};

/// What stands in the way on a node, and what ADD says about it.
struct Obstacle {
    what: &'static str,
    /// True when it is in the pod.
    inside: bool,
    /// Commands that put it there, `; ` between them.
    put: &'static str,
    /// Which hooks and ways of egress it stops.
    stops: &'static [(&'static str, &'static str)],
    /// The beginning of the error.
    says: &'static str,
}

const IN_POD: &[(&str, &str)] = &[("clsact", "pod"), ("tcx", "pod")];
const BY_IFB: &[(&str, &str)] = &[("clsact", "ifb"), ("tcx", "ifb")];
const BY_CLSACT: &[(&str, &str)] = &[("clsact", "pod"), ("clsact", "ifb")];

const OBSTACLES: &[Obstacle] = &[
    Obstacle {
        what: "a foreign root qdisc in the pod",
        inside: true,
        put: "tc qdisc add dev eth0 root handle 7: htb",
        stops: IN_POD,
        says: "create qdisc: file exists: eth0 has htb 7: at its root",
    },
    Obstacle {
        what: "a foreign TBF in the pod",
        inside: true,
        put: "tc qdisc add dev eth0 root handle 5: tbf rate 1mbit burst 10k limit 10k",
        stops: IN_POD,
        says: "create qdisc: file exists: eth0 has tbf 5: at its root",
    },
    Obstacle {
        what: "a foreign root qdisc on the host's veth",
        inside: false,
        put: "tc qdisc add dev veth-a root handle 1: htb",
        stops: &WAYS,
        says: "create qdisc: file exists: veth-a has htb 1: at its root",
    },
    Obstacle {
        what: "both names of the ifb taken by others",
        inside: false,
        // Of "net" and "a", and of "net" and "aeth0".
        put: "ip link add @FIRST@ type veth peer name other; ip link add @SECOND@ type ifb",
        stops: BY_IFB,
        says: "adding link: file exists: ",
    },
    // Those below are found half-way, when queues and limiters have been made.
    Obstacle {
        what: "a clsact whose filters are shared among links, to the pod",
        inside: false,
        put: "tc qdisc add dev veth-a egress_block 7 clsact",
        stops: BY_CLSACT,
        says: "add filter: ",
    },
    Obstacle {
        what: "a clsact whose filters are shared among links, from the pod",
        inside: true,
        put: "tc qdisc add dev eth0 egress_block 7 clsact",
        stops: &[("clsact", "pod")],
        says: "add filter: ",
    },
    Obstacle {
        what: "a filter of another protocol where the redirect belongs",
        inside: false,
        put: "tc qdisc add dev veth-a clsact; tc filter add dev veth-a ingress pref 65535 protocol ip u32 match u32 0 0",
        stops: BY_IFB,
        says: "add filter: ",
    },
];

fn put(node: &Node, pod: &Pod, obstacle: &Obstacle) {
    let commands = obstacle
        .put
        .replace("@FIRST@", &netqos_api::ifb_name("net", "a"))
        .replace("@SECOND@", &netqos_api::ifb_name("net", "aeth0"));
    match obstacle.inside {
        true => inside(node, pod, &commands),
        false => on_node(node, &commands),
    }
}

/// A node of its own for each: what one leaves must not hide what the next does.
fn meet(obstacle: &'static Obstacle) {
    let Some((node, pod)) = start() else { return };
    warm_up(&pod);
    put(&node, &pod, obstacle);
    let before = state(&node, &pod);
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        let what = format!("{}, {hook}, {egress}", obstacle.what);
        let outcome = call("ADD", &pod, &config).run().unwrap();
        if obstacle.stops.contains(&(hook, egress)) {
            let error: Value = serde_json::from_str(&outcome.stdout).expect(&what);
            assert_eq!(error["code"], 999, "{what}: {error}");
            let message = error["msg"].as_str().unwrap();
            assert!(message.starts_with(obstacle.says), "{what}: {message}");
            state(&node, &pod).assert_is(&before, &what);
        } else {
            assert_eq!(outcome.code, Some(0), "{what}: {outcome:?}");
            del(&pod, &config);
            state(&node, &pod).assert_is(&before, &what);
        }
        assert_eq!(limiters(), [], "{what}");
        // What runtimes do after an ADD that failed.
        del(&pod, &config);
        state(&node, &pod).assert_is(&before, &what);
    }
}

#[test]
fn whatever_stands_in_the_way() {
    for obstacle in OBSTACLES {
        std::thread::spawn(|| meet(obstacle)).join().unwrap();
    }
}

/// Somebody's alias is not a reason to fail, and stays.
#[test]
fn a_foreign_alias_is_in_nobodys_way() {
    let Some((node, pod)) = start() else { return };
    set_alias(pod.host_link(), "uplink of rack 7");
    let config = limited(&pod, json!({}));
    let before = node.run("ip", &["-d", "link", "show"]).unwrap();
    add(&pod, &config);
    call("CHECK", &pod, &config).succeed().unwrap();
    del(&pod, &config);
    assert_eq!(node.run("ip", &["-d", "link", "show"]).unwrap(), before);
}
