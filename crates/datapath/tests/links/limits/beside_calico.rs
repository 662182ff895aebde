//! Calico's Felix deletes the TBFs that it finds at the host's end of a pod's first interface, and makes its own there.

use netqos_api::{HookChoice, ifb_name};
use netqos_datapath::{LimitDatapath, Paths, QueueName};
use netqos_testkit::{Felix, Node, Pod};

use super::{Wanted, both, datapath, lift};

const IN_POD: [QueueName; 2] = [QueueName::IngressInPod, QueueName::Egress];
const FELIX: Felix = Felix {
    ingress: None,
    egress: None,
};

fn note(why: Option<&str>) {
    let paths = Paths::from_variables(|_| None);
    LimitDatapath::note_ingress_only_in_pod(&paths, why).unwrap();
}

fn queues(wanted: &Wanted) -> Vec<QueueName> {
    let record = datapath().records().read(&wanted.attachment).unwrap();
    let queues = record.map_or_else(Vec::new, |record| record.queues);
    queues.iter().map(|queue| queue.name()).collect()
}

fn qdiscs(node: &Node, pod: &Pod) -> String {
    let shown = node.run("tc", &["qdisc", "show", "dev", pod.host_link()]);
    shown.unwrap()
}

#[test]
fn queue_on_the_host_moves_into_the_pod_and_lasts() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let before = (node.inventory().unwrap(), qdiscs(&node, &pod));
    for hook in [HookChoice::Auto, HookChoice::Clsact] {
        let wanted = Wanted::new(&pod, both(20), hook).running();
        datapath().apply(&wanted.request()).unwrap();
        assert_eq!(queues(&wanted), [QueueName::Ingress, QueueName::Egress]);
        note(Some("a test"));
        let moved = datapath().apply_again(&wanted.attachment, None).unwrap();
        assert_eq!(moved.unwrap().no_queue_in_pod_because, None);
        assert_eq!(queues(&wanted), IN_POD);
        // Neither a TBF nor clsact.
        assert_eq!(qdiscs(&node, &pod), before.1);
        FELIX.update(&node, &pod).unwrap();
        datapath().check(&wanted.request()).unwrap();
        lift(&wanted);
        note(None);
        assert_eq!(node.inventory().unwrap(), before.0, "{hook:?}");
    }
    // At ADD.
    note(Some("a test"));
    let wanted = Wanted::new(&pod, both(20), HookChoice::Auto);
    datapath().apply(&wanted.request()).unwrap();
    datapath().check(&wanted.request()).unwrap();
    assert_eq!(queues(&wanted), IN_POD);
    assert_eq!(qdiscs(&node, &pod), before.1);
    lift(&wanted);
    note(None);
    assert_eq!(node.inventory().unwrap(), before.0);
}

#[test]
fn queue_that_calico_has_made_its_own_stays() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let calico = Felix {
        ingress: Some("30mbit"),
        ..FELIX
    };
    for (why, stays) in [(None, false), (Some("a test"), true)] {
        let wanted = Wanted::new(&pod, both(20), HookChoice::Auto).running();
        note(None);
        datapath().apply(&wanted.request()).unwrap();
        calico.update(&node, &pod).unwrap();
        note(why);
        lift(&wanted);
        let qdiscs = qdiscs(&node, &pod);
        assert_eq!(qdiscs.contains("rate 30Mbit"), stays, "{qdiscs}");
    }
}

/// As by a tenant with `CAP_NET_ADMIN`: both names of the ifb are another link's.
#[test]
fn limit_without_a_place_in_the_pod_is_refused_or_stays_on_the_host() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let running = Wanted::new(&pod, both(20), HookChoice::Auto).running();
    datapath().apply(&running.request()).unwrap();
    // It has both queues, and removes its own.
    datapath().note_ingress_in_pod("a test").unwrap();
    let both_ends = datapath().apply_again(&running.attachment, None).unwrap();
    let ifb = &both_ends.unwrap().queues[1].link;
    pod.run(&node, "ip", &["link", "delete", ifb]).unwrap();
    note(Some("a test"));
    for container in ["a", "aeth0"] {
        let name = ifb_name("net", container).replace("bwp", "nqi");
        let add = ["link", "add", &name, "type", "veth"];
        pod.run(&node, "ip", &add).unwrap();
    }
    let applied = datapath().apply(&running.request()).unwrap();
    assert!(applied.no_queue_in_pod_because.is_some());
    assert!(qdiscs(&node, &pod).contains("rate 20Mbit"));
    lift(&running);

    let file = Paths::from_variables(|_| None).ingress_in_pod();
    std::fs::remove_file(file).unwrap();
    let before = node.inventory().unwrap();
    let added = Wanted::new(&pod, both(20), HookChoice::Auto);
    for wanted in [added, running] {
        datapath().apply(&wanted.request()).unwrap_err();
        let ingress = [QueueName::Ingress, QueueName::IngressInPod];
        assert!(queues(&wanted).iter().all(|queue| !ingress.contains(queue)));
        lift(&wanted);
        assert_eq!(node.inventory().unwrap(), before);
    }
}
