//! All that rules leave on a node, in lines; what numbers the kernel chose is not in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use netqos_bpf::rules::Rules;
use netqos_bpf::{Pins, TcxHook, TcxLink};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Socket};

use crate::{Node, Pod};

const BPFFS: &str = "/sys/fs/bpf";
const RECORDS: &str = "/run/netqos";

/// Everything, sorted.
pub fn state(node: &Node, pods: &[Pod]) -> Vec<String> {
    let mut lines = links("node");
    for pod in pods {
        lines.extend(pod.inside(|| links(pod.name())).unwrap());
    }
    // A socket has no text.
    let records = node.files(RECORDS).into_iter();
    for file in records.filter(|file| Path::new(file).is_file()) {
        lines.push(format!("{file}: {}", fs::read_to_string(&file).unwrap()));
    }
    lines.extend(node.files(BPFFS));
    lines.extend(tables());
    lines.sort();
    lines
}

/// What one has that the other has not.
pub fn difference(before: &[String], after: &[String]) -> String {
    let only_in = |one: &[String], other: &[String]| -> Vec<String> {
        let lines = one.iter().filter(|line| !other.contains(line));
        lines.cloned().collect()
    };
    let (gone, new) = (only_in(before, after), only_in(after, before));
    format!("gone: {gone:#?}\nnew: {new:#?}")
}

/// The links of this thread's namespace, with what is attached to them.
fn links(place: &str) -> Vec<String> {
    let mut socket = Socket::open().unwrap();
    let links = socket.links().unwrap();
    let name_of = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    let mut lines = Vec::new();
    for link in &links {
        let of = format!("{place} {}", link.name);
        let related = link.related.and_then(name_of);
        lines.push(format!(
            "{of}: {} {:?} mtu {} up {} with {related:?}",
            link.kind, link.alias, link.mtu, link.is_up
        ));
        for mut qdisc in socket.qdiscs(link).unwrap() {
            qdisc.statistics = Statistics::default();
            // The handle of one that the kernel made is its choice.
            if qdisc.parent != Handle::CLSACT {
                qdisc.handle = Handle::NONE;
            }
            lines.push(format!("{of}: {qdisc:?}"));
        }
        for hook in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS] {
            for filter in socket.filters(link, hook).unwrap() {
                let bpf = filter.bpf().map(|bpf| (bpf.name, bpf.argument));
                lines.push(format!("{of}: {:?} {bpf:?}", filter.place));
            }
        }
        for hook in [TcxHook::Ingress, TcxHook::Egress] {
            let programs = hook.programs(link.index).unwrap_or_default().len();
            if programs > 0 {
                lines.push(format!("{of}: {hook:?} {programs} programs"));
            }
        }
    }
    lines
}

fn tables() -> Vec<String> {
    let bpffs = Path::new(BPFFS);
    let mut lines = Vec::new();
    let links = fs::read_dir(Pins::folder_in(bpffs).join("links"));
    for link in links.into_iter().flatten().flatten() {
        let link = TcxLink::open(&link.path()).unwrap().unwrap();
        let endpoint = Rules::endpoint_at(&link).unwrap();
        lines.push(format!("tcx link {:?} {endpoint:?}", link.ifindex()));
    }
    if let Some(pins) = Pins::open(bpffs).unwrap() {
        for (id, limiter) in pins.limiters().all().unwrap() {
            lines.push(format!("limiter {id} {:?}", limiter.settings));
        }
    }
    let Some(mut rules) = Rules::open(bpffs).unwrap() else {
        return lines;
    };
    let mut add = |what: &str, elements: Vec<String>| {
        lines.extend(elements.iter().map(|element| format!("{what} {element}")));
    };
    let links = Socket::open().unwrap().links().unwrap();
    let name_of = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    let own = rules.rules_of.all().unwrap().into_iter();
    let own = own.map(|(key, mut rule)| {
        let queue = name_of(std::mem::take(&mut rule.queue));
        format!("{key:?} {rule:?} {queue:?}")
    });
    add("rule", own.collect());
    add("endpoint", texts(rules.endpoints.all().unwrap()));
    add("chain", texts(rules.chains.all().unwrap()));
    add("class", texts(rules.classes.all().unwrap()));
    add("port", texts(rules.ports.all().unwrap()));
    add("block4", texts(rules.blocks4.all().unwrap()));
    add("block6", texts(rules.blocks6.all().unwrap()));
    add("service", texts(rules.services.all().unwrap()));
    add("crowd", texts(rules.crowds.keys().unwrap()));
    // What there is of these depends on the packets, too, and on where they came from.
    let shares = rules.shares.keys().unwrap();
    let counters: Vec<_> = rules.counters.all().unwrap();
    add(
        "shares of",
        texts(set(shares.iter().map(|share| share.meter))),
    );
    add(
        "shares at",
        texts(set(shares.iter().map(|share| share.endpoint))),
    );
    add(
        "counters of",
        texts(set(counters.iter().map(|(key, _)| key.rule))),
    );
    add(
        "counters at",
        texts(set(counters.iter().map(|(key, _)| key.endpoint()))),
    );
    for network in rules.networks.networks().unwrap() {
        let peers = rules.networks.all(network).unwrap();
        let peers = peers.into_iter().map(|peer| format!("{network} {peer:?}"));
        add("peer", peers.collect());
    }
    lines
}

fn set<T: Ord>(elements: impl Iterator<Item = T>) -> Vec<T> {
    elements.collect::<BTreeSet<T>>().into_iter().collect()
}

fn texts<T: std::fmt::Debug>(elements: Vec<T>) -> Vec<String> {
    elements
        .iter()
        .map(|element| format!("{element:?}"))
        .collect()
}
