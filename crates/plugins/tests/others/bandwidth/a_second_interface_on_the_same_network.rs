//! Two interfaces of one container on one network: the original fails for the second.

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::calls::{call, limited_to, start, ways};
use super::kernel::{Held, everything, in_pod, limiters, links_of_kind, on_host, shape};

/// The limit of each: a rate to the pod, and one from the pod.
const ETH0: (u64, u64) = (10_000_000, 20_000_000);
const ETH1: (u64, u64) = (30_000_000, 40_000_000);

struct Interface<'p> {
    pod: &'p Pod,
    name: &'static str,
    host_link: String,
    config: Value,
}

impl Interface<'_> {
    fn call(&self, command: &str) -> netqos_testkit::Call {
        call(command, self.pod, &self.config).variable("CNI_IFNAME", self.name)
    }

    fn rate_of(link: &Held) -> u64 {
        link.tbf.unwrap().rate * 8
    }

    /// The rates that are in force: to the pod, and from the pod by the pod's way.
    fn rates(&self) -> (u64, u64) {
        let inside = in_pod(self.pod, self.name);
        let host = on_host(&self.host_link);
        (Self::rate_of(&host), Self::rate_of(&inside))
    }
}

#[test]
fn each_has_its_own_limit() {
    let Some((node, pod)) = start() else { return };
    let second_link = pod.another_veth(&node, "eth1").unwrap();
    let bare = everything(&[&pod]);
    for (hook, egress) in ways() {
        let of = |name: &'static str, (ingress, egress_rate): (u64, u64), host_link: &str| {
            let more = json!({"hook": hook, "egress": egress});
            let mut config = limited_to(&pod, ingress, egress_rate, more);
            config["prevResult"]["interfaces"] = json!([
                {"name": "veth-a"}, {"name": second_link},
                {"name": "eth0", "sandbox": pod.netns()}, {"name": "eth1", "sandbox": pod.netns()},
            ]);
            Interface {
                pod: &pod,
                name,
                host_link: host_link.to_owned(),
                config,
            }
        };
        let (first, second) = (of("eth0", ETH0, "veth-a"), of("eth1", ETH1, &second_link));
        first.call("ADD").succeed().unwrap();
        let only_first = everything(&[&pod]);
        let result = second.call("ADD").succeed().unwrap();
        if egress == "pod" {
            assert_eq!((first.rates(), second.rates()), (ETH0, ETH1), "{hook}");
        } else {
            assert_eq!(links_of_kind("ifb").len(), 2, "{hook}");
            let name = result["interfaces"][4]["name"].as_str().unwrap();
            assert_ne!(name, netqos_api::ifb_name("net", "a"));
            assert!(on_host(name).tbf.unwrap() == shape(ETH1.1, 0).tbf());
        }
        assert_eq!(limiters().len(), 4);
        for interface in [&first, &second] {
            interface.call("ADD").succeed().unwrap();
            interface.call("CHECK").succeed().unwrap();
        }
        second.call("DEL").succeed().unwrap();
        assert_eq!(everything(&[&pod]), only_first, "{hook}, {egress}");
        first.call("CHECK").succeed().unwrap();
        // The other order.
        second.call("ADD").succeed().unwrap();
        first.call("DEL").succeed().unwrap();
        second.call("CHECK").succeed().unwrap();
        second.call("DEL").succeed().unwrap();
        assert_eq!(everything(&[&pod]), bare, "{hook}, {egress}");
        assert_eq!(limiters(), []);
    }
}
