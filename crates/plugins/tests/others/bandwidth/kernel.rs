//! What the kernel holds, read back over netlink, in a form that is the same on every node.

use std::collections::BTreeMap;
use std::path::Path;

use netqos_bpf::{Pins, Settings, TcxHook};
use netqos_core::{BitRate, ByteCount, Limit};
use netqos_datapath::Shape;
use netqos_netlink::filter::{Bpf, Installed as Filter, Place};
use netqos_netlink::link::{Link, LinkChange};
use netqos_netlink::nft::{Forward, Rule};
use netqos_netlink::qdisc::InstalledTbf;
use netqos_netlink::{Handle, Namespace, Nft, Socket};
use netqos_testkit::{Node, Pod};

/// Where a node of the tests has its BPF file system.
const BPFFS: &str = "/sys/fs/bpf";

/// One link, and what stands on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: String,
    pub(crate) alias: String,
    pub(crate) mtu: u32,
    pub(crate) tx_queue_len: u32,
    /// `tbf 1: at root`, without those that the kernel put there by itself.
    pub(crate) qdiscs: Vec<String>,
    /// The numbers of the one at the root.
    pub(crate) tbf: Option<InstalledTbf>,
    /// `egress 81 bpf netqos_rank`, `ingress 65535 u32 to bwp…`.
    pub(crate) filters: Vec<String>,
    /// The settings of the limiter of the ranking filter.
    pub(crate) limiter: Option<Settings>,
    /// How many programs its tcx hooks hold.
    pub(crate) tcx: usize,
    /// What its backstop does, and whose it is: `to bwp…, netqos:net:a:eth0`.
    pub(crate) backstop: Option<String>,
}

/// All links of the node and of these pods, by `link` and `pod/link`.
pub(crate) fn everything(pods: &[&Pod]) -> BTreeMap<String, Held> {
    let mut all = side("");
    for pod in pods {
        let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
        all.extend(side(&format!("{}/", pod.name())));
    }
    all
}

/// A link of the node.
pub(crate) fn on_host(link: &str) -> Held {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(link).unwrap();
    held(&mut socket, &link)
}

/// A link of the pod.
pub(crate) fn in_pod(pod: &Pod, link: &str) -> Held {
    let _inside = Namespace::open(pod.netns()).unwrap().enter().unwrap();
    on_host(link)
}

/// The names of the node's links of this kind.
pub(crate) fn links_of_kind(kind: &str) -> Vec<String> {
    let links = Socket::open().unwrap().links().unwrap();
    let is_wanted = links.into_iter().filter(|link| link.kind == kind);
    is_wanted.map(|link| link.name).collect()
}

/// The settings of all limiters of the node.
pub(crate) fn limiters() -> Vec<(u16, Settings)> {
    let Some(pins) = pins() else {
        return Vec::new();
    };
    let all = pins.limiters().all().unwrap();
    all.into_iter()
        .map(|(id, limiter)| (id, limiter.settings))
        .collect()
}

/// No limiter, record or link of a program is left on the node.
#[track_caller]
pub(crate) fn assert_no_limits(node: &Node, what: &str) {
    assert_eq!(limiters(), [], "{what}");
    assert_eq!(node.files("/run/netqos"), [""; 0], "{what}");
    assert_eq!(node.files("/sys/fs/bpf/netqos/v1/links"), [""; 0], "{what}");
}

/// What is pinned on this node.
pub(crate) fn pins() -> Option<Pins> {
    Pins::open(Path::new(BPFFS)).unwrap()
}

/// Puts our program in the place of our filter on a link of the calling thread's namespace, under
/// this name and with this argument.
pub(crate) fn put_in_our_place(link: &str, name: &str, argument: u16) {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(link).unwrap();
    let place = Place {
        hook: Handle::CLSACT_EGRESS,
        preference: 81,
        handle: 0x6e71,
    };
    let pins = pins().unwrap();
    let filter = Bpf {
        program: pins.programs().rank().unwrap(),
        name,
        argument,
    };
    socket.delete_filter(&link, "bpf", place).unwrap();
    socket.put_filter(&link, place, &filter).unwrap();
}

/// Changes the alias of a link of the calling thread's namespace.
pub(crate) fn set_alias(link: &str, alias: &str) {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(link).unwrap();
    let change = LinkChange {
        alias: Some(alias.to_owned()),
        ..LinkChange::default()
    };
    socket.change_link(&link, &change).unwrap();
}

/// What a limit of this rate should become on an ordinary veth. A burst of 0 is netqos' choice.
pub(crate) fn shape(rate: u64, burst: u64) -> Shape {
    let limit = Limit {
        burst: (burst > 0).then(|| ByteCount::from_bits(burst)),
        ..Limit::of(BitRate::from_bits_per_second(rate))
    };
    shape_of(&limit)
}

/// The same of a whole limit.
pub(crate) fn shape_of(limit: &Limit) -> Shape {
    let veth = Link {
        index: 0,
        name: String::new(),
        kind: "veth".to_owned(),
        mtu: 1500,
        tx_queue_len: 1000,
        gso_max_size: 65_536,
        is_up: true,
        ..Link::default()
    };
    Shape::new(limit, &veth)
}

fn side(prefix: &str) -> BTreeMap<String, Held> {
    let mut socket = Socket::open().unwrap();
    let links = socket.links().unwrap();
    links
        .iter()
        .map(|link| (format!("{prefix}{}", link.name), held(&mut socket, link)))
        .collect()
}

fn held(socket: &mut Socket, link: &Link) -> Held {
    let qdiscs = socket.qdiscs(link).unwrap();
    let root = qdiscs.iter().find(|qdisc| qdisc.parent == Handle::ROOT);
    let made = qdiscs.iter().filter(|qdisc| !qdisc.is_default());
    let mut qdiscs_made: Vec<_> = made
        .map(|qdisc| format!("{} {} at {}", qdisc.kind, qdisc.handle, qdisc.parent))
        .collect();
    qdiscs_made.sort();
    let mut filters = Vec::new();
    let mut limiter = None;
    for (name, hook) in [
        ("ingress", Handle::CLSACT_INGRESS),
        ("egress", Handle::CLSACT_EGRESS),
    ] {
        for filter in socket.filters(link, hook).unwrap() {
            filters.push(format!("{name} {}", describe(socket, &filter)));
            let ours = filter.bpf().filter(|bpf| bpf.name == "netqos_rank");
            limiter = limiter.or(ours.and_then(|bpf| settings(bpf.argument)));
        }
    }
    let tcx = [TcxHook::Ingress, TcxHook::Egress]
        .map(|hook| hook.programs(link.index).unwrap_or_default().len());
    Held {
        kind: link.kind.clone(),
        alias: link.alias.clone().unwrap_or_default(),
        mtu: link.mtu,
        tx_queue_len: link.tx_queue_len,
        tbf: root.and_then(|root| root.tbf()),
        qdiscs: qdiscs_made,
        filters,
        limiter,
        tcx: tcx.iter().sum(),
        backstop: backstop(socket, link),
    }
}

/// How many backstops the calling thread's namespace has; `None` when there is no table for them.
pub(crate) fn backstops() -> Option<u32> {
    Nft::open().unwrap().chains_of("netqos").unwrap()
}

fn backstop(socket: &mut Socket, link: &Link) -> Option<String> {
    let mut nft = Nft::open().unwrap();
    let name = format!("from-{}", link.name);
    let chain = nft.chain("netqos", &name).unwrap()?;
    let hook = chain.hook.unwrap();
    assert_eq!(
        (hook.device.as_str(), hook.priority),
        (link.name.as_str(), i32::MAX)
    );
    let rules = nft.rules("netqos", Some(&name)).unwrap();
    let said = |rule: &Rule| match rule.forward {
        Some(Forward { from, to }) if from == link.index => {
            let to = socket.link_by_index(to);
            let to = to.map_or_else(|_| "nowhere".to_owned(), |link| link.name);
            format!("to {to}, {}", rule.comment)
        }
        other => format!("{other:?}"),
    };
    let all: Vec<_> = rules.iter().map(said).collect();
    Some(all.join("; "))
}

fn describe(socket: &mut Socket, filter: &Filter) -> String {
    let place = format!("{} {}", filter.place.preference, filter.kind);
    if let Some(bpf) = filter.bpf() {
        return format!("{place} {}", bpf.name);
    }
    match filter.redirect() {
        Some(redirect) => {
            let to = socket.link_by_index(redirect.to);
            let to = to.map_or_else(|_| "nowhere".to_owned(), |link| link.name);
            format!("{place} to {to}")
        }
        None => place,
    }
}

fn settings(id: u16) -> Option<Settings> {
    let limiter = pins()?.limiters().get(id).unwrap()?;
    Some(limiter.settings)
}
