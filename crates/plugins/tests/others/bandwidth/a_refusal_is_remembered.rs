//! A kernel that refuses the programs is asked once, not at every ADD.

use std::fs;
use std::path::Path;

use netqos_testkit::{Call, foreign_map};
use serde_json::{Value, json};

use super::calls::{call, check, limited, node, plugin, start, succeeded};
use super::kernel::on_host;

const PINS: &str = "/sys/fs/bpf/netqos";
const REFUSAL: &str = "/run/netqos/programs-refused.json";

fn status(hook: &str) -> Call {
    let config = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth", "hook": hook});
    let call = Call::bare(plugin(), "STATUS").variable("CNI_PATH", "/opt/cni/bin");
    call.config(&config)
}

/// The verifier refuses a program that writes behind the end of a map's values.
#[test]
fn until_somebody_asks_again() {
    let Some(node) = node() else { return };
    let pods = ["a", "b", "c"].map(|name| node.pod(name).unwrap());
    let configs: Vec<Value> = pods.iter().map(|pod| limited(pod, json!({}))).collect();
    let add = |number: usize| {
        let outcome = succeeded(&call("ADD", &pods[number], &configs[number]));
        check(&pods[number], &configs[number]);
        outcome.stderr
    };
    fs::create_dir_all(format!("{PINS}/v1")).unwrap();
    foreign_map(Path::new(PINS).join("v1/flows")).unwrap();
    let said = add(0);
    let why = "flows are not ranked: cannot load the eBPF programs: ";
    assert!(said.contains(why) && !said.contains("remembered"), "{said}");
    assert_eq!(on_host("veth-a").filters, [""; 0]);

    // It would take them now.
    fs::remove_dir_all(PINS).unwrap();
    let said = add(1);
    assert!(
        said.contains(why) && said.contains("(remembered; `netqos check` tries again)"),
        "{said}"
    );
    assert_eq!(on_host("veth-b").filters, [""; 0]);
    let outcome = succeeded(&status("auto"));
    assert!(
        outcome.stderr.contains("flows are not ranked: ") && outcome.stderr.contains("remembered"),
        "{outcome:?}"
    );
    for hook in super::calls::hooks() {
        let (code, text) = status(hook).fail().unwrap();
        assert!(code == 50 && text.contains("remembered"), "{text}");
        let by_name = limited(&pods[2], json!({"hook": hook}));
        let (_, text) = call("ADD", &pods[2], &by_name).fail().unwrap();
        assert!(text.contains("remembered"), "{text}");
    }
    assert!(!Path::new(PINS).exists());

    // As after a boot.
    fs::remove_file(REFUSAL).unwrap();
    assert_eq!(add(2), "");
    assert_eq!(on_host("veth-c").filters, ["egress 81 bpf netqos_rank"]);
    assert!(!Path::new(REFUSAL).exists());
}

/// What the caller lacks, and where a file system cannot be, is no answer about the programs.
#[test]
fn and_nothing_else_is() {
    let Some((_node, pod)) = start() else { return };
    fs::write("/run/file", "").unwrap();
    let config = limited(&pod, json!({"bpffs": "/run/file"}));
    let outcome = succeeded(&call("ADD", &pod, &config));
    assert!(
        outcome.stderr.contains("flows are not ranked"),
        "{outcome:?}"
    );
    assert!(!Path::new(REFUSAL).exists());
}
