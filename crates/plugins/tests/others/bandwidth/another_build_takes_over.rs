//! After an upgrade or a downgrade: what another build pinned is found, kept, checked and removed.

use std::fs;
use std::path::{Path, PathBuf};

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::calls::{add, check, del, limited, node, start};
use super::kernel::limiters;

const PINS: &str = "/sys/fs/bpf/netqos/v1";

/// Makes this build's program look like another's.
fn as_if_by_another_build() -> PathBuf {
    let ours = fs::read_dir(PINS)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("rank-")
        })
        .unwrap();
    let other = Path::new(PINS).join("rank-0123456789abcdef");
    fs::rename(ours, &other).unwrap();
    other
}

fn config_of(pod: &Pod, hook: &str) -> Value {
    limited(pod, json!({"hook": hook}))
}

#[test]
fn its_pods_are_right_and_are_cleaned_up() {
    let Some((node, pod)) = start() else { return };
    for hook in super::calls::hooks() {
        add(&pod, &config_of(&pod, hook));
        let other = as_if_by_another_build();
        check(&pod, &config_of(&pod, hook));
        del(&pod, &config_of(&pod, hook));
        assert_eq!(limiters(), [], "{hook}");
        assert_eq!(node.files(Path::new(PINS).join("links")), [""; 0], "{hook}");
        fs::remove_file(other).unwrap();
    }
}

#[test]
fn the_next_pod_brings_this_builds_program_and_removes_the_other() {
    let Some(node) = node() else { return };
    let (old, new) = (node.pod("old").unwrap(), node.pod("new").unwrap());
    add(&old, &config_of(&old, "clsact"));
    let other = as_if_by_another_build();
    add(&new, &config_of(&new, "clsact"));
    assert!(!other.exists());
    for pod in [&old, &new] {
        check(pod, &config_of(pod, "clsact"));
    }
}
