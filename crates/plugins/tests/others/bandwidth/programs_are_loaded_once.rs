//! The first ADD of a boot loads the programs; every other call finds them pinned.

use std::fs;
use std::os::unix::fs::MetadataExt;

use netqos_testkit::Node;
use serde_json::json;

use super::calls::{add, check, del, gc, limited, node, start, warm_up};

const PINS: &str = "/sys/fs/bpf/netqos/v1";

/// Every pin with its inode: a program or a map that is loaded anew is another one.
fn pins(node: &Node) -> Vec<(String, u64)> {
    let inode = |path: String| {
        let inode = fs::metadata(&path).unwrap().ino();
        (path, inode)
    };
    node.files(PINS).into_iter().map(inode).collect()
}

#[test]
fn in_a_boot() {
    let Some(node) = node() else { return };
    let first = node.pod("first").unwrap();
    add(&first, &limited(&first, json!({})));
    let before = pins(&node);
    assert_eq!(before.len(), 4, "{before:?}");
    for name in ["a", "b", "c"] {
        let pod = node.pod(name).unwrap();
        warm_up(&pod);
    }
    assert_eq!(pins(&node), before);
}

/// It is empty most of the time, and somebody tidies up.
#[test]
fn the_folder_of_links_is_made_again() {
    let Some((node, pod)) = start() else { return };
    let config = limited(&pod, json!({"hook": "tcx"}));
    add(&pod, &config);
    del(&pod, &config);
    let before = pins(&node);
    fs::remove_dir(format!("{PINS}/links")).unwrap();
    gc("net", json!([]));
    add(&pod, &config);
    check(&pod, &config);
    del(&pod, &config);
    assert_eq!(pins(&node), before);
}
