//! STATUS: nothing on a node that can, else code 50 and one line that says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use netqos_testkit::Call;
use serde_json::{Value, json};

use super::calls::{call, limited, node, plugin, state, succeeded};

/// Nobody.
const USER: u32 = 65_534;

fn status(more: Value) -> Call {
    let mut config = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
    let all = config.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    let call = Call::bare(plugin(), "STATUS").variable("CNI_PATH", "/opt/cni/bin");
    call.config(&config)
}

#[test]
fn all_is_well_here() {
    let Some(node) = node() else { return };
    let before = node.state(&[]).unwrap();
    for egress in ["pod", "ifb"] {
        for hook in ["auto", "clsact", "tcx", "none"] {
            let more = json!({"egress": egress, "hook": hook});
            let outcome = succeeded(&status(more));
            assert_eq!(outcome.stdout, "", "{outcome:?}");
            // Which way is in force is said where it does not disturb.
            let mode = match hook {
                "none" => "limits are held by tbf alone",
                "tcx" => "limits are held by tbf, flows ranked by eBPF on tcx",
                _ => "limits are held by tbf, flows ranked by eBPF on clsact",
            };
            assert!(outcome.stderr.contains(mode), "{outcome:?}");
        }
    }
    // What was tried was tried elsewhere; the programs stay loaded.
    let after = node.state(&[]).unwrap();
    after.without("/sys/fs/bpf/netqos/").assert_is(&before, "");
}

#[test]
fn what_is_lacking_is_named() {
    let Some(_node) = node() else { return };
    fs::write("/run/file", "").unwrap();
    for hook in super::calls::hooks() {
        let (code, text) = status(json!({"hook": hook, "bpffs": "/run/file"}))
            .fail()
            .unwrap();
        assert_eq!(code, 50, "{text}");
        assert!(
            text.contains("eBPF programs") && text.contains("/run/file"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    // A limit can be held without programs.
    for hook in ["auto", "none"] {
        let more = json!({"hook": hook, "bpffs": "/run/file"});
        status(more).succeed().unwrap();
    }
}

#[test]
fn without_root_it_says_so() {
    let Some(node) = node() else { return };
    // Where anybody may execute it.
    let copy = "/run/bandwidth";
    fs::copy(plugin(), copy).unwrap();
    fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
    let (code, text) = Call::bare(copy, "STATUS")
        .variable("CNI_PATH", "/opt/cni/bin")
        .config(&config)
        .as_user(USER)
        .fail()
        .unwrap();
    assert_eq!(code, 50, "{text}");
    assert!(
        text.contains("the plugin needs root, or CAP_NET_ADMIN"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");

    let pod = node.pod("a").unwrap();
    let config = limited(&pod, json!({}));
    let before = state(&node, &pod);
    for command in ["ADD", "CHECK", "DEL"] {
        let call = Call::of(copy, command, &pod, &config).as_user(USER);
        let (_, text) = call.fail().unwrap();
        assert!(text.contains("the plugin needs root"), "{command}: {text}");
        assert_eq!(text.lines().count(), 1, "{command}: {text}");
        state(&node, &pod).assert_is(&before, command);
    }
}

#[test]
fn a_configuration_that_is_wrong_is_said_to_be() {
    let (code, text) = status(json!({"hook": "xdp"})).fail().unwrap();
    assert_eq!(code, 7);
    assert!(text.starts_with("hook: \"xdp\" is unknown"), "{text}");
    for version in ["0.4.0", "1.0.0"] {
        let said = status(json!({"cniVersion": version})).fail().unwrap();
        assert_eq!(said, (1, "config version does not allow STATUS".to_owned()));
    }
}

/// Each has something to say: STATUS how limits are held, ADD why flows are not ranked, GC that it has no list.
#[test]
fn plugin_without_stderr_answers() {
    let Some(node) = node() else { return };
    let outcome = succeeded(&status(json!({})).losing_stderr());
    assert_eq!(outcome.stdout, "", "{outcome:?}");
    let pod = node.pod("a").unwrap();
    let config = limited(&pod, json!({"hook": "none"}));
    let said = call("ADD", &pod, &config).run().unwrap();
    assert!(said.stderr.contains("flows are not ranked"), "{said:?}");
    let outcome = succeeded(&call("ADD", &pod, &config).losing_stderr());
    assert_eq!(outcome.stdout, said.stdout);
    let without_list = json!({"cniVersion": "1.1.0", "name": "net", "type": "bandwidth"});
    let gc = Call::bare(plugin(), "GC").variable("CNI_PATH", "/opt/cni/bin");
    let gc = gc.config(&without_list);
    let said = gc.run().unwrap();
    assert!(said.stderr.contains("GC without a list"), "{said:?}");
    succeeded(&gc.losing_stderr());
}
