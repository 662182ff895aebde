use netqos_core::{Dscp, PodId, Rule};
use netqos_datapath::rules::Outcome;
use netqos_index::Change;
use netqos_testkit::rules::{TCP_SHARE, World, limiting, mbit, policy};

use super::{Stream, UDP_SHARE, best, object, on_both_hooks, sum, together};

fn queue(outcome: &Outcome) -> Option<&str> {
    outcome.meters.values().next().unwrap().queue.as_deref()
}

#[test]
fn pods_on_a_bridge_have_the_same_rate() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.node.bridge("cni0").unwrap();
        for (name, kind) in [("a", "player"), ("b", "player"), ("gateway", "gateway")] {
            let pod = world.node.bridged_pod(name, "cni0").unwrap();
            world.register(pod, kind, true);
        }
        let rule = Rule {
            dscp: Some(Dscp::try_new(11).unwrap()),
            ..limiting(20)
        };
        world.apply(Change::Policy(policy("p", 1, "player", vec![rule])));
        for v6 in [false, true] {
            assert_eq!(world.marks("a", "gateway", v6), [11], "{hook:?}");
        }
        let full = 20e6 * TCP_SHARE;
        let is_right = |rate: &f64| (0.92..1.04).contains(&(rate / full));
        let rate = best(is_right, || world.tcp("a", "gateway", 1.5));
        assert!(is_right(&rate), "{hook:?}: {rate}");
        let is_right = |rates: &[f64; 2]| (0.92..1.04).contains(&(sum(rates) / full));
        let streams = ["a", "b"].map(|pod| Stream::tcp(&world, pod, "gateway"));
        let rates = best(is_right, || together(streams, 1.5));
        assert!(is_right(&rates), "{hook:?}: {rates:.0?}");
    });
}

/// A macvlan has no end on the node to which a queue could give its packets back.
#[test]
fn macvlan_pods_share_what_a_policer_lets_pass() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        for (name, kind) in [("a", "player"), ("b", "player"), ("gateway", "gateway")] {
            world.macvlan_pod(name, kind);
        }
        let outcome = world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        assert_eq!(queue(&outcome), None);
        let tcp = ["a", "b"].map(|pod| Stream::tcp(&world, pod, "gateway"));
        let udp = ["a", "b"].map(|pod| Stream::udp(&world, pod, "gateway", mbit(20)));
        for (streams, share, least) in [(tcp, TCP_SHARE, 0.75), (udp, UDP_SHARE, 0.97)] {
            let full = 20e6 * share;
            let is_right = |rates: &[f64; 2]| (least..1.04).contains(&(sum(rates) / full));
            let rates = best(is_right, || together(streams, 3.0));
            println!("{hook:?}: {rates:.0?}, {:.3}", sum(&rates) / full);
            assert!(is_right(&rates), "{hook:?}: {rates:.0?}");
        }
    });
}

/// One that cannot queue makes all police; when it goes, all queue again.
#[test]
fn a_macvlan_pod_and_a_veth_pod_share_one_rate() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.macvlan_pod("far", "gateway");
        world.pod("near", "gateway");
        world.pod("veth", "player");
        let outcome = world.apply(Change::Policy(policy("p", 1, "player", vec![limiting(20)])));
        assert!(queue(&outcome).is_some());

        world.macvlan_pod("macvlan", "player");
        let outcome = world.apply(Change::Service(nothing()));
        assert_eq!(queue(&outcome), None);
        assert!(flows(&world));
        let streams = [
            Stream::udp(&world, "veth", "near", mbit(20)),
            Stream::udp(&world, "macvlan", "far", mbit(20)),
        ];
        let full = 20e6 * UDP_SHARE;
        let is_right = |rates: &[f64; 2]| {
            (0.97..1.03).contains(&(sum(rates) / full)) && rates.iter().all(|r| *r > full / 5.0)
        };
        let rates = best(is_right, || together(streams, 1.5));
        println!("{hook:?}: {rates:.0?}");
        assert!(is_right(&rates), "{hook:?}: {rates:.0?}");
        world.tidy();
        assert!(flows(&world));

        let outcome = world.apply(Change::PodGone(PodId {
            name: object("macvlan"),
            uid: "uid-macvlan".into(),
        }));
        assert!(queue(&outcome).is_some());
        let full = 20e6 * TCP_SHARE;
        let is_right = |rate: &f64| (0.92..1.04).contains(&(rate / full));
        let rate = best(is_right, || world.tcp("veth", "near", 1.0));
        assert!(is_right(&rate), "{hook:?}: {rate}");
        let again = world.rules.sync(world.index.plan());
        assert_eq!((again.changes, again.problems.as_slice()), (0, &[][..]));
    });
}

/// A change that changes nothing, to put in force what changed before it.
/// Whether anything of the pod with a veth arrives, of three tries.
fn flows(world: &World) -> bool {
    let does = |rate: &f64| *rate > 5e6;
    does(&best(does, || world.tcp("veth", "near", 0.5)))
}

fn nothing() -> netqos_core::objects::Service {
    netqos_core::objects::Service {
        name: object("nothing"),
        addresses: Default::default(),
        ports: Vec::new(),
    }
}
