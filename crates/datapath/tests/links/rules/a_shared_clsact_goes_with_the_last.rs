use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_index::Change;
use netqos_testkit::{ForeignHook, ForeignProgram, TcAttachType, Verdict};

/// What a pod has on the interface that both share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Limit,
    Rules,
}

use Thing::{Limit as ALimit, Rules};
use netqos_testkit::rules::{World, apart, marking, mbit, policy};

/// A limit of what it receives, of what it sends by an ifb, and of what a pod without an end on the
/// node sends: each shares an interface with the pod's rules.
#[derive(Clone, Copy, Debug)]
enum Shares {
    IngressOfVeth,
    EgressOfVethByIfb,
    EgressOfMacvlan,
}

/// Whoever of the two comes first makes clsact, and must not be the one who has to remove it.
#[test]
fn whoever_comes_first_and_whoever_goes_first() {
    let orders = [[ALimit, Rules], [Rules, ALimit]];
    let ways = [
        Shares::IngressOfVeth,
        Shares::EgressOfVethByIfb,
        Shares::EgressOfMacvlan,
    ];
    let cases = ways.into_iter().flat_map(|shares| {
        let coming = orders.into_iter();
        coming.flat_map(move |coming| orders.map(|going| (shares, coming, going)))
    });
    apart(cases, |(shares, coming, going)| {
        let Some(mut world) = World::new(HookChoice::Auto) else {
            return;
        };
        match shares {
            Shares::EgressOfMacvlan => world.macvlan_pod("a", "player"),
            _ => world.pod("a", "player"),
        }
        let before = world.node.state(&[world.pod_named("a")]).unwrap();
        for thing in coming {
            match thing {
                ALimit => hold(&world, shares),
                Rules => {
                    let rules = policy("p", 1, "player", vec![marking(20)]);
                    world.apply(Change::Policy(rules));
                }
            }
        }
        for thing in going {
            match thing {
                ALimit => let_go(&world),
                Rules => {
                    let name = policy("p", 1, "player", Vec::new()).name;
                    world.apply(Change::PolicyGone(name));
                    world.tidy();
                }
            }
        }
        let after = world.node.state(&[world.pod_named("a")]).unwrap();
        // The maps stay for the next.
        after.without("/sys/fs/bpf").assert_is(
            &before.without("/sys/fs/bpf"),
            format!("{shares:?}: {coming:?} came, {going:?} went"),
        );
    });
}

/// Also where the rules' program has left it meanwhile, since somebody else came before it.
#[test]
fn also_when_the_program_has_moved_to_tcx() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "player");
    let link = world.pod_named("a").host_link().to_owned();
    let pristine = world.node.traffic_control(&link).unwrap();
    let rules = policy("p", 1, "player", vec![marking(20)]);
    world.apply(Change::Policy(rules.clone()));
    let (first, ingress) = (ForeignHook::TcxFirst, TcAttachType::Ingress);
    let foreign = ForeignProgram::attach(&link, ingress, first, Verdict::Next).unwrap();
    let moved = world.rules.inspect(world.index.plan());
    assert_eq!(moved.restored.len(), 1);
    hold(&world, Shares::IngressOfVeth);
    world.apply(Change::PolicyGone(rules.name));
    let_go(&world);
    drop(foreign);
    let left = world.node.traffic_control(&link).unwrap();
    assert_eq!(left, pristine);
}

fn attachment() -> Attachment {
    Attachment::try_new("net", "a", "eth0").unwrap()
}

fn hold(world: &World, shares: Shares) {
    let limit = Some(Limit::of(mbit(10)));
    let (ingress, egress) = match shares {
        Shares::IngressOfVeth => (limit, None),
        Shares::EgressOfVethByIfb | Shares::EgressOfMacvlan => (None, limit),
    };
    let request = Request {
        attachment: &attachment(),
        netns: &world.pod_named("a").netns(),
        ends: None,
        host_links: HostLinks::Unknown,
        limits: Limits { ingress, egress },
        egress: match shares {
            Shares::EgressOfVethByIfb => EgressWay::Ifb,
            _ => EgressWay::Pod,
        },
        hook: HookChoice::Auto,
        is_running: false,
    };
    let mut datapath = LimitDatapath::open(Paths::from_variables(|_| None)).unwrap();
    // Told twice, it still knows what it found.
    datapath.apply(&request).unwrap();
    datapath.apply(&request).unwrap();
}

fn let_go(world: &World) {
    let netns = world.pod_named("a").netns();
    let mut datapath = LimitDatapath::open(Paths::from_variables(|_| None)).unwrap();
    let limits = Limits::default();
    datapath
        .teardown(&attachment(), Some(&netns), HostLinks::Unknown, &limits)
        .unwrap();
}
