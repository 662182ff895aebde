//! Limits of the work for Services with more kinds of backends than an entry has room for.

use std::net::SocketAddr;

use netqos_core::objects::{EndpointSlice, Service, ServicePortSpec};
use netqos_core::{Destination, IpBlock, ObjectName, Protocol, Reason, Rule};
use netqos_datapath::Paths;
use netqos_datapath::rules::{Outcome, RuleDatapath, ServiceLimits};
use netqos_index::Change;
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{HOOKS, marking, policy, proxy};

use super::scene::{Scene, TARGET_PORT, marking_kind};

/// More than the program compares.
const BACKENDS: [&str; 10] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"];
/// The ports of the virtual address, in their order.
const PORTS: [u16; 2] = [81, 82];
/// The marks of the first packet and the others where the backends, and the virtual address, decide.
const BY_BACKEND: (u8, u8) = (10, 10);
const BY_ADDRESS: (u8, u8) = (30, 10);

/// Opens the datapath again, as an agent that restarts.
fn open(scene: &mut Scene, limits: ServiceLimits) {
    let paths = Paths::from_variables(|_| None);
    let rules = RuleDatapath::open(paths, HOOKS[0]).unwrap();
    scene.world.rules = rules.with_service_limits(limits);
}

/// A client to which all backends are alike, and backends that the rules of others tell apart.
fn crowded_scene(limits: ServiceLimits) -> Option<Scene> {
    let mut scene = Scene::new(HOOKS[0])?;
    open(&mut scene, limits);
    for name in BACKENDS {
        scene.backend(name, "web");
    }
    let apart = BACKENDS.iter().zip(40..).map(|(name, dscp)| {
        let only = IpBlock::try_new(scene.address(name, false).into(), vec![]).unwrap();
        Rule {
            to: vec![Destination::Block(only)],
            ..marking(dscp)
        }
    });
    let of_others = policy("others", 1, "web", apart.collect());
    scene.world.apply(Change::Policy(of_others));
    scene.rules(vec![marking(30), marking_kind(10, "web")]);
    Some(scene)
}

/// A Service with a UDP port of the virtual address, in the index and in iptables.
fn add_service(scene: &mut Scene, port: u16, backends: &[&str]) -> Outcome {
    let name = format!("front-{port}");
    let addresses = backends.iter().map(|name| scene.address(name, false));
    let addresses: Vec<_> = addresses.collect();
    let targets = addresses.iter().map(|it| SocketAddr::new(*it, TARGET_PORT));
    let targets: Vec<_> = targets.collect();
    let to = SocketAddr::new(virtual_address(false), port);
    proxy::forward(&scene.world.node, "udp", to, &targets);
    let ports = |port| {
        vec![ServicePortSpec {
            name: "udp".into(),
            protocol: Protocol::Udp,
            port,
        }]
    };
    scene
        .world
        .index
        .apply(Change::EndpointSlice(EndpointSlice {
            name: ObjectName::new("games", &name),
            service: name.as_str().into(),
            ports: ports(TARGET_PORT),
            addresses: addresses.into_iter().collect(),
        }));
    scene.world.try_apply(Change::Service(Service {
        name: ObjectName::new("games", &name),
        addresses: [virtual_address(false)].into(),
        ports: ports(port),
    }))
}

fn marks(scene: &Scene, port: u16) -> (u8, u8) {
    let to = SocketAddr::new(virtual_address(false), port);
    scene.flow_to(Protocol::Udp, to).first_and_rest()
}

/// Asserts that the only problem is that of the limits, with these parts in its message.
fn assert_limit_reached(outcome: &Outcome, parts: &[&str]) {
    let [problem] = &outcome.problems[..] else {
        panic!("{:?}", outcome.problems);
    };
    assert_eq!(problem.reason, Reason::ServiceLimitReached);
    for part in parts {
        assert!(problem.message.contains(part), "{problem}");
    }
}

#[test]
fn service_beyond_the_limit_is_classified_by_its_address_until_another_goes() {
    let limits = ServiceLimits {
        ports: 1,
        ..ServiceLimits::default()
    };
    let Some(mut scene) = crowded_scene(limits) else {
        return;
    };
    let [first, last] = PORTS;
    assert_eq!(add_service(&mut scene, last, &BACKENDS).problems, []);
    assert_eq!(marks(&scene, last), BY_BACKEND);

    // A new Service never displaces another, whatever its address.
    let outcome = add_service(&mut scene, first, &BACKENDS);
    let parts = ["10.96.0.1:81 (UDP),", "at most 1 such ports", "use fewer"];
    assert_limit_reached(&outcome, &parts);
    assert_eq!(marks(&scene, last), BY_BACKEND);
    assert_eq!(marks(&scene, first), BY_ADDRESS);

    open(&mut scene, limits);
    let outcome = scene.world.rules.sync(scene.world.index.plan());
    assert_limit_reached(&outcome, &parts);
    assert_eq!(outcome.changes, 0);
    assert_eq!(marks(&scene, last), BY_BACKEND);
    assert_eq!(marks(&scene, first), BY_ADDRESS);

    let gone = ObjectName::new("games", &format!("front-{last}"));
    let outcome = scene.world.try_apply(Change::ServiceGone(gone));
    assert_eq!(outcome.problems, []);
    assert_eq!(marks(&scene, first), BY_BACKEND);
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
}

#[test]
fn service_beyond_the_verdicts_is_classified_by_its_address_until_they_are_fewer() {
    // Two chains: the client's and the backends'.
    let limits = ServiceLimits {
        verdicts: 2 * 9,
        ..ServiceLimits::default()
    };
    let Some(mut scene) = crowded_scene(limits) else {
        return;
    };
    let [port, _] = PORTS;
    let outcome = add_service(&mut scene, port, &BACKENDS);
    assert_limit_reached(
        &outcome,
        &["10.96.0.1:81 (UDP),", "20 verdicts", "at most 18 "],
    );
    assert_eq!(marks(&scene, port), BY_ADDRESS);
    assert_eq!(add_service(&mut scene, port, &BACKENDS[..9]).problems, []);
    assert_eq!(marks(&scene, port), BY_BACKEND);

    // A third chain.
    scene.backend("db", "db");
    let third = policy("third", 1, "db", vec![marking(20)]);
    let outcome = scene.world.try_apply(Change::Policy(third.clone()));
    assert_limit_reached(&outcome, &["27 verdicts"]);
    assert_eq!(marks(&scene, port), BY_ADDRESS);
    scene.world.try_apply(Change::PolicyGone(third.name));
    assert_eq!(scene.world.tidy().problems, []);
    assert_eq!(marks(&scene, port), BY_BACKEND);
    let again = scene.world.rules.sync(scene.world.index.plan());
    assert_eq!((again.problems.as_slice(), again.changes), (&[][..], 0));
}
