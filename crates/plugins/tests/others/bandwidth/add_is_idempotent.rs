//! ADD again: with the same limits nothing changes, with others the state is that of a fresh ADD.

use serde_json::{Value, json};

use super::calls::{
    add, call, check, config, del, limited, limited_by, start, state, succeeded, ways,
};
use super::kernel::{assert_no_limits, everything, limiters};

#[test]
fn the_same_again_changes_nothing_and_says_the_same() {
    let Some((node, pod)) = start() else { return };
    for (hook, egress) in ways() {
        let config = limited_by(&pod, hook, egress);
        let first = succeeded(&call("ADD", &pod, &config));
        let once = state(&node, &pod);
        let second = succeeded(&call("ADD", &pod, &config));
        assert_eq!(second.stdout, first.stdout);
        state(&node, &pod).assert_is(&once, format_args!("{hook} {egress}"));
        del(&pod, &config);
    }
}

/// As a runtime calls it that hands over the final result of the chain instead of the one before.
#[test]
fn its_own_result_is_a_result_of_plugins_before() {
    let Some((_node, pod)) = start() else { return };
    let mut config = limited(&pod, json!({"egress": "ifb"}));
    let result = add(&pod, &config);
    config["prevResult"] = result;
    check(&pod, &config);
    add(&pod, &config);
    check(&pod, &config);
}

#[test]
fn from_every_state_to_every_other() {
    let Some((node, pod)) = start() else { return };
    let by = |(hook, egress)| limited_by(&pod, hook, egress);
    let mut states: Vec<Value> = ways().map(by).collect();
    states.push(limited(&pod, json!({"hook": "none"})));
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
    assert_no_limits(&node, "");
}
