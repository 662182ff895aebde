//! What kube-proxy writes in its iptables mode, for one Service.

use std::net::{IpAddr, SocketAddr};

use crate::Node;

/// kube-proxy's mark for what it masquerades.
const MASQUERADE: &str = "0x4000/0x4000";

fn program(v6: bool) -> &'static str {
    if v6 {
        "ip6tables-legacy"
    } else {
        "iptables-legacy"
    }
}

/// Makes the chains; `false`, with a line that says why, where that cannot be done.
pub fn is_there(node: &Node) -> bool {
    for v6 in [false, true] {
        let nat = |arguments: &[&str]| {
            let all = [&["-w", "-t", "nat"], arguments].concat();
            node.run(program(v6), &all)
        };
        if let Err(why) = nat(&["-N", "KUBE-SERVICES"]) {
            if std::env::var_os("NETQOS_REQUIRE_ROOT").is_some() {
                panic!("{why}");
            }
            eprintln!("skipped: this test rewrites addresses by iptables: {why}");
            return false;
        }
        nat(&["-A", "PREROUTING", "-j", "KUBE-SERVICES"]).unwrap();
        nat(&[
            "-A",
            "POSTROUTING",
            "-m",
            "mark",
            "--mark",
            MASQUERADE,
            "-j",
            "MASQUERADE",
        ])
        .unwrap();
    }
    true
}

/// Lets new connections to this port go to these backends by turns, in place of those before.
pub fn forward(node: &Node, protocol: &str, port: SocketAddr, backends: &[SocketAddr]) {
    let v6 = port.is_ipv6();
    let nat = |arguments: &[&str]| {
        let all = [&["-w", "-t", "nat"], arguments].concat();
        node.run(program(v6), &all)
    };
    let service = format!("KUBE-SVC-{protocol}-{}", port.port());
    let (address, number) = (port.ip().to_string(), port.port().to_string());
    let to_service = [
        "KUBE-SERVICES",
        "-d",
        &address,
        "-p",
        protocol,
        "--dport",
        &number,
        "-j",
        &service,
    ];
    if nat(&["-N", &service]).is_ok() {
        nat(&[&["-A"], &to_service[..]].concat()).unwrap();
    }
    nat(&["-F", &service]).unwrap();
    for (place, backend) in backends.iter().enumerate() {
        let endpoint = format!("KUBE-SEP-{protocol}-{}-{place}", port.port());
        let _ = nat(&["-N", &endpoint]);
        nat(&["-F", &endpoint]).unwrap();
        let left = (backends.len() - place).to_string();
        let by_turns = [
            "-m",
            "statistic",
            "--mode",
            "nth",
            "--every",
            &left,
            "--packet",
            "0",
        ];
        nat(&[&["-A", &service], &by_turns[..], &["-j", &endpoint]].concat()).unwrap();
        // A pod that reaches itself has to see somebody else as the source.
        let own = backend.ip().to_string();
        nat(&[
            "-A",
            &endpoint,
            "-s",
            &own,
            "-j",
            "MARK",
            "--set-xmark",
            MASQUERADE,
        ])
        .unwrap();
        nat(&[
            "-A",
            &endpoint,
            "-p",
            protocol,
            "-j",
            "DNAT",
            "--to-destination",
            &backend.to_string(),
        ])
        .unwrap();
    }
}

/// The virtual address of the tests' Service.
pub fn virtual_address(v6: bool) -> IpAddr {
    let address = if v6 { "fd00:96::1" } else { "10.96.0.1" };
    address.parse().unwrap()
}
