//! Uplinks of routing tables other than the main one.

use serde_json::Value;

use netqos_testkit::Node;

use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::put_config;

/// Runs `ip` with each of these lines of arguments.
fn ip(node: &Node, commands: &[&str]) {
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        node.run("ip", &words).unwrap();
    }
}

/// A node with two cards, whose other ends are other machines'.
fn node_with_cards() -> Option<Node> {
    let node = stage::node()?;
    ip(&node, &["netns add far"]);
    for (number, name) in (0..).zip(["up0", "up1"]) {
        ip(
            &node,
            &[
                &format!("link add {name} type veth peer name far{number} netns far"),
                &format!("link set {name} up"),
                &format!("address add 192.0.{}.2/24 dev {name}", 2 + number),
            ],
        );
    }
    ip(&node, &["route add default via 192.0.2.1 dev up0"]);
    Some(node)
}

/// The uplinks that the agent's status names.
fn uplinks() -> Vec<String> {
    let state: Value = serde_json::from_str(&stage::ask("/v1/status")).unwrap();
    let lines = state["lines"].as_array().cloned().unwrap_or_default();
    let names = lines.iter().filter_map(|line| line["name"].as_str());
    names.map(str::to_owned).collect()
}

fn becomes(expected: &[&str]) {
    let is_so = stage::eventually(|| uplinks() == *expected);
    assert!(is_so, "{:?} in place of {expected:?}", uplinks());
}

/// As the AWS VPC CNI has it: each card has a table, and pods of the card have rules to it.
#[test]
fn card_with_a_table_of_its_own_becomes_an_uplink_with_its_first_rule() {
    let Some(node) = node_with_cards() else {
        return;
    };
    put_config(20, "1000M");
    ip(
        &node,
        &["route add default via 192.0.3.1 dev up1 onlink table 2"],
    );
    let _agent = Agent::start();
    becomes(&["up0"]);
    ip(&node, &["rule add from 10.9.9.9 lookup 2 priority 1536"]);
    becomes(&["up0", "up1"]);
}

#[test]
fn default_route_in_a_chosen_table_makes_an_uplink_of_its_link() {
    let Some(node) = node_with_cards() else {
        return;
    };
    put_config(20, "1000M");
    ip(&node, &["rule add from 10.9.9.9 lookup 1001 priority 1536"]);
    let _agent = Agent::start();
    becomes(&["up0"]);
    let hops = "nexthop via 192.0.3.1 dev up1 onlink nexthop via 192.0.2.1 dev up0";
    ip(&node, &[&format!("route add default table 1001 {hops}")]);
    becomes(&["up0", "up1"]);
    ip(&node, &["route del default table 1001"]);
    becomes(&["up0"]);
}

/// As `wg-quick` has it: everything but the tunnel's own packets chooses a table whose default route is the tunnel.
#[test]
fn tunnel_with_a_table_of_its_own_is_not_an_uplink() {
    let Some(node) = node_with_cards() else {
        return;
    };
    put_config(20, "1000M");
    ip(
        &node,
        &[
            "link add vpn0 type vxlan id 7 dstport 4789 dev up0",
            "link set vpn0 up",
            "route add default dev vpn0 table 51820",
            "rule add not fwmark 51820 lookup 51820",
            "rule add lookup main suppress_prefixlength 0",
        ],
    );
    let _agent = Agent::start();
    becomes(&["up0"]);
}

#[test]
fn named_uplinks_replace_those_of_routes() {
    let Some(node) = node_with_cards() else {
        return;
    };
    put_config(20, "1000M");
    ip(
        &node,
        &["route add default via 192.0.3.1 dev up1 onlink table 2"],
    );
    ip(&node, &["rule add from 10.9.9.9 lookup 2"]);
    let _agent = Agent::start_with(&["--line", "up1"]);
    becomes(&["up1"]);
}

/// A full table of BGP, as far as a test has the time: only its default route is kept.
#[test]
fn table_of_ten_thousand_routes_is_read() {
    let Some(node) = node_with_cards() else {
        return;
    };
    put_config(20, "1000M");
    let routes: String = (0..10_000)
        .map(|n| {
            format!(
                "route add 100.{}.{}.0/24 via 192.0.3.1 dev up1 onlink table 2\n",
                n >> 8,
                n & 255
            )
        })
        .collect();
    let batch = "/run/routes";
    std::fs::write(batch, routes).unwrap();
    ip(&node, &[&format!("-batch {batch}")]);
    ip(
        &node,
        &["route add default via 192.0.3.1 dev up1 onlink table 2"],
    );
    ip(&node, &["rule add from 10.9.9.9 lookup 2"]);
    let _agent = Agent::start();
    becomes(&["up0", "up1"]);
}
