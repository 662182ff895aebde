//! Where the kernel makes fq_codel, the flows of a class take turns.

use netqos_datapath::try_fq_codel;
use netqos_netlink::qdisc::Installed;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::classes::{World, shares};

/// The fq_codel of the uplink.
fn fair_queues(world: &World) -> Vec<Installed> {
    let mut socket = Socket::open().unwrap();
    let uplink = socket.link_by_name(&world.line()).unwrap();
    let mut queues = socket.qdiscs(&uplink).unwrap();
    queues.retain(|it| it.fq_codel().is_some());
    queues
}

fn tc(world: &World, action: &str, parent: Handle, words: &[&str]) {
    let (uplink, parent) = (world.line(), parent.to_string());
    let first = ["qdisc", action, "dev", &uplink, "parent", &parent];
    world.node.run("tc", &[&first, words].concat()).unwrap();
}

/// A process that is killed between a token bucket and the queue below it leaves a leaf without that, and so does another
/// process that deletes it.
#[test]
fn leaf_whose_fq_codel_is_gone_or_changed_gets_it_back() {
    if let Err(why) = try_fq_codel() {
        eprintln!("skipped: this kernel makes no fq_codel: {why}");
        return;
    }
    // Below a token bucket, and in the place of it.
    for megabits in [100, 600] {
        let Some(mut world) = World::new() else {
            return;
        };
        world.divide(shares(megabits));
        let made = fair_queues(&world);
        assert_eq!(made.len(), 3);
        tc(&world, "del", made[0].parent, &[]);
        let changed = ["fq_codel", "limit", "1", "noecn"];
        tc(&world, "change", made[1].parent, &changed);
        assert_eq!(fair_queues(&world).len(), 2);
        assert!(world.divide(shares(megabits)).changes >= 2);
        let settings =
            |queues: &[Installed]| -> Vec<_> { queues.iter().map(|it| it.fq_codel()).collect() };
        assert_eq!(settings(&fair_queues(&world)), settings(&made));
        assert_eq!(world.divide(shares(megabits)).changes, 0);
    }
}
