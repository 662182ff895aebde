//! Names that are longer together than a link's alias or a file's name may be.

use netqos_core::Attachment;
use netqos_testkit::Call;
use serde_json::json;

use super::calls::{gc, limited_to, on_node, plugin, start, ways};
use super::kernel::{assert_no_limits, everything, links_of_kind, on_host};

const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn are_cut_off_and_still_tell_whose_everything_is() {
    let Some((node, pod)) = start() else { return };
    let (bare, bare_node) = (everything(&[&pod]), everything(&[]));
    for length in [150, 180, 255, 1000] {
        let network = |end: &str| format!("{}.{end}", "n".repeat(length - 2));
        let (ours, other) = (network("1"), network("2"));
        for (hook, egress) in ways() {
            let what = format!("{length}, {hook}, {egress}");
            let of = |rate| {
                limited_to(
                    &pod,
                    rate,
                    rate,
                    json!({"name": ours, "hook": hook, "egress": egress}),
                )
            };
            let (config, faster) = (of(10_000_000), of(20_000_000));
            let call = |command: &str, config: &serde_json::Value| {
                Call::of(plugin(), command, &pod, config).variable("CNI_CONTAINERID", CONTAINER)
            };
            for config in [&config, &faster, &config] {
                call("ADD", config).succeed().expect(&what);
                call("CHECK", config).succeed().expect(&what);
            }
            let tag = Attachment::try_new(&ours, CONTAINER, "eth0").unwrap().tag();
            assert_eq!(on_host("veth-a").alias, *tag, "{what}");
            let alive = json!([{"containerID": CONTAINER, "ifname": "eth0"}]);
            gc(&other, json!([]));
            gc(&ours, alive);
            call("CHECK", &config).succeed().expect(&what);
            call("DEL", &config).succeed().expect(&what);
            assert_eq!(everything(&[&pod]), bare, "{what}");
            // By the record, and by what stands on the links alone, which are the node's only.
            call("ADD", &config).succeed().expect(&what);
            gc(&ours, json!([]));
            if egress == "ifb" {
                assert_eq!(everything(&[]), bare_node, "{what}");
                call("ADD", &config).succeed().expect(&what);
                std::fs::remove_dir_all("/run/netqos").unwrap();
                gc(&ours, json!([]));
                assert_eq!(links_of_kind("ifb"), [""; 0], "{what}");
                assert_eq!(on_host("veth-a").alias, "", "{what}");
                // It may be anybody's.
                on_node(&node, "tc qdisc del dev veth-a clsact");
            }
            call("DEL", &config).succeed().expect(&what);
            assert_no_limits(&node, &what);
            assert_eq!(everything(&[&pod]), bare, "{what}");
        }
    }
}
