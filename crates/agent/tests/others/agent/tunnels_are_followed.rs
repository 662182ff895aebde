//! The programs know the tunnels that the node has now.

use std::path::Path;

use netqos_bpf::classes::{Classes, Settings};

use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::{is_divided, put_config};

fn settings() -> Settings {
    let programs = Classes::open(Path::new("/sys/fs/bpf")).unwrap();
    programs.unwrap().settings().unwrap()
}

/// As a CNI plugin that is started again makes its tunnel again.
#[test]
fn tunnel_that_comes_or_goes_changes_the_programs_ports_at_once() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    put_config(20, "1000M");
    let _agent = Agent::start();
    assert!(stage::eventually(|| is_divided(&node, 200)));
    let before = settings();
    for _ in 0..2 {
        let began = std::time::Instant::now();
        let words = "link add tunnel0 type vxlan id 7 dstport 5555 dev lo";
        let words: Vec<&str> = words.split(' ').collect();
        node.run("ip", &words).unwrap();
        assert!(stage::eventually(|| settings() != before));
        node.run("ip", &["link", "del", "tunnel0"]).unwrap();
        assert!(stage::eventually(|| settings() == before));
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }
}
