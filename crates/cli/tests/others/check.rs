//! `netqos check`: what the node can do, and what is in force on it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use netqos_testkit::{Call, foreign_map, run_lacking, run_refusing, run_without};
use serde_json::{Value, json};

use crate::{assert_code, bandwidth, netqos, node, run, run_as_nobody, stdout};

fn report() -> Value {
    let output = netqos().args(["check", "-o", "json"]).output().unwrap();
    assert_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn says_how_limits_are_held() {
    let Some(_node) = node() else { return };
    let report = report();
    assert_eq!(report["mode"], "ranked-by-clsact", "{report}");
    let features = report["features"].as_array().unwrap();
    // This kernel itself may have no fq_codel.
    let mut needed = features
        .iter()
        .filter(|feature| feature["feature"] != "qdisc fq_codel");
    assert!(
        needed.all(|feature| feature["works"] == true),
        "{features:?}"
    );
    assert_eq!(report["attachments"], Value::Array(Vec::new()));
}

/// The programs are refused, since a map that is not theirs has their map's name.
#[test]
fn asks_a_kernel_again_that_refused_the_programs() {
    let Some(_node) = node() else { return };
    let (pins, refusal) = ("/sys/fs/bpf/netqos", "/run/netqos/programs-refused.json");
    fs::create_dir_all(format!("{pins}/v1")).unwrap();
    foreign_map(Path::new(pins).join("v1/flows")).unwrap();
    let refused = report();
    assert_eq!(refused["mode"], "plain", "{refused}");
    let features = refused["features"].as_array().unwrap();
    let programs = features
        .iter()
        .find(|found| found["feature"] == "eBPF programs")
        .unwrap();
    let why = programs["why"].as_str().unwrap();
    assert!(why.contains("cannot load the eBPF programs"), "{why}");
    assert!(Path::new(refusal).exists());

    fs::remove_dir_all(pins).unwrap();
    let report = report();
    assert_eq!(report["mode"], "ranked-by-clsact", "{report}");
    assert!(!Path::new(refusal).exists());
}

#[test]
fn without_root_says_what_to_do() {
    let output = run_as_nobody(&["check"]);
    assert_code(&output, 3);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("run it as root"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn shows_what_an_add_has_made_and_how_it_is_attached() {
    let plugin = bandwidth();
    let Some(node) = node() else { return };
    let pod = node.pod("a").unwrap();
    for (hook, egress, link) in [
        ("clsact", "pod", "eth0".to_owned()),
        ("tcx", "pod", "eth0".to_owned()),
        ("none", "pod", "eth0".to_owned()),
        ("tcx", "ifb", netqos_api::ifb_name("net", "a")),
    ] {
        let config = json!({
            "cniVersion": "1.0.0", "name": "net", "type": "bandwidth",
            "hook": hook, "egress": egress,
            "runtimeConfig": {"bandwidth": {
                "ingressRate": 10_000_000, "ingressBurst": 4_294_967_295_u32,
                "egressRate": 20_000_000, "egressBurst": 4_294_967_295_u32,
            }},
            "prevResult": {"cniVersion": "1.0.0", "interfaces": [
                {"name": pod.host_link()}, {"name": "eth0", "sandbox": pod.netns()},
            ]},
        });
        Call::of(&plugin, "ADD", &pod, &config).succeed().unwrap();
        let mut queues = json!([
            {"direction": "ingress", "link": "veth-a", "hook": hook},
            {"direction": "egress", "link": link, "hook": hook},
        ]);
        if hook == "none" {
            for queue in queues.as_array_mut().unwrap() {
                queue["unrankedBecause"] = "it was asked not to be".into();
            }
        }
        let shown = report();
        assert_eq!(
            shown["attachments"],
            json!([{
                "attachment": {"network": "net", "container": "a", "interface": "eth0"},
                "limits": {"ingress": {"rate": 10_000_000}, "egress": {"rate": 20_000_000}},
                "queues": queues,
            }]),
            "{hook}, {egress}"
        );
        let table = stdout(&run(&["check"]));
        let held_by = match hook {
            "none" => "veth-a (plain: it was asked not to be)".to_owned(),
            _ => format!("veth-a ({hook}), {link} ({hook})"),
        };
        for words in ["10 Mbit/s", "20 Mbit/s", &held_by] {
            assert!(table.contains(words), "{words}: {table}");
        }
        Call::of(&plugin, "DEL", &pod, &config).succeed().unwrap();
        assert_eq!(report()["attachments"], json!([]), "{hook}, {egress}");
    }
}

const CLASS_REDIRECT: &str = "filter bpf with action mirred";

/// The kernel is the one that the tests run on, asked for names that it does not know.
#[test]
fn names_what_a_kernel_lacks_with_what_to_do() {
    let Some(_node) = node() else { return };
    let (both, by_tc) = (&["kernel", "tc"][..], &["tc"][..]);
    for (lacking, code, mode, backends, feature, words, remedy) in [
        (
            "tbf",
            1,
            "none",
            both,
            "qdisc tbf",
            "Specified qdisc kind is unknown",
            "sch_tbf",
        ),
        (
            "pfifo_fast",
            0,
            "plain",
            both,
            "qdisc pfifo_fast",
            "Specified qdisc kind is unknown",
            "CONFIG_NET_SCHED",
        ),
        (
            "clsact",
            0,
            "plain",
            by_tc,
            "qdisc clsact",
            "Specified qdisc kind is unknown",
            "sch_ingress",
        ),
        (
            "bpf",
            0,
            "plain",
            by_tc,
            "filter bpf",
            "TC classifier not found",
            "cls_bpf",
        ),
        (
            "ifb",
            0,
            "ranked-by-clsact",
            by_tc,
            "link ifb",
            "Unknown device type",
            "module ifb",
        ),
        (
            "veth",
            0,
            "ranked-by-clsact",
            both,
            "link veth",
            "Unknown device type",
            "module veth",
        ),
        (
            "u32",
            0,
            "ranked-by-clsact",
            both,
            "filter u32 with action mirred",
            "TC classifier not found",
            "cls_u32",
        ),
        (
            "mirred",
            0,
            "ranked-by-clsact",
            by_tc,
            "filter u32 with action mirred",
            "Failed to load TC action module",
            "act_mirred",
        ),
        (
            "htb",
            1,
            "ranked-by-clsact",
            &[],
            "qdisc htb",
            "Specified qdisc kind is unknown",
            "sch_htb",
        ),
        (
            "fq_codel",
            0,
            "ranked-by-clsact",
            both,
            "qdisc fq_codel",
            "Specified qdisc kind is unknown",
            "sch_fq_codel",
        ),
    ] {
        let mut command = netqos();
        let outcome = run_without(command.args(["check", "-o", "json"]), &[lacking]).unwrap();
        assert_eq!(outcome.code, Some(code), "{lacking}: {outcome:?}");
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["mode"], mode, "{lacking}: {report}");
        let features = report["features"].as_array().unwrap();
        let found = features
            .iter()
            .find(|found| found["feature"] == feature)
            .unwrap();
        assert_eq!(found["works"], false, "{found}");
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        assert!(text("why").contains(words), "{found}");
        assert!(text("remedy").contains(remedy), "{found}");
        assert_eq!(report["classBackends"], json!(backends), "{lacking}");
        // What cannot work without it names it, and says nothing to do about itself.
        // This kernel itself may have no fq_codel.
        for other in features
            .iter()
            .filter(|it| it["works"] == false && *it != found && it["feature"] != "qdisc fq_codel")
        {
            if other["feature"] == CLASS_REDIRECT && ["bpf", "mirred"].contains(&lacking) {
                // It uses them itself.
                let why = other["why"].as_str().unwrap();
                assert!(why.contains(words), "{other}");
                continue;
            }
            assert_eq!(other["why"], format!("it needs {feature}"), "{other}");
            assert_eq!(other["remedy"], Value::Null, "{other}");
        }

        let mut command = netqos();
        let outcome = run_without(command.arg("check"), &[lacking]).unwrap();
        assert_eq!(outcome.code, Some(code), "{lacking}: {outcome:?}");
        let line = outcome
            .stdout
            .lines()
            .find(|line| line.contains(feature))
            .unwrap();
        for part in ["MISSING", words, remedy] {
            assert!(line.contains(part), "{part}: {}", outcome.stdout);
        }
        let nothing_holds = "limits cannot be held on this kernel";
        assert_eq!(
            outcome.stdout.contains(nothing_holds),
            mode == "none",
            "{outcome:?}"
        );
        let nothing_divides = "lines cannot be divided among classes on this kernel";
        assert_eq!(
            outcome.stdout.contains(nothing_divides),
            lacking == "htb",
            "{outcome:?}"
        );
    }
}

#[test]
fn executables_of_tc_not_in_path_are_named() {
    let Some(_node) = node() else { return };
    let names = [
        "ipset",
        "iptables",
        "iptables-restore",
        "ip6tables",
        "ip6tables-restore",
    ];
    let check = |arguments: &[&str]| {
        let mut command = netqos();
        let output = command
            .env("PATH", "/nowhere")
            .args(arguments)
            .output()
            .unwrap();
        assert_code(&output, 0);
        stdout(&output)
    };
    let report: Value = serde_json::from_str(&check(&["check", "-o", "json"])).unwrap();
    assert_eq!(report["missingExecutables"], json!(names), "{report}");
    let table = check(&["check"]);
    let line = table
        .lines()
        .find(|line| line.contains("the backend tc also needs"));
    assert!(line.unwrap().contains(&names.join(", ")), "{table}");
}

/// The executable answers as that of ipset does where the module ip_set is missing (7.17).
#[test]
fn kernel_without_ipsets_cannot_have_backend_tc() {
    let Some(_node) = node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let ipset = directory.path().join("ipset");
    let text =
        "#!/bin/sh\necho 'ipset v7.17: Kernel error received: Invalid argument' >&2\nexit 1\n";
    fs::write(&ipset, text).unwrap();
    fs::set_permissions(&ipset, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}",
        directory.path().display(),
        std::env::var("PATH").unwrap()
    );
    let output = netqos()
        .env("PATH", path)
        .args(["check", "-o", "json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["classBackends"], json!(["kernel"]), "{report}");
    let features = report["features"].as_array().unwrap();
    let sets = features
        .iter()
        .find(|it| it["feature"] == "ipsets and iptables")
        .unwrap();
    assert_eq!(sets["works"], false);
    assert!(
        sets["why"]
            .as_str()
            .unwrap()
            .contains("Kernel error received"),
        "{sets}"
    );
    assert!(
        sets["remedy"].as_str().unwrap().contains("ip_set_hash_net"),
        "{sets}"
    );
}

/// The verifier is that of the kernel that the tests run on, and gets a program that it refuses.
#[test]
fn program_refused_by_verifier_is_named() {
    let Some(_node) = node() else { return };
    let (all, by_tc) = (&["kernel", "tc"][..], &["tc"][..]);
    for (program, code, feature, rules, backends) in [
        ("netqos_rules", 1, "programs of rules", false, all),
        ("netqos_return", 1, "programs of rules", false, all),
        ("netqos_class_eg", 0, "programs of classes", true, by_tc),
        // Programs on hooks of tcx, each for one limit, endpoint or pod.
        ("netqos_0001", 0, "tcx hooks", true, all),
        ("netqos_rule0001", 0, "tcx hooks", true, all),
        ("netqos_stamp001", 0, "programs of classes", true, by_tc),
    ] {
        let mut command = netqos();
        let outcome = run_refusing(command.args(["check", "-o", "json"]), &[program]).unwrap();
        assert_eq!(outcome.code, Some(code), "{program}: {outcome:?}");
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["rules"], rules, "{program}: {report}");
        assert_eq!(report["classBackends"], json!(backends), "{program}");
        let features = report["features"].as_array().unwrap();
        let found = features.iter().find(|found| found["feature"] == feature);
        let found = found.unwrap();
        assert_eq!(found["works"], false, "{program}: {found}");
        // Whether it is asked for its log, or not.
        let why = found["why"].as_str().unwrap();
        let is_verifiers = why.contains("unknown opcode ff") || why.contains("Invalid argument");
        assert!(is_verifiers, "{program}: {why}");
        assert!(found["remedy"].is_string(), "{program}: {found}");
    }
    let mut command = netqos();
    let outcome = run_refusing(command.arg("check"), &["netqos_rules"]).unwrap();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let sentence = "rules cannot be enforced on this kernel: traffic passes as if there were none";
    assert!(outcome.stdout.contains(sentence), "{}", outcome.stdout);
}

#[test]
fn rules_without_hook_are_not_enforced() {
    let Some(_node) = node() else { return };
    for (kinds, programs, rules) in [
        (&["clsact"][..], &[][..], true),
        (&[], &["netqos_0001"], true),
        (&["clsact"], &["netqos_0001"], false),
        (&["bpf"], &["netqos_0001"], false),
    ] {
        let mut command = netqos();
        let outcome = run_lacking(command.args(["check", "-o", "json"]), kinds, programs).unwrap();
        assert_eq!(
            outcome.code,
            Some(i32::from(!rules)),
            "{kinds:?}: {outcome:?}"
        );
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(report["rules"], rules, "{kinds:?} {programs:?}: {report}");
    }
}

#[test]
fn runtime_that_passes_no_limit_is_a_finding_with_a_remedy() {
    let Some(_node) = node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let list = |text: &str| fs::write(directory.path().join("10-net.conflist"), text).unwrap();
    let dir = directory.path().to_str().unwrap();
    list(
        r#"{"cniVersion": "1.0.0", "name": "net", "plugins": [
            {"type": "bandwidth", "capabilities": {"trafficShaping": true}}]}"#,
    );
    let without = run(&["check"]);
    let output = run(&["check", "--cni-conf-dir", dir]);
    let said = stdout(&output);
    assert!(said.contains("! limits by CNI: plugin bandwidth of list net declares trafficShaping"));
    assert!(
        said.contains(r#"→ add "capabilities": {"bandwidth": true}"#),
        "{said}"
    );
    assert_eq!(output.status.code(), without.status.code(), "{said}");
    // No pod starts with it.
    list("{");
    let output = run(&["check", "--cni-conf-dir", dir, "-o", "json"]);
    assert_code(&output, 1);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["cni"]["checks"][0]["state"], "failed", "{report}");
}
