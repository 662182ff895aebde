//! What is seen of a replica over HTTP: metrics, and how much it logs.

use netqos_faults::Fault;
use serde_json::{Value, json};

use crate::world::{HOME, World, free_address, http};

/// Two that show the same numbers would be counted twice.
#[test]
fn who_leads_no_more_shows_no_numbers_of_policies() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.report("node1", &[("p", 1)], &json!([]));
    let address = free_address();
    let _one = world.replica_with("one", &["--listen", &address]);
    let shown = || {
        let answer = http(&address, "GET", "/metrics", "").unwrap_or_default().1;
        let names = ["leader", "policies", "peer_sets", "peer_slices"];
        let samples = answer.lines().filter(|line| {
            let mut names = names.iter().map(|name| format!("netqos_controller_{name}"));
            names.any(|name| line.starts_with(&name))
        });
        let samples = samples.map(|line| line.replace("netqos_controller_", ""));
        let mut samples: Vec<String> = samples.collect();
        samples.sort();
        samples
    };
    let leading = [
        "leader 1",
        "peer_sets{} 1",
        "peer_slices{} 1",
        "policies{ready=\"true\",reason=\"Ready\"} 1",
    ];
    let is_leading = || {
        // What a policy is not any more is a number, too: nought.
        let mut samples = shown();
        samples.retain(|sample| !sample.ends_with(" 0"));
        samples == leading
    };
    world.eventually("its numbers are not right", is_leading);

    // Somebody who never writes has the lease, until it has not been renewed for ten seconds.
    let lease = ("coordination.k8s.io/v1", "Lease", HOME);
    let taken = json!({"spec": {"holderIdentity": "somebody"}});
    world.merge(lease, "netqos-controller", &taken);
    let deposed = ["leader 0"];
    world.eventually("it shows what it does not know", || shown() == deposed);
    world.wait_for_leader("one");
    world.eventually("its numbers are not right again", is_leading);
}

#[test]
fn it_says_more_when_it_is_told_to_while_it_runs() {
    let world = World::new();
    let address = free_address();
    let one = world.replica_with("one", &["--listen", &address]);
    let ask = |method: &str, level: &str| http(&address, method, "/loglevel", level);
    world.eventually("it does not listen", || ask("GET", "").is_some());
    let says = |level: &str| Some((200, format!("{level}\n")));
    assert_eq!(ask("GET", ""), says("netqos_controller=debug,info"));
    assert_eq!(ask("PUT", "warn\n"), says("warn"));
    assert_eq!(ask("GET", ""), says("warn"));
    assert_eq!(ask("PUT", "netqos=loud").unwrap().0, 400);
    assert_eq!(ask("GET", ""), says("warn"));
    assert_eq!(ask("PUT", "trace"), says("trace"));
    world.eventually("it says no more than before", || {
        world.log(&one).contains("TRACE")
    });
}

/// Whoever reaches its address, and not its machine, changes nothing.
#[test]
fn and_only_when_who_tells_it_is_near() {
    let Some(address) = own_address() else {
        eprintln!("skipped: this machine has no address but those of loopback");
        return;
    };
    let world = World::new();
    let port = free_address().rsplit_once(':').unwrap().1.to_owned();
    let _one = world.replica_with("one", &["--listen", &format!("0.0.0.0:{port}")]);
    let far = format!("{address}:{port}");
    let ask = |path: &str, method: &str| http(&far, method, path, "").map(|(code, _)| code);
    world.eventually("it does not listen", || ask("/livez", "GET") == Some(200));
    assert_eq!(ask("/loglevel", "GET"), Some(403));
    assert_eq!(ask("/loglevel", "PUT"), Some(403));
    assert_eq!(ask("/debug/state", "GET"), Some(403));
}

/// What is wanted stands beside what is there: where nothing can be written they differ, and it says in
/// what.
#[test]
fn what_is_wanted_is_told_against_what_is_there() {
    let world = World::new();
    let address = free_address();
    world.create_policy("p", "web", "db");
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    let _one = world.replica_with("one", &["--listen", &address]);
    world.wait_for("p", "Ready", "False", "Pending");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    let state = || -> Value {
        let (code, text) = http(&address, "GET", "/debug/state", "").unwrap();
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    world.eventually("they differ", || {
        let state = state();
        state["slices"]["differ"] == 0 && state["statuses"]["differ"] == 0
    });
    let all = state();
    assert_eq!(
        (&all["leads"], &all["knowsAll"]),
        (&json!(true), &json!(true)),
        "{all}"
    );
    assert_eq!(all["sets"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!(all["sets"][0]["addresses"], 1, "{all}");
    assert_eq!(all["slices"]["wanted"], all["slices"]["there"], "{all}");
    assert_eq!(all["statuses"]["policies"], 1, "{all}");

    for (verb, resource) in [
        ("update", "networkqospeerslices"),
        ("patch", "networkqoses"),
    ] {
        let fault = Fault::status(403).on(verb, resource);
        world.front.inject(fault.of("one"));
    }
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.report("node1", &[("p", 1)], &json!([]));
    world.eventually("they do not differ", || {
        let state = state();
        state["slices"]["differ"] == 1 && state["statuses"]["differ"] == 1
    });
    let all = state();
    let slice = &all["slices"]["differing"][0];
    assert_eq!(
        (&slice["state"], &slice["lacks"]),
        (&json!("other"), &json!(["10.0.0.3"]))
    );
    let status = &all["statuses"]["differing"][0];
    assert_eq!(status["name"], format!("{}/p", world.namespace));
    assert_eq!(
        (&status["wanted"]["nodes"], &status["there"]["nodes"]),
        (&json!("1/1"), &json!("0/1"))
    );
}

/// An address of this machine by which others reach it.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel chooses the address that it would come from.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}
