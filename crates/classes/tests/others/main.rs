//! What terway-qos is told, byte for byte, and what is said of what it would not follow.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use netqos_classes::{ClassBackend, Outcome, TerwayQos};
use netqos_core::classes::{
    Ask, Asked, ClassPlan, ClassedPod, FlowMatch, FlowPart, LineShares, Place, Share, Shares,
    TrafficClass,
};
use netqos_core::{BitRate, Direction, ObjectName, PodId};
use tempfile::TempDir;

const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

fn shares(total: u64, l1: (u64, u64), l2: (u64, u64)) -> Shares {
    let share = |(min, max)| Share {
        min: mbit(min),
        max: mbit(max),
    };
    Shares::try_new(mbit(total), share(l1), share(l2)).unwrap()
}

fn pod(name: &str, class: TrafficClass, cgroup: &str, ingress: Ask, egress: Ask) -> ClassedPod {
    ClassedPod {
        id: PodId {
            name: ObjectName::new("games", name),
            uid: format!("uid-{name}").into(),
        },
        class,
        place: Place {
            host_network: false,
            addresses: BTreeSet::from(["10.0.0.9".parse().unwrap()]),
            host_links: BTreeSet::new(),
            cgroup: (!cgroup.is_empty()).then(|| cgroup.into()),
        },
        asked: Asked { ingress, egress },
        flows: Vec::new(),
    }
}

fn plan(lines: &[(&str, LineShares)], pods: Vec<ClassedPod>) -> ClassPlan {
    ClassPlan {
        lines: lines
            .iter()
            .map(|(name, line)| ((*name).into(), *line))
            .collect(),
        pods: pods
            .into_iter()
            .map(|pod| (pod.id.uid.clone(), pod))
            .collect(),
    }
}

fn most(megabits: u64) -> Ask {
    Ask {
        min: mbit(0),
        max: Some(mbit(megabits)),
    }
}

/// The folders of a node on which terway-qos is.
fn node() -> (TempDir, TerwayQos) {
    let folder = tempfile::tempdir().unwrap();
    let terway = folder.path().join("terway");
    fs::create_dir(&terway).unwrap();
    let backend = TerwayQos::new(terway, folder.path().join("run/koordinator/net"));
    (folder, backend)
}

fn text(folder: &TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

fn said(outcome: &Outcome) -> Vec<&str> {
    outcome
        .troubles
        .iter()
        .map(|trouble| &*trouble.what)
        .collect()
}

#[test]
fn what_it_takes_is_written_as_koordinator_writes_it() {
    let (folder, mut backend) = node();
    let line = LineShares {
        egress: shares(1000, (300, 600), (200, 400)),
        ingress: shares(800, (100, 400), (80, 400)),
    };
    let (ls, be) = (TrafficClass::LatencySensitive, TrafficClass::BestEffort);
    let pods = vec![
        pod("b", be, "/kubepods/besteffort/podb", most(80), most(16)),
        pod("a", ls, "/kubepods/poda", Ask::default(), Ask::default()),
    ];
    let outcome = backend.apply(&plan(&[("eth0", line)], pods)).unwrap();
    assert_eq!((said(&outcome), outcome.changes), (vec![], 5));
    let global = "hw_tx_bps_max 125000000\nhw_rx_bps_max 100000000\n\
        offline_l1_tx_bps_min 37500000\noffline_l1_tx_bps_max 75000000\n\
        offline_l1_rx_bps_min 12500000\noffline_l1_rx_bps_max 50000000\n\
        offline_l2_tx_bps_min 25000000\noffline_l2_tx_bps_max 50000000\n\
        offline_l2_rx_bps_min 10000000\noffline_l2_rx_bps_max 50000000\n";
    assert_eq!(text(&folder, "terway/global_bps_config"), global);
    let pod_json = r#"{"uid-a":{"podName":"a","podNamespace":"games","podUID":"uid-a","prio":1,"cgroupDir":"/sys/fs/cgroup/net_cls/kubepods/poda","qosConfig":{"ingressBandwidth":0,"egressBandwidth":0}},"uid-b":{"podName":"b","podNamespace":"games","podUID":"uid-b","prio":2,"cgroupDir":"/sys/fs/cgroup/net_cls/kubepods/besteffort/podb","qosConfig":{"ingressBandwidth":10000000,"egressBandwidth":2000000}}}"#;
    assert_eq!(text(&folder, "terway/pod.json"), pod_json);
    let cgroups =
        "/sys/fs/cgroup/net_cls/kubepods/besteffort/podb rx_bps=10000000 tx_bps=2000000\n";
    assert_eq!(text(&folder, "terway/per_cgroup_bps_limit"), cgroups);
    let net_pods = concat!(
        "[\n",
        r#"{"cgroup":"/sys/fs/cgroup/net_cls/kubepods/poda","pod":"games/a","podUID":"uid-a","priority":1,"qos-config":{}}"#,
        ",\n",
        r#"{"cgroup":"/sys/fs/cgroup/net_cls/kubepods/besteffort/podb","pod":"games/b","podUID":"uid-b","priority":2,"qos-config":{"egress":[{"actions":[{"action":"bandwidth_max","value":"2000000"}],"matchs":[]}],"ingress":[{"actions":[{"action":"bandwidth_max","value":"10000000"}],"matchs":[]}]}}"#,
        "\n]\n"
    );
    assert_eq!(text(&folder, "run/koordinator/net/pods"), net_pods);
    assert!(text(&folder, "run/koordinator/net/node").contains("\"hw_tx_bps_max\": 125000000"));

    // Without a line nobody is held back: terway-qos keeps what it has of a file that is gone.
    backend.apply(&ClassPlan::default()).unwrap();
    let global = text(&folder, "terway/global_bps_config");
    assert_eq!(global.lines().count(), 10);
    assert!(global.lines().all(|line| line.ends_with(" 0")), "{global}");
    assert_eq!(text(&folder, "terway/pod.json"), "{}");
    assert_eq!(text(&folder, "terway/per_cgroup_bps_limit"), "");
}

#[test]
fn what_it_would_refuse_or_not_do_is_said() {
    let (folder, mut backend) = node();
    let all = shares(1000, (300, 1000), (300, 1000));
    let open = shares(1000, (0, 400), (0, 600));
    let line = LineShares {
        egress: all,
        ingress: open,
    };
    let ask = Ask {
        min: mbit(10),
        max: Some(mbit(4)),
    };
    let mut greedy = pod(
        "a",
        TrafficClass::System,
        "/kubepods/a",
        Ask::default(),
        ask,
    );
    greedy.flows.push(FlowPart {
        direction: Direction::Egress,
        flow: FlowMatch::default(),
        class: None,
        ask,
        dscp: None,
    });
    let lost = pod(
        "b",
        TrafficClass::BestEffort,
        "",
        Ask::default(),
        Ask::default(),
    );
    let plan = plan(&[("eth0", line)], vec![greedy, lost]);
    let outcome = backend.apply(&plan).unwrap();
    let expected = [
        "egress: terway-qos refuses limits of latency-sensitive and best-effort that are more than \
         the line together: latency-sensitive is held to 700 Mbit/s and not to 1 Gbit/s",
        "egress: terway-qos refuses limits of latency-sensitive and best-effort that are more than \
         the line together: best-effort is held to 300 Mbit/s and not to 1 Gbit/s",
        "games/b: its cgroup is not known, by which terway-qos knows a pod",
        "games/a: egress: terway-qos guarantees nothing to single pods, and 10 Mbit/s were asked for",
        "games/a: egress: terway-qos takes a limit of 4 Mbit/s for none: it knows none below 8 Mbit/s",
        "games/a: terway-qos has no parts of single flows",
    ];
    assert_eq!(said(&outcome), expected);
    assert_eq!(outcome.lines, ["eth0".into()]);
    // Who follows the proposal is told all of it.
    assert!(text(&folder, "run/koordinator/net/node").contains("\"l2_tx_bps_max\": 125000000"));
    assert!(text(&folder, "run/koordinator/net/pods").contains("uid-b"));
}

#[test]
fn several_lines_are_counted_together() {
    let (folder, mut backend) = node();
    let line = |total| {
        let shares = shares(total, (total / 4, total / 2), (total / 4, total / 2));
        LineShares {
            ingress: shares,
            egress: shares,
        }
    };
    let plan = plan(&[("eth0", line(1000)), ("eth1", line(200))], vec![]);
    let outcome = backend.apply(&plan).unwrap();
    let what = "terway-qos counts all lines together: a class is guaranteed its part of what eth0 and \
                eth1 carry in all, and not of each";
    assert_eq!(said(&outcome), [what]);
    let global = text(&folder, "terway/global_bps_config");
    assert!(global.starts_with("hw_tx_bps_max 150000000\n"), "{global}");
    assert!(
        global.contains("offline_l2_tx_bps_min 37500000\n"),
        "{global}"
    );
}

#[test]
fn where_terway_qos_is_not_there_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let terway = folder.path().join("terway");
    let mut backend = TerwayQos::new(&terway, folder.path().join("net"));
    let error = backend
        .apply(&ClassPlan::default())
        .unwrap_err()
        .to_string();
    let what = "is not there, and so neither is terway-qos, which reads there; where the agent \
                runs in a container, it has to be mounted (agent.classBackends of the chart)";
    assert_eq!(error, format!("{}: {what}", terway.display()));
    assert_eq!(backend.standing().unwrap(), BTreeMap::new());
    backend.teardown().unwrap();
    assert!(!terway.exists());
}

/// koordlet writes files of the same names.
#[test]
fn what_somebody_else_wrote_stays_when_it_leaves() {
    let (folder, mut backend) = node();
    let theirs = |name: &str| fs::write(folder.path().join("terway").join(name), "theirs").unwrap();
    let there = || {
        let files = fs::read_dir(folder.path().join("terway")).unwrap();
        let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    // It never wrote anything.
    theirs("pod.json");
    backend.teardown().unwrap();
    assert_eq!(there(), ["pod.json"]);
    let plan = plan(&[("eth0", both_ways())], vec![]);
    backend.apply(&plan).unwrap();
    theirs("global_bps_config");
    // As another process does.
    TerwayQos::new(folder.path().join("terway"), folder.path().join("net"))
        .teardown()
        .unwrap();
    assert_eq!(there(), ["global_bps_config"]);
    assert_eq!(text(&folder, "terway/global_bps_config"), "theirs");
}

fn both_ways() -> LineShares {
    let shares = shares(100, (10, 50), (10, 50));
    LineShares {
        ingress: shares,
        egress: shares,
    }
}

#[test]
fn what_nobody_can_read_is_an_error_and_written_anew() {
    let (folder, mut backend) = node();
    let plan = plan(&[("eth0", both_ways())], vec![]);
    backend.apply(&plan).unwrap();
    for (file, text) in [
        ("global_bps_config", "hw_tx_bps_max many\n"),
        ("pod.json", "["),
    ] {
        let path = folder.path().join("terway").join(file);
        fs::write(&path, text).unwrap();
        let error = backend.standing().unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
        assert_eq!(backend.apply(&plan).unwrap().changes, 1);
    }
    // The proposal's folder cannot be made: terway-qos is told all the same.
    let other = folder.path().join("run");
    fs::remove_dir_all(&other).unwrap();
    fs::write(&other, "a file").unwrap();
    let outcome = backend.apply(&plan).unwrap();
    let said = said(&outcome);
    assert!(
        matches!(said[..], [what] if what.contains("run/koordinator/net")),
        "{said:?}"
    );
    assert!(Path::new(&other).is_file());
}
