//! Who writes.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use netqos_faults::{Fault, Gate, Request};
use serde_json::{Value, json};

use crate::clock::{DAY, library, turn};
use crate::world::{HOME, Replica, World};

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
/// What the documents promise.
const REPLACED_WITHIN: Duration = Duration::from_secs(15);

#[test]
fn a_leader_that_is_killed_is_replaced_and_nothing_is_written_again() {
    let world = World::new();
    let one = world.published_by_one();
    let before = world.slices();
    let _two = world.standby("two");
    assert_eq!(world.leader(), "one");

    let killed = Instant::now();
    one.kill();
    world.wait_for_leader("two");
    println!("replaced after {:.1} s", killed.elapsed().as_secs_f64());
    assert!(killed.elapsed() < REPLACED_WITHIN);
    // What is right is not written again, by whoever leads.
    thread::sleep(Duration::from_secs(1));
    let version = |slices: &[DynamicObject]| slices[0].metadata.resource_version.clone();
    assert_eq!(version(&world.slices()), version(&before));
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    assert!(killed.elapsed() < REPLACED_WITHIN + Duration::from_secs(2));
    // The same slice.
    let after = world.slices();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].metadata.uid, before[0].metadata.uid);
    let lease = world.get(
        ("coordination.k8s.io/v1", "Lease", HOME),
        "netqos-controller",
    );
    assert_eq!(lease.unwrap()["spec"]["leaseTransitions"], 1);
}

#[test]
fn a_leader_that_is_told_to_stop_gives_the_lease_back() {
    let world = World::new();
    let one = world.replica("one");
    world.wait_for_leader("one");
    let _two = world.standby("two");
    let told = Instant::now();
    assert_eq!(one.stop(), Some(0));
    world.wait_for_leader("two");
    // It need not wait for the end of the lease, which is ten seconds.
    assert!(
        told.elapsed() < Duration::from_secs(6),
        "{:?}",
        told.elapsed()
    );
}

/// Processes that keep every core busy.
struct BusyCores(Vec<Child>);

impl BusyCores {
    fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let busy = || {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
        };
        Self((0..2 * cores).map(|_| busy().unwrap()).collect())
    }
}

impl Drop for BusyCores {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets a replica go on that was deposed while it was stopped, on a busy machine, until it has looked at the Lease
/// several times, two seconds apart. It has begun no write by then.
fn deposed_replica_begins_no_write(world: &World, replica: &Replica) {
    let name = &replica.name;
    // What it sent before it was stopped has come long ago.
    let number = world.front.requests().len();
    let ends = || world.log(replica).matches("leads no longer").count();
    let ends_before = ends();
    let busy = BusyCores::new();
    replica.signal(SIGCONT);
    world.eventually("the replica does not look at the Lease", || {
        let looks = world.front.requests().split_off(number).into_iter();
        let looks = looks.filter(|it| it.client == *name && it.resource == "leases");
        looks.count() >= 4
    });
    drop(busy);
    assert_eq!(ends(), ends_before + 1, "{}", world.log(replica));
    assert_eq!(written(&world.writes_since(name, number)), [""; 0]);
    let alarms = world.log(replica);
    let alarms = alarms
        .lines()
        .filter(|it| it.contains("could not be written"));
    assert_eq!(alarms.collect::<Vec<_>>(), [""; 0]);
}

fn written(requests: &[Request]) -> Vec<String> {
    let requests = requests.iter();
    requests
        .map(|it| format!("{} {} {}", it.verb, it.path, it.status))
        .collect()
}

/// Opens the gate before requests that a replica sent before it was stopped, and waits for the last answer, which
/// is one of these.
fn late_request_is_answered(
    world: &World,
    gate: &Gate,
    (of, verb, resource): (&str, &str, &str),
    answers: &[u16],
) {
    gate.open();
    let mut last = None;
    world.eventually(&format!("{verb} {resource} is not answered"), || {
        let requests = world.requests_for(of, verb, resource);
        last = requests.last().map(|it| it.status).filter(|it| *it > 0);
        last.is_some()
    });
    let is_one = last.is_some_and(|it| answers.contains(&it));
    assert!(is_one, "{verb} {resource}: {last:?}\n{}", world.log_of(of));
}

/// The versions of policies, of events about them, and of slices.
fn versions(world: &World) -> BTreeMap<String, Option<String>> {
    let events = world.events("NetworkQoS", "QoSProgrammed");
    let policies = world.list(world.policies());
    let all = policies.into_iter().chain(events).chain(world.slices());
    all.map(|it| (it.name_any(), it.resource_version()))
        .collect()
}

/// It is stopped while it renews the Lease, and its wall clock jumps meanwhile.
#[test]
fn a_leader_that_does_not_know_yet_that_it_was_deposed_spoils_nothing() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let folder = tempfile::tempdir().unwrap();
    let (library, clock) = (library(folder.path()), folder.path().join("clock"));
    turn(&clock, 0);
    let variables = [
        ("LD_PRELOAD", library.as_path()),
        ("NETQOS_TEST_CLOCK", clock.as_path()),
    ];
    let one = world.replica_where("one", &[], &variables);
    world.wait_for_leader("one");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let _two = world.standby("two");
    let gate = Gate::default();
    let renewals = || world.requests_for("one", "update", "leases").len();
    let before = renewals();
    world
        .front
        .inject(Fault::hold(&gate).on("update", "leases").of("one"));
    world.eventually("the Lease is not renewed", || renewals() > before);
    // It sleeps for longer than its lease counts.
    one.signal(SIGSTOP);
    turn(&clock, -DAY);
    world.wait_for_leader("two");
    for (number, round) in (3..8).zip(0..) {
        world.create_pod(
            &format!("c{round}"),
            "db",
            "node1",
            &format!("10.0.0.{number}"),
        );
    }
    world.delete_pod("b");
    let right: Vec<String> = (3..8).map(|it| format!("10.0.0.{it}")).collect();
    let right: Vec<&str> = right.iter().map(String::as_str).collect();
    world.wait_for_peers(&[&right]);
    late_request_is_answered(&world, &gate, ("one", "update", "leases"), &[409]);
    world.front.heal();
    let before = versions(&world);
    deposed_replica_begins_no_write(&world, &one);
    world.wait_for_peers(&[&right]);
    assert_eq!(versions(&world), before);
    assert_eq!(world.leader(), "two");
}

/// It is stopped while some writes of a round are under way and others wait for these. The former reach the server
/// when another replica has written the same objects.
#[test]
fn leader_stopped_amid_writes_changes_nothing_when_it_wakes() {
    /// More than are written at the same time.
    const POLICIES: usize = 20;
    const AT_ONCE: usize = 8;
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let names: Vec<String> = (0..POLICIES).map(|it| format!("p{it}")).collect();
    for name in &names {
        world.create_policy(name, "web", "db");
    }
    let none: [(&str, i64); 0] = [];
    world.report("node1", &none, &json!([]));
    let one = world.replica("one");
    for name in &names {
        world.wait_for(name, "Ready", "False", "Pending");
    }
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let _two = world.standby("two");

    let gate = Gate::default();
    let statuses = ("patch", "networkqoses");
    let events = ("create", "events");
    for (verb, resource) in [statuses, events] {
        world
            .front
            .inject(Fault::hold(&gate).on(verb, resource).of("one"));
    }
    let count = |(verb, resource)| world.requests_for("one", verb, resource).len();
    let (statuses_before, events_before) = (count(statuses), count(events));
    let problem = json!([{
        "kind": "Pod", "namespace": world.namespace, "name": "a",
        "reason": "InvalidBandwidth", "message": "m"
    }]);
    let reported: Vec<(&str, i64)> = names.iter().map(|it| (it.as_str(), 1)).collect();
    world.report("node1", &reported, &problem);
    world.eventually("no writes are under way", || {
        count(statuses) >= statuses_before + AT_ONCE && count(events) > events_before
    });
    one.signal(SIGSTOP);
    world.wait_for_leader("two");
    for name in &names {
        world.wait_for(name, "Ready", "True", "Ready");
    }
    // By then it has told of the pod, too, where it took over soon enough.
    world.eventually("not every policy is told of", || {
        world.events("NetworkQoS", "QoSProgrammed").len() == POLICIES
    });
    let before = versions(&world);
    let late = |(verb, resource)| ("one", verb, resource);
    late_request_is_answered(&world, &gate, late(statuses), &[409]);
    late_request_is_answered(&world, &gate, late(events), &[201, 409]);
    world.front.heal();
    deposed_replica_begins_no_write(&world, &one);
    assert_eq!(versions(&world), before);
    let told = world.events("Pod", "InvalidBandwidth");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].data["series"], Value::Null);
}

/// It is stopped while it writes a slice and a default policy.
#[test]
fn leader_stopped_amid_slice_and_default_changes_nothing_when_it_wakes() {
    let world = World::new();
    let of = ("netqos.io/v1alpha1", "NetworkQoSDefault", "");
    let default = |priority: u8| {
        let namespace = json!({"kubernetes.io/metadata.name": world.namespace});
        json!({
            "metadata": {"name": "free"},
            "spec": {
                "namespaceSelector": {"matchLabels": namespace},
                "template": {"spec": {
                    "priority": priority, "egress": [{"dscp": 1}],
                    "podSelector": {"matchLabels": {"app": "none"}}
                }}
            }
        })
    };
    world.create(of.0, of.1, of.2, default(1));
    let one = world.published_by_one();
    world.wait_for("free", "Ready", "True", "Ready");
    let _two = world.standby("two");

    let gate = Gate::default();
    let (slice, policy) = (
        ("update", "networkqospeerslices"),
        ("update", "networkqoses"),
    );
    let requests = |(verb, resource)| world.requests_for("one", verb, resource).len();
    let before = [slice, policy].map(requests);
    for (verb, resource) in [slice, policy] {
        let fault = Fault::hold(&gate).on(verb, resource);
        world.front.inject(fault.of("one"));
    }
    world.merge(of, "free", &default(2));
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.eventually("no writes are under way", || {
        let now = [slice, policy].map(requests);
        now[0] > before[0] && now[1] > before[1]
    });
    one.signal(SIGSTOP);
    world.wait_for_leader("two");
    world.create_pod("d", "db", "node1", "10.0.0.4");
    let right: [&[&str]; 1] = [&["10.0.0.2", "10.0.0.3", "10.0.0.4"]];
    world.wait_for_peers(&right);
    world.eventually("the default is not brought up to date", || {
        let free = world.get(world.policies(), "free").unwrap();
        let observed = &free["status"]["conditions"][0]["observedGeneration"];
        free["spec"]["priority"] == 2 && *observed == 2
    });
    world.eventually("not every policy is told of", || {
        let told = world.events("NetworkQoS", "QoSProgrammed");
        let counts = told.iter().map(|it| it.data["series"]["count"].clone());
        counts.collect::<Vec<_>>().contains(&json!(2))
    });
    let before = versions(&world);
    for (verb, resource) in [slice, policy] {
        late_request_is_answered(&world, &gate, ("one", verb, resource), &[409]);
    }
    world.front.heal();
    deposed_replica_begins_no_write(&world, &one);
    assert_eq!(versions(&world), before);
    world.wait_for_peers(&right);
    assert_eq!(world.leader(), "two");
}

/// Stops the leader `one` while the first request of this kind that follows a change is under way, and waits until `two`
/// leads.
fn stop_amid(
    world: &World,
    one: &Replica,
    (verb, resource): (&str, &str),
    change: impl FnOnce(),
) -> Gate {
    let gate = Gate::default();
    let count = || world.requests_for("one", verb, resource).len();
    let before = count();
    let fault = Fault::hold(&gate).on(verb, resource);
    world.front.inject(fault.of("one"));
    change();
    world.eventually("no write is under way", || count() > before);
    one.signal(SIGSTOP);
    world.wait_for_leader("two");
    gate
}

/// The pending request is refused as outdated, and the former leader begins no write after it wakes.
fn is_refused_and_wakes(world: &World, one: &Replica, gate: &Gate, (verb, resource): (&str, &str)) {
    late_request_is_answered(world, gate, ("one", verb, resource), &[409]);
    world.front.heal();
    deposed_replica_begins_no_write(world, one);
    assert_eq!(world.leader(), "two");
}

#[test]
fn leader_stopped_amid_node_slo_changes_nothing_when_it_wakes() {
    let world = World::new();
    world.define_node_slo();
    let config = |request: u8| {
        let shares = json!({"networkQOS": {"egressRequest": request}});
        let resources = json!({"clusterStrategy": {"beClass": shares}});
        let system = json!({"clusterStrategy": {"totalNetworkBandwidth": "1000M"}});
        world.write_config(&resources, &system);
    };
    let is_written = |request: u8| {
        let path = "/resourceQOSStrategy/beClass/networkQOS/egressRequest";
        world.wait_for_slo("node1", path, &json!(request));
    };
    config(20);
    let one = world.slo_replica("one", &[]);
    is_written(20);
    let two = world.slo_replica("two", &[]);
    world.eventually("it knows nothing", || {
        world.log(&two).contains("everything is known")
    });
    let patch = ("patch", "nodeslos");
    let gate = stop_amid(&world, &one, patch, || config(21));
    config(22);
    is_written(22);
    let before = world.node_slo("node1");
    is_refused_and_wakes(&world, &one, &gate, patch);
    assert_eq!(world.node_slo("node1"), before);
}

#[test]
fn leader_stopped_amid_new_slice_changes_nothing_when_it_wakes() {
    let world = World::new();
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let one = world.replica("one");
    world.wait_for_leader("one");
    let _two = world.standby("two");
    let create = ("create", "networkqospeerslices");
    let gate = stop_amid(&world, &one, create, || {
        world.create_policy("p", "web", "db");
    });
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.create_pod("c", "db", "node1", "10.0.0.3");
    let right: [&[&str]; 1] = [&["10.0.0.2", "10.0.0.3"]];
    world.wait_for_peers(&right);
    let before = world.slices();
    is_refused_and_wakes(&world, &one, &gate, create);
    assert_eq!(world.slices(), before);
}

/// The report that it wanted to delete is of an agent that has come back since.
#[test]
fn leader_stopped_amid_deletion_of_report_changes_nothing_when_it_wakes() {
    const REPORT: (&str, &str, &str) = ("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
    let world = World::new();
    world.agent_pod("agent", "node1", true, false);
    world.put_in_force();
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    let _two = world.standby("two");
    let report = || world.get(REPORT, "node1");
    let delete = ("delete", "networkqosnodereports");
    let gate = stop_amid(&world, &one, delete, || {
        world.delete(("v1", "Pod", HOME), "agent");
        world.agent_pod("leaving", "node1", false, true);
    });
    world.eventually("the report stays", || report().is_none());
    world.delete(("v1", "Pod", HOME), "leaving");
    world.agent_pod("agent", "node1", true, false);
    world.report("node1", &[("p", 1)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");
    let before = report();
    is_refused_and_wakes(&world, &one, &gate, delete);
    assert_eq!(report(), before);
}

/// A replica that has not heard of everything yet would take what it has not heard of for gone.
#[test]
fn a_leader_writes_nothing_before_it_knows_everything() {
    let world = World::new();
    world.published_by_one().kill();
    let fault = netqos_faults::Fault::status(500);
    world.front.inject(fault.on("list", "pods").of("two"));
    let two = world.replica("two");
    world.wait_for_leader("two");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.writes("two"), 0);
    assert!(world.log(&two).contains("does not tell of pods"));
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.front.heal();
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
}
