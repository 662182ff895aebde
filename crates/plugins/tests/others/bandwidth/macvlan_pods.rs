//! Interfaces without an end on the host: both directions inside of the pod.

use serde_json::json;

use super::calls::{add, call, check, del, gc, inside, limited, limited_by, node, state, warm_up};
use super::kernel::{assert_no_limits, in_pod, limiters, links_of_kind};

#[test]
fn both_directions_inside_of_the_pod() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    let pod = node.macvlan_pod("m", "parent").unwrap();
    warm_up(&pod);
    let before = state(&node, &pod);
    let ifb = netqos_api::ifb_name("net", "m");
    for (hook, egress) in super::calls::ways() {
        let what = format!("{hook}, {egress}");
        let config = limited_by(&pod, hook, egress);
        // Nothing of it is on the host, so nothing of it is in the result.
        assert_eq!(add(&pod, &config), config["prevResult"], "{what}");
        assert_eq!(links_of_kind("ifb"), [""; 0], "{what}");
        let (ingress, egress) = (in_pod(&pod, &ifb), in_pod(&pod, "eth0"));
        assert_eq!(ingress.tbf.unwrap().rate, 1_250_000, "{what}");
        assert_eq!(egress.tbf.unwrap().rate, 2_500_000, "{what}");
        assert!(
            egress
                .filters
                .contains(&format!("ingress 65535 u32 to {ifb}")),
            "{what}: {egress:?}"
        );
        assert_eq!(limiters().len(), 2, "{what}");
        let whole = state(&node, &pod);
        add(&pod, &config);
        state(&node, &pod).assert_is(&whole, &what);
        check(&pod, &config);

        inside(&node, &pod, &format!("ip link del {ifb}"));
        let (code, text) = call("CHECK", &pod, &config).fail().unwrap();
        assert!(
            code == 999 && text.starts_with("get ifb device: "),
            "{what}: {text}"
        );
        add(&pod, &config);
        inside(&node, &pod, "tc filter del dev eth0 ingress");
        let (_, text) = call("CHECK", &pod, &config).fail().unwrap();
        assert_eq!(
            text,
            format!("ingress of {ifb}: traffic of eth0 is not redirected to it")
        );

        del(&pod, &config);
        state(&node, &pod).assert_is(&before, &what);
        add(&pod, &config);
        gc("net", json!([]));
        state(&node, &pod).assert_is(&before, format_args!("{what}, GC"));
    }
}

/// The pod's namespace is gone, and nothing of it was anywhere else but in the maps.
#[test]
fn after_the_namespace_has_gone() {
    let Some(node) = node() else { return };
    node.parent_link("parent").unwrap();
    for hook in super::calls::hooks() {
        let pod = node.macvlan_pod("m", "parent").unwrap();
        let config = limited(&pod, json!({"hook": hook}));
        add(&pod, &config);
        pod.remove(&node).unwrap();
        del(&pod, &config);
        assert_no_limits(&node, "");
    }
}
