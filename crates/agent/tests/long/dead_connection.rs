//! Connections to the API server that lose every packet.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::World;

/// Drops every packet from and to a port, until it is dropped itself.
struct Blackhole<'w> {
    world: &'w World,
}

impl<'w> Blackhole<'w> {
    fn new(world: &'w World, port: &str) -> Self {
        let hook = "{ type filter hook input priority 0 ; }";
        let blackhole = Self { world };
        blackhole.nft(&["add", "table", "inet", "blackhole"]);
        blackhole.nft(&["add", "chain", "inet", "blackhole", "input", hook]);
        for end in ["dport", "sport"] {
            blackhole.nft(&[
                "add",
                "rule",
                "inet",
                "blackhole",
                "input",
                "tcp",
                end,
                port,
                "drop",
            ]);
        }
        blackhole
    }

    fn nft(&self, words: &[&str]) {
        self.world.node.run("nft", words).unwrap();
    }
}

impl Drop for Blackhole<'_> {
    fn drop(&mut self) {
        self.nft(&["delete", "table", "inet", "blackhole"]);
    }
}

#[test]
fn agent_dead_connection_is_reported_within_a_minute() {
    let Some(mut world) = World::new() else {
        return;
    };
    let flow = world.marked(1);
    let kubeconfig: Value = serde_json::from_str(&world.front.kubeconfig("agent")).unwrap();
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str();
    let (_, port) = server.unwrap().rsplit_once(':').unwrap();
    let is_silent = || {
        let mut problems = world.problems().into_iter();
        problems.any(|(reason, _)| reason == "ApiUnavailable")
    };
    // All watches are idle by then.
    std::thread::sleep(Duration::from_secs(5));
    assert!(!is_silent());
    let blackhole = Blackhole::new(&world, port);
    let began = Instant::now();
    while !is_silent() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("reported after {:.1?}", began.elapsed());
    drop(blackhole);
    world.mark("p", 2);
    flow.wait_for(2);
    drop(flow.end());
}
