//! A plugin that is killed between any two system calls: the next ADD completes what it began, DEL
//! and GC undo it.

use std::collections::BTreeMap;
use std::fs;

use netqos_bpf::Pins;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::calls::{add, call, check, del, gc, limited_to, start};
use super::kernel::{Held, assert_no_limits, backstops, everything, limiters};

/// Enough for what the plugin does; one that never ends is another test's.
const ENOUGH: usize = 10_000;

/// What is there: links with what stands on them, and the owners of limiters.
type Seen = (BTreeMap<String, Held>, Vec<u64>);

fn seen(pod: &Pod) -> Seen {
    let mut owners: Vec<_> = limiters()
        .iter()
        .map(|(_, limiter)| limiter.owner)
        .collect();
    owners.sort_unstable();
    (everything(&[pod]), owners)
}

/// High enough a limit that the transmit queue length has to be changed.
fn config(pod: &Pod, more: Value) -> Value {
    limited_to(pod, 400_000_000, 800_000_000, more)
}

/// Kills ADD and DEL at every `step`th moment; nothing is left in the end.
fn at_every(step: usize, more: Value) {
    at_every_where(step, more, None);
}

/// The same, with this file of the node, which says where ingress limits belong.
fn at_every_where(step: usize, more: Value, file: Option<&str>) {
    let Some((node, pod)) = start() else { return };
    let write = || {
        if let Some(file) = file {
            fs::create_dir_all("/run/netqos").unwrap();
            fs::write(file, "a test").unwrap();
        }
    };
    write();
    let config = config(&pod, more);
    let bare = seen(&pod);
    add(&pod, &config);
    let whole = seen(&pod);
    del(&pod, &config);
    let assert_undone = |what: &str| {
        assert_eq!(seen(&pod), bare, "{what}");
        if let Some(file) = file {
            fs::remove_file(file).unwrap();
        }
        assert_no_limits(&node, what);
        write();
    };
    let mut moments = 0;
    for nth in (0..ENOUGH).step_by(step) {
        let what = format!("killed at system call {nth}");
        if !call("ADD", &pod, &config).killed_at(nth).unwrap() {
            break;
        }
        moments += 1;
        add(&pod, &config);
        assert_eq!(seen(&pod), whole, "{what}, then ADD");
        call("DEL", &pod, &config).killed_at(nth).unwrap();
        add(&pod, &config);
        assert_eq!(seen(&pod), whole, "DEL {what}, then ADD");
        check(&pod, &config);
        call("DEL", &pod, &config).killed_at(nth).unwrap();
        del(&pod, &config);
        assert_undone(&format!("DEL {what}, then DEL"));
        call("ADD", &pod, &config).killed_at(nth).unwrap();
        del(&pod, &config);
        assert_undone(&format!("{what}, then DEL"));
        call("ADD", &pod, &config).killed_at(nth).unwrap();
        gc("net", json!([]));
        assert_eq!(seen(&pod), bare, "{what}, then GC");
        del(&pod, &config);
    }
    println!("{moments} moments");
    assert!(moments * step > 50, "{moments}: the plugin was not watched");
}

#[test]
fn in_the_pod() {
    at_every(1, json!({"hook": "clsact"}));
}

#[test]
fn by_ifb() {
    at_every(7, json!({"hook": "clsact", "egress": "ifb"}));
}

#[test]
fn with_tcx() {
    at_every(13, json!({"hook": "tcx"}));
}

#[test]
fn with_an_ingress_queue_at_both_ends() {
    let file = "/run/netqos/ingress-in-pod";
    at_every_where(11, json!({"hook": "clsact"}), Some(file));
}

#[test]
fn with_an_ingress_queue_in_the_pod_alone() {
    let file = "/run/netqos/ingress-only-in-pod";
    at_every_where(11, json!({"hook": "clsact"}), Some(file));
}

/// The redirect fallback has no tagged link any more at some moments.
#[test]
fn killed_del_whose_record_was_deleted_is_completed_by_the_next() {
    let Some((_node, pod)) = start() else { return };
    let config = config(&pod, json!({"hook": "clsact", "egress": "ifb"}));
    for nth in (0..ENOUGH).step_by(3) {
        add(&pod, &config);
        let was_killed = call("DEL", &pod, &config).killed_at(nth).unwrap();
        fs::remove_dir_all("/run/netqos").unwrap();
        del(&pod, &config);
        let (links, owners) = seen(&pod);
        for (name, held) in links {
            // An empty clsact may be somebody else's.
            let left = (held.tbf, held.filters.len(), held.backstop, held.alias);
            assert_eq!(
                left,
                (None, 0, None, String::new()),
                "{name}, killed at system call {nth}"
            );
            assert_ne!(held.kind, "ifb", "{name}, killed at system call {nth}");
        }
        assert!(owners.is_empty(), "killed at system call {nth}");
        assert_eq!(backstops(), None, "killed at system call {nth}");
        if !was_killed {
            return;
        }
    }
    panic!("it never ended");
}

/// The first of a boot, which loads the programs.
#[test]
fn while_it_loads_the_programs() {
    let Some((_node, pod)) = start() else { return };
    let config = config(&pod, json!({"hook": "clsact"}));
    add(&pod, &config);
    let whole = seen(&pod);
    for nth in (0..ENOUGH).step_by(61) {
        del(&pod, &config);
        Pins::remove_all("/sys/fs/bpf".as_ref()).unwrap();
        let was_killed = call("ADD", &pod, &config).killed_at(nth).unwrap();
        add(&pod, &config);
        assert_eq!(seen(&pod), whole, "killed at system call {nth}");
        check(&pod, &config);
        if !was_killed {
            return;
        }
    }
    panic!("it never ended");
}
