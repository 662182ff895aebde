use std::fs;

use netqos_api::HookChoice;
use netqos_bpf::TcxHook;
use netqos_datapath::Paths;
use netqos_datapath::rules::{RuleDatapath, remove_all};
use netqos_index::Change;
use netqos_netlink::Socket;
use netqos_testkit::rules::{HOOKS, World, apart, limiting, marking, policy};

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
        lose_records();
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

/// Its number may be another pod's by and by.
#[test]
fn nor_does_a_program_stay_that_nobody_wrote_down() {
    let cases = HOOKS
        .into_iter()
        .flat_map(|hook| [(hook, false), (hook, true)]);
    apart(cases, |(hook, everything)| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("a", "player");
        let other = world.node.pod("other").unwrap();
        let untouched = |link: &str, world: &World| {
            let index = Socket::open().unwrap().link_by_name(link).unwrap().index;
            let programs = TcxHook::Ingress.programs(index).unwrap().len();
            (programs, world.node.traffic_control(link).unwrap())
        };
        let foreign = other.host_link().to_owned();
        let tc = |words: String| {
            let words: Vec<&str> = words.split(' ').collect();
            world.node.run("tc", &words).unwrap();
        };
        tc(format!("qdisc add dev {foreign} clsact"));
        let all = "u32 match u32 0 0 classid 1:1";
        tc(format!("filter add dev {foreign} ingress pref 7 {all}"));
        let foreign_before = untouched(&foreign, &world);

        let rules = vec![marking(20), limiting(10)];
        world.apply(Change::Policy(policy("p", 1, "player", rules)));
        lose_records();
        let paths = Paths::from_variables(|_| None);
        if everything {
            remove_all(&paths).unwrap();
        } else {
            let mut next = RuleDatapath::open(paths, hook).unwrap();
            let nothing = netqos_core::NodePlan::default();
            assert_eq!(next.sync(&nothing).problems, [], "{hook:?}");
            assert_eq!(next.sync(&nothing).changes, 0);
        }
        let veth = world.pod_named("a").host_link();
        let (programs, traffic_control) = untouched(veth, &world);
        assert_eq!(programs, 0, "{hook:?}");
        assert!(!traffic_control.contains("0x6e72"), "{traffic_control}");
        let pins = world.node.files("/sys/fs/bpf");
        assert!(!pins.iter().any(|pin| pin.contains(":rules")), "{pins:?}");
        assert_eq!(untouched(&foreign, &world), foreign_before);
    });
}

fn lose_records() {
    for record in fs::read_dir("/run/netqos/rules").unwrap() {
        fs::write(record.unwrap().path(), "{").unwrap();
    }
}
