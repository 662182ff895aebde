//! Other people's filters at the preference that ours has elsewhere: theirs stay, and ours goes to
//! another, where it is found again.

use std::net::UdpSocket;

use netqos_netlink::Namespace;
use netqos_testkit::{ForeignHook, ForeignProgram, TcAttachType, Verdict};
use serde_json::json;

use super::calls::{add, call, check, del, inside, limited, limited_to, on_node, start, state};
use super::kernel::{in_pod, on_host, put_in_our_place};

/// What stands at 81, by `tc`, and the preference at which ours is then.
const TAKEN: [(&str, u16); 4] = [
    ("egress pref 81 protocol all u32 match u32 0 0", 80),
    ("egress pref 81 protocol ip u32 match u32 0 0", 80),
    (
        "egress pref 81 protocol all u32 match u32 0 0; egress pref 80 protocol all u32 match u32 0 0",
        79,
    ),
    ("egress pref 82 protocol all u32 match u32 0 0", 81),
];

#[test]
fn ours_goes_before_them_and_is_found_again() {
    let Some((node, pod)) = start() else { return };
    let of = |rate: u64| limited_to(&pod, rate, rate, json!({"hook": "clsact"}));
    add(&pod, &of(10_000_000));
    del(&pod, &of(10_000_000));
    let commands = |link: &str, filters: &str| -> String {
        let add = filters.split("; ");
        let add = add.map(|filter| format!("tc filter add dev {link} {filter}"));
        format!(
            "tc qdisc add dev {link} clsact; {}",
            add.collect::<Vec<_>>().join("; ")
        )
    };
    for (filters, preference) in TAKEN {
        on_node(&node, &commands("veth-a", filters));
        inside(&node, &pod, &commands("eth0", filters));
        let before = state(&node, &pod);
        add(&pod, &of(10_000_000));
        let ours = format!("egress {preference} bpf netqos_rank");
        for link in [on_host("veth-a"), in_pod(&pod, "eth0")] {
            assert!(link.filters.contains(&ours), "{filters}: {link:?}");
        }
        check(&pod, &of(10_000_000));
        let once = state(&node, &pod);
        add(&pod, &of(10_000_000));
        state(&node, &pod).assert_is(&once, filters);
        // Somebody took it away.
        let gone = format!("tc filter del dev veth-a egress pref {preference}");
        on_node(&node, &gone);
        let (_, said) = call("CHECK", &pod, &of(10_000_000)).fail().unwrap();
        assert!(
            said.ends_with("the filter that ranks is missing"),
            "{filters}: {said}"
        );
        add(&pod, &of(20_000_000));
        check(&pod, &of(20_000_000));
        del(&pod, &of(20_000_000));
        state(&node, &pod).assert_is(&before, filters);
        on_node(&node, "tc qdisc del dev veth-a clsact");
        inside(&node, &pod, "tc qdisc del dev eth0 clsact");
    }
}

/// Ours stays where it is when theirs has gone, and there is one.
#[test]
fn ours_stays_where_it_is_when_theirs_has_gone() {
    let Some((node, pod)) = start() else { return };
    let config = limited(&pod, json!({"hook": "clsact"}));
    on_node(
        &node,
        "tc qdisc add dev veth-a clsact; tc filter add dev veth-a egress pref 81 protocol all u32 match u32 0 0",
    );
    add(&pod, &config);
    on_node(&node, "tc filter del dev veth-a egress pref 81");
    check(&pod, &config);
    add(&pod, &config);
    assert_eq!(
        on_host("veth-a").filters,
        ["egress 80 bpf netqos_rank"],
        "one, where it was"
    );
    del(&pod, &config);
    assert_eq!(on_host("veth-a").filters, [""; 0]);
}

/// Of the same kind they may share a preference; nobody has to know.
#[test]
fn a_program_of_others_stays_and_sees_every_packet() {
    let Some((_node, pod)) = start() else { return };
    let config = limited(&pod, json!({"hook": "clsact"}));
    let place = ForeignHook::Clsact(81);
    let foreign =
        ForeignProgram::attach("veth-a", TcAttachType::Egress, place, Verdict::Next).unwrap();
    add(&pod, &config);
    check(&pod, &config);
    let before = foreign.seen().unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.send_to(b"word", (pod.address(), 9)).unwrap();
    assert!(foreign.seen().unwrap() > before);
    del(&pod, &config);
    let left = on_host("veth-a").filters;
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A filter that has our place, but not our name, is somebody else's.
#[test]
fn what_has_our_place_under_another_name_is_not_ours() {
    let Some((_node, pod)) = start() else { return };
    let config = limited(&pod, json!({"hook": "clsact"}));
    add(&pod, &config);
    {
        let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
        put_in_our_place("eth0", "other", 7);
    }
    let (_, said) = call("CHECK", &pod, &config).fail().unwrap();
    assert_eq!(said, "egress of eth0: the filter that ranks is missing");
    add(&pod, &config);
    check(&pod, &config);
    let both = ["egress 80 bpf netqos_rank", "egress 81 bpf other"];
    assert_eq!(in_pod(&pod, "eth0").filters, both);
    del(&pod, &config);
    assert_eq!(in_pod(&pod, "eth0").filters, both[1..]);
}
