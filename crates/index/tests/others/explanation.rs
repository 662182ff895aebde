//! What somebody is told who asks why a packet is treated as it is.

use netqos_core::objects::Pod;
use netqos_core::{
    BitRate, LabelSelector, Limit, Limits, Mode, NetworkKey, Policy, Protocol, Rule,
};
use netqos_index::{Change, Index, Query, To};

use crate::Applied as _;
use crate::objects::{
    attachment, index, ip, local, name, pod, policy, port, rule, selector, service, slice,
    to_block, to_pods,
};

fn cluster() -> Index {
    let web = || to_pods(None, Some(selector(&[("app", "web")])));
    let first = Rule {
        ports: vec![port(Protocol::Tcp, 443)],
        ..rule(10, vec![web()])
    };
    let shadow = Rule {
        mode: Mode::Shadow,
        ..rule(11, vec![web()])
    };
    let paid = Policy {
        pods: selector(&[("user", "paid")]),
        ..policy("a/paid", 9, vec![rule(30, vec![])])
    };
    let rules = vec![
        rule(20, vec![]),
        rule(21, vec![web()]),
        first,
        rule(22, vec![to_block("192.0.2.0/24")]),
        shadow,
    ];
    let mut changes = local("a/p", &[], "10.0.0.1").to_vec();
    changes.extend([
        Change::Policy(policy("a/free", 5, rules)),
        Change::Policy(policy("a/gratis", 5, vec![rule(40, vec![])])),
        Change::Policy(policy("a/all", 1, vec![rule(50, vec![])])),
        Change::Policy(paid),
        Change::Pod(pod("a/web", &[("app", "web")], &["10.0.0.2"])),
        Change::Pod(pod("a/db", &[("app", "db")], &["10.0.0.3"])),
        Change::Service(service("a/s", &["10.96.0.1"], &[("", Protocol::Tcp, 80)])),
    ]);
    let both = ["10.0.0.2", "10.0.0.3"];
    let target = [("", Protocol::Tcp, 8080)];
    changes.push(Change::EndpointSlice(slice("a/s-1", "s", &both, &target)));
    index(changes)
}

fn ask(to: To) -> Query {
    Query {
        from: name("a/p"),
        network: NetworkKey::Default,
        to,
        protocol: Some(Protocol::Tcp),
        port: Some(80),
    }
}

#[test]
fn every_rule_is_named_with_what_became_of_it() {
    let said = cluster().explain(&ask(To::Pod(name("a/web")))).to_string();
    let wanted = "\
a/p -> a/web, TCP/80, on network default
  => a/free[1] decides: DSCP 21 (a/free[4] would decide, but is in shadow mode)
  to 10.0.0.2:80, pod a/web: a/free[1] decides: DSCP 21 (a/free[4] would decide, but is in shadow mode)
    shadow   a/free[4] priority 5: would: DSCP 11
    no       a/free[3] priority 5: is for packets to 192.0.2.0/24
    no       a/free[2] priority 5: is for ports TCP/443
    wins     a/free[1] priority 5: DSCP 21
    lost     a/free[0] priority 5: a/free[1] matches too, and a later rule of an object wins
    lost     a/gratis[0] priority 5: a/free[1] has the same priority and a smaller name
    lost     a/all[0] priority 1: a/free[1] has a higher priority
    no       a/paid priority 9: is for pods user=paid, which the sender is not
";
    assert_eq!(said, wanted);
}

#[test]
fn a_service_is_explained_by_what_stands_behind_it() {
    let mut index = cluster();
    let to_service = ask(To::Address(ip("10.96.0.1")));
    let said = index.explain(&to_service);
    assert_eq!(said.outcome, None, "its backends differ");
    let said = said.to_string();
    for line in [
        "that depends on the address",
        "to 10.0.0.2:8080, behind Service a/s, pod a/web: a/free[1] decides",
        "to 10.0.0.3:8080, behind Service a/s, pod a/db: a/free[0] decides",
        "to 10.96.0.1:80, the address of Service a/s, until a backend is chosen",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let db_is_web = pod("a/db", &[("app", "web")], &["10.0.0.3"]);
    index.apply(Change::Pod(db_is_web));
    let outcome = index.explain(&to_service).outcome.unwrap();
    assert_eq!(outcome.winner.unwrap().to_string(), "a/free[1]");
}

#[test]
fn where_there_is_nothing_to_explain_the_reason_is_said() {
    let mut index = cluster();
    index.apply(Change::Pod(Pod {
        host_network: true,
        ..pod("a/host", &[], &["10.0.0.9"])
    }));
    index.apply(Change::Pod(pod("a/new", &[], &[])));
    let web = || To::Pod(name("a/web"));
    let from = |text, to| Query {
        from: name(text),
        ..ask(to)
    };
    for (query, reason) in [
        (from("a/nobody", web()), "there is no pod a/nobody"),
        (from("a/host", web()), "hostNetwork"),
        (
            from("a/p", To::Pod(name("a/gone"))),
            "there is no pod a/gone",
        ),
        (from("a/p", To::Pod(name("a/new"))), "no address"),
        (
            Query {
                network: attachment("a/storage"),
                ..ask(web())
            },
            "is not on this network, but on default",
        ),
    ] {
        let said = index.explain(&query);
        assert!(said.outcome.is_none());
        assert!(said.to_string().contains(reason), "{said}");
    }
}

#[test]
fn the_pods_own_limit_is_said_besides() {
    let mut index = cluster();
    let here = Pod {
        node: Some(crate::objects::NODE.into()),
        limits: Limits {
            egress: Some(Limit::of(BitRate::from_bits_per_second(10_000_000))),
            ingress: None,
        },
        ..pod("a/p", &[], &[])
    };
    index.apply(Change::Pod(here));
    index.apply(Change::Policy(Policy {
        networks: netqos_core::NetworkChoice::AnyOf(vec![]),
        pods: LabelSelector::everything(),
        ..policy("a/free", 5, vec![rule(1, vec![])])
    }));
    let said = index.explain(&ask(To::Pod(name("a/web")))).to_string();
    assert!(
        said.contains("all that the pod sends is held to 10 Mbit/s"),
        "{said}"
    );
    assert!(
        said.contains("a/free priority 5: is in force on no network"),
        "{said}"
    );
    assert!(said.contains("a/gratis[0] decides"), "{said}");
}

#[test]
fn shadow_rule_that_tells_addresses_apart_leaves_the_outcome() {
    let mut index = cluster();
    let shadow = Rule {
        mode: Mode::Shadow,
        ..rule(11, vec![to_block("10.0.0.3/32")])
    };
    index.apply(Change::PolicyGone(name("a/free")));
    let trial = policy("a/trial", 50, vec![shadow]);
    index.apply(Change::Policy(trial));
    index.applied(Change::Pod(pod("a/dual", &[], &["10.0.0.3", "fd00::3"])));
    for to in [To::Address(ip("10.96.0.1")), To::Pod(name("a/dual"))] {
        let explanation = index.explain(&ask(to));
        let outcome = explanation.outcome.clone().expect("the winner is the same");
        assert_eq!(outcome.winner.unwrap().to_string(), "a/gratis[0]");
        assert_eq!(outcome.shadow, None);
        let said = explanation.to_string();
        assert!(said.contains("=> a/gratis[0] decides: DSCP 40\n"), "{said}");
        assert!(
            said.contains("the rule in shadow mode that counts it depends"),
            "{said}"
        );
    }
}
