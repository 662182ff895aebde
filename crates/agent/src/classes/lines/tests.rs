use std::fs;

use super::*;

/// A link: index, name, kind, master, and what it is on.
type Spec = (u32, &'static str, &'static str, u32, u32);

fn link((index, name, kind, master, on): Spec) -> Link {
    let some = |index: u32| Some(index).filter(|index| *index != 0);
    Link {
        index,
        name: name.to_owned(),
        kind: kind.to_owned(),
        related: some(on),
        master: some(master),
        ..Link::default()
    }
}

#[test]
fn what_a_port_or_a_vlan_sends_by_is_the_line() {
    let links: Vec<Link> = [
        (1, "lo", "", 0, 0),
        (2, "eth0", "", 0, 0),
        (3, "eth1", "", 9, 0),
        (4, "eth2", "", 9, 0),
        (5, "eth0.7", "vlan", 0, 2),
        (6, "bond0.8", "vlan", 0, 9),
        (7, "eth3", "", 8, 0),
        (8, "br0", "bridge", 0, 0),
        (9, "bond0", "bond", 0, 0),
        (10, "eth0.7.9", "vlan", 0, 5),
        // A veth has another end, which it is not on.
        (11, "up0", "veth", 0, 2),
    ]
    .map(link)
    .into();
    for (named, routes, expected) in [
        (&[][..], &[2][..], &["eth0"][..]),
        (&[], &[2, 9], &["bond0", "eth0"]),
        (&[], &[3, 9], &["bond0"]),
        (&[], &[5], &["eth0"]),
        (&[], &[2, 5, 10], &["eth0"]),
        (&[], &[10], &["eth0"]),
        (&[], &[6], &["bond0"]),
        (&[], &[4, 6], &["bond0"]),
        (&[], &[8], &["br0"]),
        (&[], &[2, 11], &["eth0", "up0"]),
        (&["eth1", "eth2"], &[], &["bond0"]),
        (&["eth3", "eth9"], &[], &["eth3", "eth9"]),
        (&["bond0.8", "eth1"], &[], &["bond0"]),
        // Who names a VLAN means it.
        (&["eth0.7"], &[], &["eth0.7"]),
        (&["bond0.8"], &[], &["bond0.8"]),
        (&["eth0", "eth0.7.9"], &[], &["eth0"]),
    ] {
        let named: Vec<String> = named.iter().map(|it: &&str| (*it).to_owned()).collect();
        let found = chosen(&links, &named, &routes.iter().copied().collect());
        let found: Vec<&str> = found.iter().map(|it| &**it).collect();
        assert_eq!(found, expected, "{named:?} {routes:?}");
    }
}

/// Of a thousand pods' links that come none has lines looked at.
#[test]
fn only_what_is_of_lines_is_looked_at() {
    let eth0: Arc<str> = "eth0".into();
    let away: Arc<str> = "eth1".into();
    let there = |links: &[(u32, &str)]| News {
        there: links.iter().map(|it| (it.0, it.1.to_owned())).collect(),
        ..News::default()
    };
    let gone = |numbers: &[u32]| News {
        gone: numbers.iter().copied().collect(),
        ..News::default()
    };
    let pods = News {
        there: (100..1100).map(|it| (it, format!("veth{it}"))).collect(),
        gone: (1100..1200).collect(),
        ..News::default()
    };
    let routes = News {
        default_routes: true,
        ..News::default()
    };
    let lost = News {
        lost: true,
        ..News::default()
    };
    let tunnel = |index| News {
        there: [(index, format!("vxlan{index}"))].into(),
        tunnels: [index].into(),
        ..News::default()
    };
    let rules = |table| News {
        rule_tables: [254, table].into(),
        ..News::default()
    };
    for (news, named, expected) in [
        (pods, false, Heard::Nothing),
        (there(&[(2, "eth0")]), false, Heard::Something),
        (there(&[(7, "eth0")]), false, Heard::Links),
        (there(&[(2, "lan0")]), false, Heard::Links),
        (there(&[(3, "eth1")]), false, Heard::Links),
        (gone(&[2]), false, Heard::Links),
        (gone(&[3]), false, Heard::Nothing),
        (routes.clone(), false, Heard::Something),
        (routes, true, Heard::Nothing),
        (lost, true, Heard::Something),
        (tunnel(40), true, Heard::Something),
        (tunnel(41), true, Heard::Nothing),
        (gone(&[41]), true, Heard::Something),
        (rules(2), false, Heard::Nothing),
        (rules(3), false, Heard::Something),
        (rules(3), true, Heard::Nothing),
    ] {
        let named = if named {
            vec!["eth0".to_owned()]
        } else {
            Vec::new()
        };
        let mut lines = Lines::new(named);
        lines.speeds = [(eth0.clone(), None), (away.clone(), None)].into();
        lines.numbers = [(eth0.clone(), 2)].into();
        lines.tables = [2, 254].into();
        lines.tunnels = [(41, LinkData::TunnelPort(4789))].into();
        lines.hear(&news);
        assert_eq!(lines.heard, expected, "{news:?}");
    }
}

#[test]
fn changes_by_another_process_are_taken_at_most_twice_a_second() {
    let mut lines = Lines::new(Vec::new());
    lines.numbers = [("eth0".into(), 2)].into();
    let changed = |index| News {
        traffic_control: [index].into(),
        ..News::default()
    };
    lines.hear(&changed(3));
    assert_eq!(lines.change_due(), None);
    let mut taken = 0;
    let began = Instant::now();
    for milliseconds in 0..2000 {
        lines.hear(&changed(2));
        taken += u32::from(lines.take_change(began + Duration::from_millis(milliseconds)));
    }
    assert!((4..=5).contains(&taken), "{taken}");
}

#[test]
fn changed_lost_or_new_ifb_of_uplink_is_inspected() {
    let mut lines = Lines::new(Vec::new());
    lines.numbers = [("eth0".into(), 2)].into();
    let there = |index, name: &str| News {
        there: [(index, name.to_owned())].into(),
        ..News::default()
    };
    let gone = News {
        gone: [9].into(),
        ..News::default()
    };
    for (news, is_inspected) in [
        (there(9, "netqos-l2"), false),
        (there(9, "netqos-l2"), true),
        (there(8, "netqos-l3"), false),
        (there(8, "netqos-l3"), false),
        (there(9, "foo"), true),
        (gone.clone(), true),
        (gone, false),
    ] {
        lines.is_changed = false;
        lines.hear(&news);
        assert_eq!(lines.is_changed, is_inspected, "{news:?}");
    }
}

#[test]
fn a_speed_that_is_none_is_not_known() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("eth0")).unwrap();
    assert_eq!(speed(place.path(), "eth0"), None);
    for (text, megabits) in [
        ("1000\n", Some(1000)),
        ("-1\n", None),
        ("0\n", None),
        ("4294967295\n", None),
        ("fast\n", None),
    ] {
        fs::write(place.path().join("eth0/speed"), text).unwrap();
        let bits = speed(place.path(), "eth0").map(BitRate::bits_per_second);
        assert_eq!(bits, megabits.map(|it: u64| it * 1_000_000), "{text}");
    }
}

/// A macvlan's packets leave by its parent, whatever that is on.
#[test]
fn link_above_an_uplink_leads_to_it() {
    let links = [
        (2, "eth0", "", 0, 0),
        (3, "eth1", "", 9, 0),
        (4, "eth9", "", 0, 0),
        (5, "eth0.7", "vlan", 0, 2),
        (6, "bond0.8", "vlan", 0, 9),
        (7, "eth9.7", "vlan", 0, 4),
        (8, "veth1", "veth", 0, 2),
        (9, "bond0", "bond", 0, 0),
    ]
    .map(link);
    let mut lines = Lines::new(Vec::new());
    lines.numbers = [("eth0".into(), 2), ("bond0".into(), 9)].into();
    let lower = links.iter();
    lines.lower = lower
        .filter_map(|it| Some((it.index, super::lower(it)?)))
        .collect();
    for (index, leads) in [
        (2, true),
        (3, true),
        (5, true),
        (6, true),
        (4, false),
        (7, false),
        (8, false),
    ] {
        assert_eq!(lines.leads_to_uplink(index), leads, "{index}");
    }
    lines.lower = [(10, 11), (11, 10)].into();
    assert!(
        !lines.leads_to_uplink(10),
        "an index may be reused meanwhile"
    );
}
