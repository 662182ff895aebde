use std::fs;

use netqos_api::HookChoice;
use netqos_bpf::TcxHook;
use netqos_datapath::Paths;
use netqos_datapath::rules::RuleDatapath;
use netqos_index::Change;
use netqos_netlink::Socket;

use crate::hooks::{HOOKS, apart};
use crate::world::{World, limiting, marking, policy};

/// Where the program stands, the next process finds it, though left to choose it might choose the
/// other hook: on both, it would meet each packet twice.
#[test]
fn whichever_it_was() {
    apart(HOOKS, |hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        world.pod("b", "gateway");
        let rules = vec![marking(20), limiting(10)];
        world.apply(Change::Policy(policy("p", 1, "player", rules)));
        let records = fs::read_dir("/run/netqos/rules").unwrap();
        for record in records {
            fs::write(record.unwrap().path(), "{").unwrap();
        }
        let mut next =
            RuleDatapath::open(Paths::from_variables(|_| None), HookChoice::Auto).unwrap();
        let outcome = next.sync(world.index.plan());
        assert_eq!(outcome.problems, [], "{hook:?}");
        let veth = world.pod_named("a").host_link();
        let index = Socket::open().unwrap().link_by_name(veth).unwrap().index;
        let by_tcx = TcxHook::Ingress.programs(index).unwrap().len();
        let traffic_control = world.node.traffic_control(veth).unwrap();
        let by_clsact = traffic_control.matches("handle 0x6e72").count();
        let right = match hook {
            HookChoice::Tcx => (1, 0),
            _ => (0, 1),
        };
        assert_eq!((by_tcx, by_clsact), right, "{hook:?}: {traffic_control}");
    });
}
