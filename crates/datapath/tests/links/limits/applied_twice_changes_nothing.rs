use netqos_datapath::HookKind;
use netqos_testkit::Node;

use super::{Wanted, both, datapath, hooks};

#[test]
fn and_taken_away_restores_what_was_there() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("parent").unwrap();
    let veth = node.pod("a").unwrap();
    let macvlan = node.macvlan_pod("m", "parent").unwrap();
    let mut datapath = datapath();
    for hook in hooks() {
        for wanted in [
            (&veth, Wanted::new(&veth, both(10), hook)),
            (&veth, Wanted::new(&veth, both(10), hook).by_ifb()),
            (&macvlan, Wanted::new(&macvlan, both(10), hook)),
        ] {
            let (pod, wanted) = wanted;
            let state = || {
                // Tables stay for the next limit.
                let state = node.state(&[pod]).unwrap();
                state.without("/sys/fs/bpf/netqos/v1/")
            };
            let before = state();
            let applied = datapath.apply(&wanted.request()).unwrap();
            assert_eq!(applied.queues.len(), 2);
            assert!(
                applied.queues.iter().all(|q| q.hook != HookKind::None),
                "{applied:?}"
            );
            datapath.check(&wanted.request()).unwrap();

            let once = state();
            assert_ne!(once, before);
            assert_eq!(datapath.apply(&wanted.request()).unwrap(), applied);
            state().assert_is(&once, "applied again");

            datapath
                .teardown(
                    &wanted.attachment,
                    Some(&wanted.netns),
                    wanted.request().host_links,
                    &wanted.limits,
                )
                .unwrap();
            state().assert_is(&before, format_args!("taken away from {hook:?}"));
            datapath
                .teardown(
                    &wanted.attachment,
                    None,
                    wanted.request().host_links,
                    &wanted.limits,
                )
                .unwrap();
            assert_eq!(node.files("/run/netqos"), [""; 0]);
            assert_eq!(node.files("/sys/fs/bpf/netqos/v1/links"), [""; 0]);
        }
    }
}
