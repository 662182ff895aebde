//! ADD again: with the same limits nothing changes, with others the state is that of a fresh ADD.

use serde_json::{Value, json};

use super::calls::{add, call, check, config, del, limited, start, ways};
use super::kernel::{everything, limiters};

#[test]
fn the_same_again_changes_nothing_and_says_the_same() {
    let Some((node, pod)) = start() else { return };
    for (hook, egress) in ways() {
        let more = json!({"hook": hook, "egress": egress});
        let config = limited(&pod, 10_000_000, 20_000_000, more);
        let first = call("ADD", &pod, &config).run().unwrap();
        assert_eq!(first.code, Some(0), "{first:?}");
        let once = node.state(&[&pod]).unwrap();
        let second = call("ADD", &pod, &config).run().unwrap();
        assert_eq!((second.code, second.stdout), (Some(0), first.stdout));
        node.state(&[&pod])
            .unwrap()
            .assert_is(&once, format_args!("{hook} {egress}"));
        del(&pod, &config);
    }
}

/// As a runtime calls it that hands over the final result of the chain instead of the one before.
#[test]
fn its_own_result_is_a_result_of_plugins_before() {
    let Some((_node, pod)) = start() else { return };
    let mut config = limited(&pod, 10_000_000, 20_000_000, json!({"egress": "ifb"}));
    let result = add(&pod, &config);
    config["prevResult"] = result;
    check(&pod, &config);
    add(&pod, &config);
    check(&pod, &config);
}

#[test]
fn from_every_state_to_every_other() {
    let Some((node, pod)) = start() else { return };
    let with = |ingress: u64, egress: u64, more: Value| limited(&pod, ingress, egress, more);
    let mut states: Vec<Value> = ways()
        .map(|(hook, egress)| {
            with(
                10_000_000,
                20_000_000,
                json!({"hook": hook, "egress": egress}),
            )
        })
        .collect();
    states.push(with(10_000_000, 20_000_000, json!({"hook": "none"})));
    states.push(config(
        &pod,
        json!({"egress": "ifb", "egressRate": 8_000_000, "egressBurst": 80_000}),
    ));
    states.push(config(&pod, json!({})));
    let bare = everything(&[&pod]);
    for to in &states {
        add(&pod, to);
        let fresh = (everything(&[&pod]), limiters().len());
        del(&pod, to);
        for from in &states {
            add(&pod, from);
            add(&pod, to);
            let now = (everything(&[&pod]), limiters().len());
            assert_eq!(now, fresh, "from {from} to {to}");
            check(&pod, to);
            del(&pod, to);
            assert_eq!(everything(&[&pod]), bare, "from {from} to {to}");
            assert_eq!(limiters(), []);
        }
    }
    assert_eq!(node.files("/run/netqos"), [""; 0]);
    assert_eq!(node.files("/sys/fs/bpf/netqos/v1/links"), [""; 0]);
}
