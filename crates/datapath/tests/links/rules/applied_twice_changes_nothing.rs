use netqos_api::HookChoice;
use netqos_datapath::Paths;
use netqos_datapath::rules::{RuleDatapath, remove_all};
use netqos_index::Change;
use netqos_netlink::Socket;
use netqos_testkit::rules::{World, limiting, marking, on_both_hooks, policy};

#[test]
fn by_the_same_process_or_another() {
    on_both_hooks(twice);
}

fn twice(hook: HookChoice) {
    let Some(mut world) = World::new(hook) else {
        return;
    };
    let links = || Socket::open().unwrap().links().unwrap().len();
    world.pod("paid", "player");
    world.pod("gateway", "gateway");
    let before = links();
    let veth = world.pod_named("paid").host_link().to_owned();
    let untouched = world.node.traffic_control(&veth).unwrap();

    let rules = vec![marking(20), limiting(10)];
    let first = world.apply(Change::Policy(policy("p", 1, "player", rules)));
    assert!(first.changes > 0);
    assert_eq!(links(), before + 2);
    let again = world.rules.sync(world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));

    let mut other = RuleDatapath::open(Paths::from_variables(|_| None), hook).unwrap();
    let taken_over = other.sync(world.index.plan());
    assert_eq!(taken_over.changes, 0, "{taken_over:#?}");
    assert_eq!(taken_over.endpoints, first.endpoints);

    // What no plan says goes, and nothing of it stays.
    let emptied = other.sync(&netqos_core::NodePlan::default());
    assert_eq!(emptied.problems, []);
    assert!(emptied.changes > 0);
    other.tidy().unwrap();
    assert_eq!(links(), before);
    assert_eq!(world.node.traffic_control(&veth).unwrap(), untouched);

    other.sync(world.index.plan());
    // As an earlier version leaves it.
    let pins = world.node.files("/sys/fs/bpf");
    let added = pins.iter().find(|name| name.ends_with("/chain_services"));
    std::fs::remove_file(added.unwrap()).unwrap();
    remove_all(&Paths::from_variables(|_| None)).unwrap();
    assert_eq!(links(), before);
    assert_eq!(world.node.traffic_control(&veth).unwrap(), untouched);
    // Whoever was interrupted in it does it again.
    let mut last = RuleDatapath::open(Paths::from_variables(|_| None), hook).unwrap();
    last.sync(&netqos_core::NodePlan::default());
    let pins = world.node.files("/sys/fs/bpf");
    let is_first = |name: &&String| name.ends_with("/endpoints");
    std::fs::remove_file(pins.iter().find(is_first).unwrap()).unwrap();
    remove_all(&Paths::from_variables(|_| None)).unwrap();
    let left = world.node.files("/sys/fs/bpf");
    let ours = |name: &&String| name.contains("chains") || name.contains("rules");
    assert_eq!(left.iter().find(ours), None, "{left:?}");
}
