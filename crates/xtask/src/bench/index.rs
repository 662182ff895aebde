//! How fast the policy index is, and how much it holds.
//!
//! Clusters of made-up objects: namespaces of 50 pods, each with the labels that a Deployment's
//! pods have, half of them one that is theirs alone; five policies for each namespace, each for the
//! pods of one application, with rules to addresses, to applications of the own namespace and to
//! those of others. 110 pods are on the node that is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use netqos_core::objects::{LocalInterface, Namespace, NetworkName, Pod};
use netqos_core::plan::{Attach, Interface};
use netqos_core::{
    Destination, Dscp, IpBlock, LabelSelector, Labels, Mode, NetworkChoice, ObjectName,
    PeerSelector, Policy, PortMatch, Priority, Protocol, Requirement, Rule,
};
use netqos_index::{Change, Index};
use netqos_testkit::mk_pod;
use serde::{Deserialize, Serialize};

use super::rules::Quantiles;

const NODE: &str = "node-0";
pub(super) const PODS_PER_NAMESPACE: u32 = 50;
const APPLICATIONS: u32 = 10;
const EVENTS: u32 = 2_000;

/// How many pods and policies are measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Pods in the cluster.
    #[arg(long, default_value_t = 100_000)]
    pods: u32,
    /// Policies in the cluster.
    #[arg(long, default_value_t = 10_000)]
    policies: u32,
    /// Pods on the node.
    #[arg(long, default_value_t = 110)]
    local: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub pods: u32,
    pub policies: u32,
    /// Pods on the node.
    pub local: u32,
    /// Seconds until the first plan.
    pub first: f64,
    /// Bytes that the process has grown by.
    pub memory: u64,
    /// What is in the plan, in words.
    pub plan: String,
    pub events: Vec<Event>,
}

/// What events of one kind take with the delta of the plan, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub what: String,
    pub events: usize,
    /// How many of them change the plan.
    pub changed: usize,
    /// How many addresses enter the plan, leave it or change in it by one of them.
    #[serde(default)]
    pub peers: f64,
    pub took: Quantiles,
}

/// Measures, and prints the figures.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let figures = measured(arguments)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    println!(
        "| what, with {} pods, {} policies, {} pods here | measured |\n|---|---|",
        figures.pods, figures.policies, figures.local
    );
    println!("| first index | {:.2} s |", figures.first);
    println!("| memory | {} MB |", figures.memory >> 20);
    println!("| in the plan | {} |", figures.plan);
    for event in &figures.events {
        println!(
            "| {} ({} events, {} change the plan, {:.0} peers each) | {:.1} µs p50, {:.1} µs p99 |",
            event.what, event.events, event.changed, event.peers, event.took.p50, event.took.p99
        );
    }
    Ok(())
}

fn measured(arguments: &Arguments) -> anyhow::Result<Figures> {
    let Arguments {
        pods,
        policies,
        local,
        ..
    } = *arguments;
    let before = resident()?;
    let namespaces = (pods / PODS_PER_NAMESPACE).max(1);
    let mut index = Index::for_node(NODE);
    let mut spent = Duration::ZERO;
    let mut feed = |change: Change| {
        let start = Instant::now();
        index.apply(change);
        spent += start.elapsed();
    };
    for number in 0..namespaces {
        feed(Change::Namespace(namespace(number)));
    }
    for number in 0..policies {
        feed(Change::Policy(policy(number, namespaces)));
    }
    for number in 0..pods {
        feed(Change::Pod(pod(number, is_here(number, pods, local))));
        if is_here(number, pods, local) {
            feed(attachment(number));
        }
    }
    let start = Instant::now();
    black_box(index.take_delta());
    spent += start.elapsed();
    let plan = index.plan();
    let memory = (resident()? - before) * 1024;
    let in_the_plan = format!(
        "{} endpoints, {} chains, {} sets, {} classes, {} peers",
        plan.endpoints.len(),
        plan.chains.len(),
        plan.sets.len(),
        plan.classes.len(),
        plan.peers.len()
    );

    // Those that are peers of the node's pods, and those that are not; every event really changes
    // something.
    let there = |number: &u32| !is_here(*number, pods, local);
    let here: Vec<u32> = (0..pods).filter(|number| !there(number)).collect();
    let elsewhere: Vec<u32> = (0..EVENTS)
        .map(|step| step.wrapping_mul(7919) % pods)
        .filter(there)
        .collect();
    let neighbours: Vec<u32> = here.iter().map(|number| number + 1).filter(there).collect();
    let mut events = Vec::new();
    let mut measure = |what: &str, numbers: &[u32], event: &dyn Fn(u32) -> Vec<Change>| {
        events.push(time(&mut index, what, numbers, event));
    };
    measure("pod elsewhere: another address", &elsewhere, &|number| {
        let mut pod = pod(number, false);
        move_away(&mut pod);
        vec![Change::Pod(pod)]
    });
    measure("pod elsewhere: back again", &elsewhere, &|number| {
        vec![Change::Pod(pod(number, false))]
    });
    measure("peer of a pod here: gone", &neighbours, &|number| {
        vec![Change::PodGone(pod(number, false).id)]
    });
    measure("peer of a pod here: comes", &neighbours, &|number| {
        vec![Change::Pod(pod(number, false))]
    });
    measure("pod here: another label", &here, &|number| {
        let mut pod = pod(number, true);
        pod.labels.insert("revision".into(), "2".into());
        vec![Change::Pod(pod)]
    });
    measure("pod here: gone", &here, &|number| {
        vec![Change::PodGone(pod(number, true).id)]
    });
    measure("pod here: comes, its policies too", &here, &|number| {
        vec![Change::Pod(pod(number, true))]
    });
    // Each is beside one that is here already, and is for the same policies.
    let seconds: Vec<u32> = here.iter().map(|number| number + APPLICATIONS).collect();
    measure(
        "second pod of an application here: comes",
        &seconds,
        &|number| vec![Change::Pod(pod(number, true)), attachment(number)],
    );
    let of_node: Vec<u32> = (0..APPLICATIONS.min(policies)).collect();
    measure("policy of pods here: another mark", &of_node, &|number| {
        let mut policy = policy(number, namespaces);
        policy.rules[0].dscp = Dscp::try_new(63).ok();
        vec![Change::Policy(policy)]
    });
    Ok(Figures {
        pods,
        policies,
        local,
        first: spent.as_secs_f64(),
        memory,
        plan: in_the_plan,
        events,
    })
}

/// What such an event takes with its delta.
fn time(
    index: &mut Index,
    what: &str,
    numbers: &[u32],
    event: &dyn Fn(u32) -> Vec<Change>,
) -> Event {
    let mut times = Vec::with_capacity(numbers.len());
    let (mut changed, mut peers) = (0, 0);
    for number in numbers {
        let changes = event(*number);
        let start = Instant::now();
        for change in changes {
            index.apply(change);
        }
        let delta = black_box(index.take_delta());
        times.push(start.elapsed().as_secs_f64() * 1e6);
        changed += usize::from(!delta.is_empty());
        peers += delta.peers.len();
    }
    Event {
        what: what.to_owned(),
        events: numbers.len(),
        changed,
        peers: peers as f64 / numbers.len().max(1) as f64,
        took: Quantiles::of(times),
    }
}

/// The node's pods are spread over the namespaces that have policies for them.
fn is_here(number: u32, pods: u32, local: u32) -> bool {
    let every = (pods / local.max(1)).max(1);
    number.is_multiple_of(every) && number / every < local
}

pub(super) fn namespace_name(number: u32) -> String {
    format!("team-{number}")
}

pub(super) fn application(number: u32) -> String {
    format!("app-{}", number % APPLICATIONS)
}

pub(super) fn namespace(number: u32) -> Namespace {
    let tier = if number.is_multiple_of(100) {
        "shared"
    } else {
        "own"
    };
    Namespace {
        name: namespace_name(number).into(),
        labels: Labels::from([("tier".into(), tier.into())]),
    }
}

pub(super) fn pod(number: u32, here: bool) -> Pod {
    let name = format!("{}-7d4b9c6f5-{number:05x}", application(number));
    let mut labels = Labels::from([
        ("app.kubernetes.io/name".into(), application(number).into()),
        ("app.kubernetes.io/part-of".into(), "shop".into()),
        (
            "pod-template-hash".into(),
            format!("7d4b9c{}", number % (4 * APPLICATIONS)).into(),
        ),
        ("revision".into(), "1".into()),
    ]);
    if number.is_multiple_of(2) {
        labels.insert("pod-name".into(), name.as_str().into());
    }
    let [_, a, b, c] = number.to_be_bytes();
    let name = ObjectName::new(&namespace_name(number / PODS_PER_NAMESPACE), &name);
    let node = if here { NODE } else { "node-1" };
    let mut pod = mk_pod(name, labels, node, [[10, a, b, c].into()]);
    // As long as real ones are.
    pod.id.uid = format!("0a1b2c3d-0000-4000-8000-{number:012x}").into();
    pod
}

pub(super) fn move_away(pod: &mut Pod) {
    for addresses in &mut pod.addresses {
        let moved = addresses.addresses.iter().map(|address| match address {
            std::net::IpAddr::V4(v4) => {
                let [_, a, b, c] = v4.octets();
                [11, a, b, c].into()
            }
            v6 => *v6,
        });
        addresses.addresses = moved.collect();
    }
}

fn attachment(number: u32) -> Change {
    let Pod { id, addresses, .. } = pod(number, true);
    let addresses = addresses.into_iter().flat_map(|one| one.addresses);
    Change::Attachments {
        pod: id.name,
        uid: Some(id.uid.clone()),
        interfaces: vec![LocalInterface {
            recorded: None,
            network: NetworkName::Default,
            name: "eth0".into(),
            addresses: addresses.collect(),
            attach: Attach::HostVeth(Interface {
                container: id.uid.to_string(),
                network: "default".into(),
                name: "eth0".into(),
                netns: format!("/run/netns/{number}").into(),
                ends: None,
            }),
        }],
    }
}

/// Six rules: everywhere, three blocks, two applications of the own namespace, one of another, the
/// shared ones by label, and one port.
pub(super) fn policy(number: u32, namespaces: u32) -> Policy {
    let namespace = number % namespaces;
    let one = |key: &str, value: &str| LabelSelector::new([Requirement::equals(key, value)]);
    let app = |offset: u32| one("app.kubernetes.io/name", &application(number + offset));
    let peers = |namespaces, pods| Destination::Pods(PeerSelector { namespaces, pods });
    let other = namespace_name((namespace + 1) % namespaces);
    let everywhere: Option<ipnet::IpNet> = "0.0.0.0/0".parse().ok();
    let private: Option<ipnet::IpNet> = "10.0.0.0/8".parse().ok();
    let internet =
        everywhere.and_then(|all| IpBlock::try_new(all, private.into_iter().collect()).ok());
    let destinations = [
        vec![],
        internet.map(Destination::Block).into_iter().collect(),
        vec![peers(None, Some(app(1))), peers(None, Some(app(2)))],
        vec![peers(
            Some(one("kubernetes.io/metadata.name", &other)),
            Some(app(0)),
        )],
        vec![peers(Some(one("tier", "shared")), None)],
        vec![peers(None, None.or(Some(LabelSelector::everything())))],
    ];
    let rules = (1_i64..).zip(destinations).map(|(mark, to)| Rule {
        to,
        ports: vec![PortMatch {
            protocol: Some(Protocol::Tcp),
            port: std::num::NonZeroU16::new(443),
        }],
        dscp: Dscp::try_new(mark).ok(),
        bandwidth: None,
        mode: Mode::Enforce,
    });
    Policy {
        name: ObjectName::new(&namespace_name(namespace), &format!("qos-{number}")),
        priority: Priority::try_new(i64::from(number % 100)).unwrap_or_default(),
        networks: NetworkChoice::Default,
        pods: match number % 5 {
            // Some are for everybody.
            0 => LabelSelector::everything(),
            _ => one("app.kubernetes.io/name", &application(number / namespaces)),
        },
        rules: rules.collect(),
    }
}

/// What this process has in memory, in kB.
pub(super) fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"))
        .and_then(|kilobytes| kilobytes.trim().parse().ok())
        .context("/proc/self/status has no VmRSS")
}
