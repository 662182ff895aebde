use netqos_api::HookChoice;
use netqos_datapath::HookKind;
use netqos_testkit::{ForeignHook, ForeignProgram, Node, TcAttachType, Verdict};

use super::{Wanted, both, datapath};

/// They run before clsact, and one that accepts would keep the queue from being bounded.
#[test]
fn where_nobody_says_which_hook() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let foreign = ForeignProgram::attach(
        pod.host_link(),
        TcAttachType::Egress,
        ForeignHook::TcxFirst,
        Verdict::Accept,
    )
    .unwrap();
    let wanted = Wanted::new(&pod, both(10), HookChoice::Auto);
    let mut datapath = datapath();
    // Ingress is held on the host's link, where the foreign program is; egress in the pod.
    let hooks = |datapath: &mut netqos_datapath::LimitDatapath| -> Vec<HookKind> {
        let applied = datapath.apply(&wanted.request()).unwrap();
        applied.queues.iter().map(|queue| queue.hook).collect()
    };
    assert_eq!(hooks(&mut datapath), [HookKind::Tcx, HookKind::Clsact]);
    datapath.check(&wanted.request()).unwrap();
    // Our own program on tcx is not foreign.
    drop(foreign);
    assert_eq!(hooks(&mut datapath), [HookKind::Clsact, HookKind::Clsact]);
    datapath.check(&wanted.request()).unwrap();
}
