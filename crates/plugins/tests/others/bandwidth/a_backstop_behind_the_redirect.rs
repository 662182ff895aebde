//! Where a redirect leads to an ifb, nftables catches what others keep from it: made with the limit,
//! gone with it, and not asked for where there is no redirect.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use netqos_netlink::link::LinkChange;
use netqos_netlink::nft::{Chain, Transaction};
use netqos_netlink::{Handle, Namespace, Nft, Socket};
use netqos_testkit::{
    Call, ForeignHook, ForeignProgram, Nfnetlink, Node, Pod, TcAttachType, Verdict, with_nfnetlink,
};
use serde_json::{Value, json};

use super::calls::{add, call, check, del, gc, limited, node, on_node, plugin, start, state};
use super::kernel::{backstops, in_pod, on_host};

/// What is said where it cannot be had.
const LIFTS: &str = "a foreign program that ends the chain of the ingress hook lifts ";

/// A packet is there long before; so long does a busy machine get.
const LONG: Duration = Duration::from_secs(5);
/// So long does one take on a machine that is not.
const SHORT: Duration = Duration::from_millis(25);

fn by_ifb(pod: &Pod) -> Value {
    limited(pod, json!({"egress": "ifb"}))
}

fn backstops_in(pod: &Pod) -> Option<u32> {
    let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
    backstops()
}

/// Records that were lost.
fn lose_records(node: &Node) {
    for file in node.files("/run/netqos") {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn comes_and_goes_with_the_limit() {
    let Some(node) = node() else { return };
    let pods = ["a", "b"].map(|name| node.pod(name).unwrap());
    for (count, pod) in (1..).zip(&pods) {
        add(pod, &by_ifb(pod));
        assert_eq!(backstops(), Some(count));
        let ifb = netqos_api::ifb_name("net", pod.name());
        let expected = format!("to {ifb}, netqos:net:{}:eth0", pod.name());
        assert_eq!(on_host(pod.host_link()).backstop, Some(expected));
        assert_eq!(in_pod(pod, "eth0").backstop, None);
    }
    // The last takes the table with it, and one that goes twice is no harm.
    for (pod, left) in pods.iter().zip([Some(1), None]) {
        for _ in 0..2 {
            del(pod, &by_ifb(pod));
            assert_eq!(on_host(pod.host_link()).backstop, None);
            assert_eq!(backstops(), left);
        }
    }
    // An ADD in the other way takes it away too, and one that fails makes none.
    let [pod, _] = &pods;
    add(pod, &by_ifb(pod));
    let in_the_pod = limited(pod, json!({}));
    add(pod, &in_the_pod);
    assert_eq!(backstops(), None);
    del(pod, &in_the_pod);
    on_node(&node, "tc qdisc add dev veth-a root handle 1: htb");
    call("ADD", pod, &by_ifb(pod)).fail().unwrap();
    assert_eq!(backstops(), None);
}

#[test]
fn of_a_macvlan_is_inside_of_its_namespace() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let pod = node.macvlan_pod("m", "parent").unwrap();
    let config = limited(&pod, json!({}));
    let ifb = netqos_api::ifb_name("net", "m");
    for collected in [false, true] {
        add(&pod, &config);
        let expected = format!("to {ifb}, netqos:net:m:eth0");
        assert_eq!(in_pod(&pod, "eth0").backstop, Some(expected));
        assert_eq!((backstops(), backstops_in(&pod)), (None, Some(1)));
        check(&pod, &config);
        match collected {
            true => gc("net", json!([])),
            false => del(&pod, &config),
        }
        assert_eq!(backstops_in(&pod), None);
    }
}

/// From kernel 6.16 on a chain stays when its device goes, and takes the next of that name.
#[test]
fn whose_link_is_gone_goes_and_does_no_harm_until_then() {
    let Some(node) = node() else { return };
    let renew = "ip link del veth-a; ip link add veth-a type veth peer name other; \
        ip link set veth-a up; ip link set other up";
    // DEL finds it by its record, GC by that or by its tag.
    for (collected, lost) in [(false, false), (true, false), (true, true)] {
        let what = format!("collected: {collected}, lost: {lost}");
        let pod = node.pod("a").unwrap();
        add(&pod, &by_ifb(&pod));
        on_node(&node, renew);
        // What comes in at the new one is not sent to where the old one's was.
        let mut socket = Socket::open().unwrap();
        let ifb = socket
            .link_by_name(&netqos_api::ifb_name("net", "a"))
            .unwrap();
        let sent = |socket: &mut Socket| {
            let root = socket.qdisc_at(&ifb, Handle::ROOT).unwrap();
            root.unwrap().statistics.packets
        };
        let before = sent(&mut socket);
        on_node(&node, "ip link set other down; ip link set other up");
        thread::sleep(4 * SHORT);
        assert_eq!(sent(&mut socket), before, "{what}");
        if lost {
            lose_records(&node);
        }
        match collected {
            true => gc("net", json!([])),
            false => del(&pod, &by_ifb(&pod)),
        }
        assert_eq!(backstops(), None, "{what}");
        on_node(&node, "ip link del veth-a");
        pod.remove(&node).unwrap();
    }
}

/// A packet that somebody drops, before the redirect and so before the backstop, gets nowhere; one
/// that somebody accepts there goes through the ifb.
#[test]
fn does_not_bring_back_what_was_dropped() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let veth = node.pod("a").unwrap();
    let macvlan = node.macvlan_pod("m", "parent").unwrap();
    let other = node.macvlan_pod("o", "parent").unwrap();
    // Who sends to whom, whose limit is on the way, and at which link of which namespace.
    let outside = Namespace::current().unwrap();
    let within = Namespace::open(macvlan.netns()).unwrap();
    for (limited, from, to, at, link) in [
        (&veth, &veth, veth.gateway(), &outside, "veth-a"),
        (&macvlan, &other, macvlan.address(), &within, "eth0"),
    ] {
        add(limited, &by_ifb(limited));
        let _inside = at.enter().unwrap();
        let mut socket = Socket::open().unwrap();
        let ifb = netqos_api::ifb_name("net", limited.name());
        let ifb = socket.link_by_name(&ifb).unwrap();
        let mut through_ifb = || {
            let root = socket.qdisc_at(&ifb, Handle::ROOT).unwrap();
            root.unwrap().statistics.packets
        };
        for place in [ForeignHook::Clsact(1), ForeignHook::TcxFirst] {
            for (verdict, arrives) in [(Verdict::Accept, true), (Verdict::Drop, false)] {
                let what = format!("{}, {place:?}, {verdict:?}", limited.name());
                let ingress = TcAttachType::Ingress;
                let foreign = ForeignProgram::attach(link, ingress, place, verdict).unwrap();
                // What is under way arrives.
                thread::sleep(SHORT);
                let (seen, before) = (foreign.seen().unwrap(), through_ifb());
                let end = Instant::now() + LONG;
                let goes_on = |packets| match arrives {
                    true => packets == before,
                    false => foreign.seen().unwrap() == seen,
                };
                while goes_on(through_ifb()) && Instant::now() < end {
                    // A question for the hardware address is a packet, too.
                    let say = || UdpSocket::bind("0.0.0.0:0")?.send_to(b"word", (&*to, 9));
                    from.inside(say).unwrap().unwrap();
                    thread::sleep(SHORT);
                }
                assert!(foreign.seen().unwrap() > seen, "{what}");
                assert_eq!(through_ifb() > before, arrives, "{what}");
            }
        }
    }
}

/// A name of a link may be used again for another pod before DEL of the first is called.
#[test]
fn of_another_attachment_stays() {
    let Some(node) = node() else { return };
    let first = node.pod("a").unwrap();
    add(&first, &by_ifb(&first));
    on_node(&node, "ip link del veth-a");
    let second = node.pod("b").unwrap();
    on_node(
        &node,
        "ip link set veth-b down; ip link set veth-b name veth-a; ip link set veth-a up",
    );
    let mut config = by_ifb(&second);
    config["prevResult"]["interfaces"][0]["name"] = "veth-a".into();
    add(&second, &config);
    let expected = format!("to {}, netqos:net:b:eth0", netqos_api::ifb_name("net", "b"));
    assert_eq!(on_host("veth-a").backstop, Some(expected.clone()));
    del(&first, &by_ifb(&first));
    gc("net", json!([{"containerID": "b", "ifname": "eth0"}]));
    assert_eq!(on_host("veth-a").backstop, Some(expected));
    check(&second, &config);
    gc("net", json!([]));
    assert_eq!(backstops(), None);
}

/// Chains of others, in tables of their own, and in ours when somebody puts some there.
#[test]
fn is_all_that_is_removed() {
    let Some((_node, pod)) = start() else { return };
    let named = |name: &str| Chain {
        name: name.to_owned(),
        hook: None,
    };
    let mut nft = Nft::open().unwrap();
    let (filter, other) = (named("filter"), named("from-other"));
    let theirs = Transaction::on("theirs").add_table().add_chain(&filter);
    nft.commit(theirs).unwrap();
    add(&pod, &by_ifb(&pod));
    nft.commit(Transaction::on("netqos").add_chain(&other))
        .unwrap();
    del(&pod, &by_ifb(&pod));
    gc("net", json!([]));
    assert_eq!(backstops(), Some(1));
    assert_eq!(nft.chain("netqos", "from-other").unwrap(), Some(other));
    assert_eq!(nft.chain("theirs", "filter").unwrap(), Some(filter));
    let empty = Transaction::on("netqos").delete_chain("from-other");
    nft.commit(empty).unwrap();
    gc("net", json!([]));
    assert_eq!(
        (backstops(), nft.chains_of("theirs").unwrap()),
        (None, Some(1))
    );
}

/// Its record, and the tag of its link, are both gone or not.
#[test]
fn without_a_record_is_found() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let pods = [
        node.pod("a").unwrap(),
        node.macvlan_pod("m", "parent").unwrap(),
    ];
    for pod in &pods {
        add(pod, &by_ifb(pod));
        lose_records(&node);
        del(pod, &by_ifb(pod));
        assert_eq!(
            (backstops(), backstops_in(pod)),
            (None, None),
            "{}",
            pod.name()
        );
    }
    let [pod, _] = &pods;
    add(pod, &by_ifb(pod));
    lose_records(&node);
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name("veth-a").unwrap();
    let no_alias = LinkChange {
        alias: Some(String::new()),
        ..LinkChange::default()
    };
    socket.change_link(&link, &no_alias).unwrap();
    gc("net", json!([]));
    assert_eq!(backstops(), None);
}

#[test]
fn is_not_asked_for_where_nothing_is_redirected() {
    let Some((node, pod)) = start() else { return };
    let outcome = |command, config: &Value| {
        let call = call(command, &pod, config);
        with_nfnetlink(Nfnetlink::Fatal, || call.run().unwrap()).unwrap()
    };
    let config = limited(&pod, json!({}));
    for command in ["ADD", "ADD", "CHECK", "DEL", "DEL"] {
        let outcome = outcome(command, &config);
        assert_eq!(outcome.code, Some(0), "{command}: {outcome:?}");
    }
    // DEL without a record, of what is there all the same.
    add(&pod, &config);
    lose_records(&node);
    assert_eq!(outcome("DEL", &config).code, Some(0));
    // It would have been seen.
    assert_eq!(outcome("ADD", &by_ifb(&pod)).code, None);
    del(&pod, &by_ifb(&pod));
}

#[test]
fn that_cannot_be_had_is_done_without() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let veth = node.pod("a").unwrap();
    let macvlan = node.macvlan_pod("m", "parent").unwrap();
    let status = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
    let status = Call::bare(plugin(), "STATUS")
        .variable("CNI_PATH", "/opt/cni/bin")
        .config(&status);
    type Run = fn(&Call) -> netqos_testkit::Outcome;
    let without_nfnetlink: Run =
        |call| with_nfnetlink(Nfnetlink::Missing, || call.run().unwrap()).unwrap();
    let without_fwd: Run = |call| call.clone().on_kernel_without(&["fwd"]).run().unwrap();
    for (run, words) in [
        (without_nfnetlink, "Protocol not supported"),
        (without_fwd, "No such file or directory"),
    ] {
        let said = run(&status);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
        let lacks = "this kernel lacks nftables fwd at ingress (";
        assert!(
            said.stderr.contains(lacks) && said.stderr.contains(words),
            "{said:?}"
        );
        assert!(said.stderr.contains(LIFTS), "{said:?}");
        for (pod, direction) in [(&veth, "egress"), (&macvlan, "ingress")] {
            let before = state(&node, pod).without("/sys/fs/bpf");
            let config = by_ifb(pod);
            let added = run(&call("ADD", pod, &config));
            assert_eq!(added.code, Some(0), "{added:?}");
            let warning = format!("{LIFTS}the {direction} limit: ");
            assert!(
                added.stderr.contains(&warning) && added.stderr.contains(words),
                "{added:?}"
            );
            assert_eq!((backstops(), backstops_in(pod)), (None, None));
            let checked = run(&call("CHECK", pod, &config));
            assert_eq!(checked.code, Some(0), "{checked:?}");
            // Had by now, it is made by the next ADD.
            add(pod, &config);
            check(pod, &config);
            assert_eq!(backstops().or(backstops_in(pod)), Some(1));
            del(pod, &config);
            let after = state(&node, pod).without("/sys/fs/bpf");
            after.assert_is(&before, words);
        }
    }
    call("STATUS", &veth, &by_ifb(&veth)).succeed().unwrap();
}
