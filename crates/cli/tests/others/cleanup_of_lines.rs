//! `netqos cleanup` takes away what divides lines, whoever does.

use std::fs;
use std::path::Path;

use netqos_agent::classes::{CGROUPS, backend_record, class_backend};
use netqos_api::koordinator::BackendKind;
use netqos_core::BitRate;
use netqos_core::classes::{ClassPlan, LineShares, Share, Shares};
use netqos_datapath::Paths;

use crate::{node, run};

const RUN: &str = "/run/netqos";
const TERWAY: &str = "/var/lib/terway/qos";

fn plan() -> ClassPlan {
    let total = BitRate::from_bits_per_second(100_000_000);
    let shares = Shares::try_new(total, Share::up_to(total), Share::up_to(total)).unwrap();
    let line = LineShares {
        ingress: shares,
        egress: shares,
    };
    ClassPlan {
        lines: [("up0".into(), line)].into(),
        ..ClassPlan::default()
    }
}

/// Each as an agent leaves it, with the note of who divides; the qdisc that the kernel had at the line's
/// root is back.
#[test]
fn of_each_backend() {
    for kind in [BackendKind::Kernel, BackendKind::Tc, BackendKind::TerwayQos] {
        std::thread::spawn(move || of(kind)).join().unwrap();
    }
}

fn of(kind: BackendKind) {
    let Some(node) = node() else { return };
    let words = "link add up0 numtxqueues 1 type veth peer name far0";
    let words: Vec<&str> = words.split(' ').collect();
    node.run("ip", &words).unwrap();
    node.run("ip", &["link", "set", "up0", "up"]).unwrap();
    fs::create_dir_all(TERWAY).unwrap();
    let root = || node.run("tc", &["qdisc", "show", "dev", "up0"]).unwrap();
    let links = || node.run("ip", &["-br", "link"]).unwrap();
    let (before, links_before) = (root(), links());

    let paths = Paths::from_variables(|_| None);
    let mut backend = class_backend(kind, &paths, Path::new(CGROUPS)).unwrap();
    fs::create_dir_all(RUN).unwrap();
    fs::write(backend_record(Path::new(RUN)), format!("{kind}\n")).unwrap();
    let outcome = backend.apply(&plan()).unwrap();
    assert_eq!(outcome.lines, ["up0".into()], "{outcome:?}");
    drop(backend);
    match kind {
        BackendKind::TerwayQos => assert!(fs::read_dir(TERWAY).unwrap().count() > 0),
        _ => assert!(root().contains("qdisc htb "), "{kind}: {}", root()),
    }

    let done = run(&["cleanup", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{kind}: {done:?}");
    assert_eq!(root(), before, "{kind}");
    assert_eq!(links(), links_before, "{kind}");
    assert_eq!(fs::read_dir(TERWAY).unwrap().count(), 0, "{kind}");
    if kind == BackendKind::Tc {
        assert_eq!(node.run("ipset", &["list", "-name"]).unwrap(), "");
        let rules = node.run("iptables", &["-t", "mangle", "-S", "POSTROUTING"]);
        assert_eq!(rules.unwrap().trim(), "-P POSTROUTING ACCEPT");
    }
    assert!(!Path::new(RUN).exists(), "{kind}: {:?}", node.files(RUN));
}
