//! ENOSPC on the file system of records and results.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::fixture::MultinetNode;

const STATE: &str = "/var/lib/netqos/multinet";
const FILLER: &str = "/var/lib/netqos/multinet/filler";
/// A file takes whole pages of a tmpfs.
const PAGE: usize = 4096;
const PAGES: usize = 24;
const INODES: usize = 24;

/// A node with records and results on a small file system.
fn node(limit: &str) -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    fs::create_dir_all(STATE).unwrap();
    let options = format!("mode=700,{limit}");
    node.node
        .run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", STATE])
        .unwrap();
    Some(node)
}

/// The last addresses that the default network and `shop/lan` gave.
fn last_addresses() -> [Option<String>; 2] {
    ["pods", "lan"].map(|network| {
        let file = format!("/var/lib/cni/networks/{network}/last_reserved_ip.0");
        fs::read_to_string(file).ok()
    })
}

/// Leaves this number of pages free.
fn leave(free: usize) {
    let _ = fs::remove_file(FILLER);
    let written = fs::write(FILLER, vec![0; (PAGES - free) * PAGE]);
    // Beside the files of a pod not all of it fits, and the disk is full.
    assert!(free == 0 || written.is_ok());
}

/// Attaches a pod with more and more space, and asserts that each ADD that fails leaves nothing, also not for a DEL on
/// the same disk, until one succeeds. Returns for each failure the number of networks that had been attached, and the
/// directory of the file that could not be written.
fn fail_at_each_point(node: &MultinetNode) -> BTreeSet<(usize, String)> {
    let mut points = BTreeSet::new();
    for free in 0..PAGES {
        leave(free);
        let pod = node.pod("web");
        let (before, addresses) = (node.inventory(), last_addresses());
        let outcome = node
            .call("ADD", &pod, Some("lan"), json!({}))
            .run()
            .unwrap();
        if outcome.code == Some(0) {
            node.check(&pod);
            leave(0);
            let filled = node.inventory();
            node.del(&pod);
            assert!(filled.len() > node.inventory().len());
            leave(free);
            assert_eq!(node.inventory(), before);
            return points;
        }
        let said = outcome.stdout;
        assert!(said.contains("No space left on device"), "{free}: {said}");
        let links = node.in_pod(&pod, "ip -o link");
        assert_eq!(links.lines().count(), 1, "{free}: {links}");
        assert_eq!(node.inventory(), before, "{free}: {said}");
        // As runtimes do it after an ADD that failed.
        let del = node.call("DEL", &pod, None, json!({})).run().unwrap();
        assert_eq!(del.code, Some(0), "{free}: {said} {del:?}");
        assert_eq!(node.inventory(), before, "{free}: {said}");
        node.remove(&pod);
        let attached = addresses.into_iter().zip(last_addresses());
        let attached = attached.filter(|(before, now)| before != now).count();
        let directory = ["pods", "results"];
        let directory = directory
            .iter()
            .find(|it| said.contains(&format!("{STATE}/{it}/")));
        points.insert((attached, directory.unwrap().to_string()));
    }
    panic!("{PAGES} pages are too few");
}

#[test]
fn add_on_full_disk_fails_and_leaves_nothing_wherever_it_stops() {
    let Some(node) = node(&format!("size={}", PAGES * PAGE)) else {
        return;
    };
    let points = fail_at_each_point(&node);
    let points: Vec<(usize, &str)> = points.iter().map(|(it, of)| (*it, &**of)).collect();
    // The first record; the result of the default network, and the record of it; the same of the other one.
    let expected = [(0, "pods"), (1, "pods"), (1, "results"), (2, "pods")];
    assert_eq!(points, expected);
}

/// Not even a lock fits.
#[test]
fn add_on_disk_without_inodes_fails_and_leaves_nothing() {
    let Some(node) = node(&format!("nr_inodes={INODES}")) else {
        return;
    };
    let pod = node.pod("web");
    let add = node.call("ADD", &pod, Some("lan"), json!({}));
    let del = node.call("DEL", &pod, None, json!({}));
    for call in [&add, &del] {
        call.succeed().unwrap();
    }
    let before = node.inventory();
    for freed in 0..INODES {
        let fillers = Path::new(STATE).join("fillers");
        fs::create_dir_all(&fillers).unwrap();
        let full = (0..).find(|it| fs::write(fillers.join(it.to_string()), "").is_err());
        for number in 0..freed.min(full.unwrap()) {
            fs::remove_file(fillers.join(number.to_string())).unwrap();
        }
        let outcome = add.run().unwrap();
        if outcome.code != Some(0) {
            // As runtimes do it, on the same disk.
            del.succeed().unwrap();
        }
        fs::remove_dir_all(&fillers).unwrap();
        if outcome.code == Some(0) {
            assert!(freed > 1, "{freed}");
            del.succeed().unwrap();
            assert_eq!(node.inventory(), before);
            return;
        }
        assert!(
            outcome.stdout.contains("No space left on device"),
            "{outcome:?}"
        );
        assert_eq!(node.inventory(), before, "{freed}: {outcome:?}");
        del.succeed().unwrap();
        assert_eq!(node.inventory(), before, "{freed}: {outcome:?}");
    }
    panic!("{INODES} inodes are too few");
}

#[test]
fn del_on_disk_without_inodes_and_space_leaves_nothing() {
    let Some(node) = node(&format!("nr_inodes={INODES},size={}", PAGES * PAGE)) else {
        return;
    };
    let pod = node.pod("web");
    let before = node.inventory();
    let add = node.call("ADD", &pod, Some("lan"), json!({}));
    add.succeed().unwrap();
    let fillers = Path::new(STATE).join("fillers");
    fs::create_dir_all(&fillers).unwrap();
    let space = fs::write(fillers.join("space"), vec![0; PAGES * PAGE]);
    assert!(space.is_err());
    let full = (0..INODES).find(|it| fs::write(fillers.join(it.to_string()), "").is_err());
    assert!(full.is_some());
    let del = node.call("DEL", &pod, None, json!({}));
    del.succeed().unwrap();
    fs::remove_dir_all(&fillers).unwrap();
    assert_eq!(node.inventory(), before);
}
