use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::{Labels, ObjectName};
use netqos_index::Change;
use netqos_k8s::documents;
use netqos_testkit::mk_pod;
use serde_json::json;

use crate::stage;
use crate::world::World;

const PODS: usize = 110;
const POLICIES: usize = 200;
/// The time without events. The agent inspects rules every 10 s, and all limits every 30 s.
const IDLE: Duration = Duration::from_secs(60);
/// The most of a core that an idle agent should take, in percent.
const TARGET: f64 = 0.2;
/// After how long it has given back, at the latest, what it took while everything came at once.
const SETTLED: Duration = Duration::from_secs(60);

/// True where it is what `make build` makes that is looked at.
fn is_shipped() -> bool {
    std::env::var_os("NETQOS_TEST_AGENT").is_some()
}

/// A full node. What is asserted is for an executable of tests on any machine: that nothing grows or
/// spins. With that of `make build` in `NETQOS_TEST_AGENT`, as in `.ci/run`, it is what an agent may take:
/// 25 MB, and 0.2 % of a processor, or twice as much where others use the machine. docs/agent.md says what
/// it takes.
#[test]
fn with_a_hundred_pods_and_two_hundred_policies() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    let (megabytes, percent) = if is_shipped() {
        (25.0, 0.4)
    } else {
        (80.0, 3.0)
    };
    let pods: Vec<_> = (2..PODS)
        .map(|number| {
            let pod = world.node.pod(&format!("p{number}")).unwrap();
            world.create_pod(&pod, json!({"kubernetes.io/egress-bandwidth": "10M"}));
            pod
        })
        .collect();
    for number in 0..POLICIES {
        let to = json!({"podSelector": {"matchLabels": {"app": format!("p{}", number % PODS)}}});
        let object = json!({
            "metadata": {"name": format!("n{number}"), "namespace": world.namespace},
            "spec": {
                "priority": number % 101,
                "podSelector": {},
                "egress": [{"dscp": 1, "classifier": {"to": [to]}}]
            }
        });
        let namespace = world.namespace.clone();
        world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", &namespace, object);
    }
    controller.publish(&world);
    start(&mut world);
    let all = || {
        let pods = stage::status().pods;
        pods.len() == PODS && pods.iter().all(|pod| pod.failing.is_empty())
    };
    assert!(stage::eventually(all), "{:?}", world.problems());
    settle(&world, megabytes);
    let minute = idle_minute(&world);
    let resident = resident_now(&world);
    println!("{resident:.1} MB resident; when idle (target: {TARGET} %) {minute}");
    assert!(resident <= megabytes, "{resident:.1} MB");
    assert!(minute.busy() <= percent, "{minute}");
    let written = fs::metadata("/var/lib/netqos/objects/pods.json").unwrap();
    assert!(
        written.len() < 1_000 * PODS as u64,
        "{} bytes",
        written.len()
    );
    drop(pods);
}

/// Its rules go to pods of the whole cluster. What a peer takes is nearly the same in whatever the agent
/// was built as: what it takes with a hundred thousand of them, beyond what it takes with none.
#[test]
fn with_a_hundred_thousand_peers() {
    const PEERS: u32 = 100_000;
    const SETS: u32 = 100;
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    for number in 0..SETS {
        let kind = json!({"podSelector": {"matchLabels": {"kind": number.to_string()}}});
        world.mark_to(&format!("n{number}"), number as u8, 10, &kind);
    }
    controller.publish(&world);
    let megabytes = if is_shipped() { 60.0 } else { 150.0 };
    let without = resident(&mut world, SETS, megabytes);
    for number in 0..PEERS {
        let labels = Labels::from([("kind".into(), (number % SETS).to_string().into())]);
        let name = ObjectName::new("games", &format!("far-{number}"));
        let address = Ipv4Addr::from(0x0A80_0000 + number).into();
        let pod = mk_pod(name, labels, "elsewhere", [address]);
        controller.peers.apply(Change::Pod(pod));
    }
    controller.publish(&world);
    drop(controller);
    let with = resident(&mut world, SETS, megabytes.min(without + 40.0));
    println!("{without:.1} MB resident without peers, {with:.1} MB with {PEERS}");
    assert!(with <= megabytes, "{with:.1} MB");
    let more = with - without;
    assert!(more <= 40.0, "{more:.1} MB for {PEERS} peers");
}

/// Starts the agent with its DaemonSet's settings of the allocator.
fn start(world: &mut World) {
    let text = include_str!("../../../../deploy/kustomize/base/agent-daemonset.yaml");
    let document = documents(text).remove(0).value.unwrap();
    let variables = document["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let variables = variables.as_array().unwrap().iter();
    let variables = variables.filter_map(|it| Some((it["name"].as_str()?, it["value"].as_str()?)));
    let of_allocator: Vec<_> = variables
        .filter(|(name, _)| name.starts_with("MIMALLOC_"))
        .collect();
    assert_eq!(of_allocator.len(), 2);
    world.start_agent_where(&of_allocator);
}

/// Waits until what was urgent is done, and what was seen is written down, and then until it has no more
/// in memory than this, or has had the time for it.
fn settle(world: &World, megabytes: f64) {
    thread::sleep(Duration::from_secs(8));
    let began = Instant::now();
    while resident_now(world) > megabytes && began.elapsed() < SETTLED {
        thread::sleep(Duration::from_secs(1));
    }
}

/// What an agent takes that has put so many rules in force and has settled, in megabytes.
fn resident(world: &mut World, rules: u32, megabytes: f64) -> f64 {
    start(world);
    let all = || {
        let a = stage::pod_status("a");
        a.is_some_and(|a| a.failing.is_empty() && a.rules.len() == rules as usize)
    };
    assert!(stage::eventually(all), "{:?}", world.problems());
    settle(world, megabytes);
    resident_now(world)
}

/// What the agent has in memory, in bytes.
fn agent_memory(world: &World) -> u64 {
    let status = fs::read_to_string(of_agent(world, "status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

/// What its threads take of a processor while nothing happens.
fn idle_minute(world: &World) -> Minute {
    let before = agent_processor_times(world);
    thread::sleep(IDLE);
    let percent_since = |thread: &str, after: Duration| {
        let before = before.get(thread).copied().unwrap_or_default();
        after.saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64() * 100.0
    };
    let after = agent_processor_times(world).into_iter();
    let percents = after.map(|(thread, after)| {
        let percent = percent_since(&thread, after);
        (thread, percent)
    });
    Minute(percents.collect())
}

/// How long its threads have worked, by their names.
fn agent_processor_times(world: &World) -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::<String, Duration>::new();
    for task in fs::read_dir(of_agent(world, "task")).unwrap() {
        let task = task.unwrap().path();
        let read = |file| fs::read_to_string(task.join(file));
        // On the processor, waiting for it, and how often. A thread may have ended.
        let (Ok(name), Ok(text)) = (read("comm"), read("schedstat")) else {
            continue;
        };
        let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
        *times.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(nanoseconds);
    }
    times
}

fn of_agent(world: &World, file: &str) -> PathBuf {
    let pid = world.agent_pid().to_string();
    Path::new("/proc").join(pid).join(file)
}

/// What the agent takes, in megabytes.
fn resident_now(world: &World) -> f64 {
    agent_memory(world) as f64 / 1e6
}

/// What the agent's threads took of a processor, by their names, in percent.
struct Minute(BTreeMap<String, f64>);

impl Minute {
    fn busy(&self) -> f64 {
        self.0.values().sum()
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} % of a processor", self.busy())?;
        let mut of_note = self.0.iter().filter(|(_, percent)| **percent >= 0.005);
        of_note.try_for_each(|(thread, percent)| write!(f, ", {thread} {percent:.2}"))
    }
}
