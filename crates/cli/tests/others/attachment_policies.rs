//! `netqos analyze --attachment-policies`: of manifests, and of a cluster that the output is applied to.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use netqos_kubernetes::Binaries;
use serde_json::{Value, json};

use crate::world::World;
use crate::{assert_code, run, stderr, stdout};

/// Breaks out of a comment, a text or a document where these are not written with care.
const HOSTILE: &str = "x\n---\r\u{2028}\u{85}- a: *b # \"'{[|>\u{202e}";

fn nad(namespace: &str, name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"config": config.to_string()},
    })
}

fn pod(namespace: &str, name: &str, networks: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "annotations": {"k8s.v1.cni.cncf.io/networks": networks},
        },
    })
}

/// Runs the command about these manifests alone.
fn analyze(objects: &[Value], arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.yaml");
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(&file, texts.join("\n---\n")).unwrap();
    let file = file.display().to_string();
    let always = ["analyze", "--attachment-policies", "-f", &file];
    run(&[&always[..], arguments].concat())
}

fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(|it| !it.is_null()).collect()
}

#[test]
fn manifests_of_policies_permit_plain_names_and_comments_name_the_rest() {
    let output = analyze(
        &[
            nad(
                "games",
                "lan",
                &json!({"type": "macvlan", "master": "eth1"}),
            ),
            nad("games", "no", &json!({"type": "vlan", "master": "no"})),
            nad(
                "games",
                "file",
                &json!({"type": "dummy", "ipam": {"type": "host-local", "dataDir": "/"}}),
            ),
            pod("shop", "a", "games/lan"),
        ],
        &[],
    );
    assert_code(&output, 0);
    let text = stdout(&output);
    let (comments, policy) = text.split_once("apiVersion:").unwrap();
    let (_, comments) = comments.split_once("---\n").unwrap();
    let comments: Vec<&str> = comments.lines().collect();
    let [file, shop] = comments[..] else {
        panic!("{comments:?}")
    };
    let start = "# Read before: games/file is permitted as a whole, by digest ";
    let rest = file.strip_prefix(start).unwrap();
    let (digest, needs) = rest.split_at(64);
    assert_eq!(
        needs,
        r#": plugins[0].ipam.dataDir: path "/"; plugins[0].type: plugin type "dummy"; plugins[0].ipam.type: plugin type "host-local""#
    );
    assert_eq!(
        shop,
        "# Read before: pods of namespace shop may select each NAD: pod shop/a selects games/lan"
    );
    let expected = format!(
        r#" "netqos.io/v1alpha1"
kind: "NetworkAttachmentPolicy"
metadata:
  name: "nads.games"
spec:
  digests:
    - "{digest}"
  masters:
    - "eth1"
    - "no"
  namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: "games"
  openTo:
    matchExpressions:
      -
        key: "kubernetes.io/metadata.name"
        operator: "In"
        values:
          - "shop"
  pluginTypes:
    - "macvlan"
    - "vlan"
"#
    );
    assert_eq!(policy, expected);
    assert_eq!(
        stderr(&output),
        "netqos: 1 NetworkAttachmentPolicies; 0 NetworkAttachmentDefinitions that they do not permit\n"
    );
}

#[test]
fn texts_of_tenants_stay_in_comments_and_are_bounded() {
    let mut config = json!({"type": "macvlan", "master": "*"});
    for number in 0..10_000 {
        config[format!("{number} {HOSTILE}")] = HOSTILE.into();
    }
    let hidden = json!({"type": "macvlan", "master": HOSTILE, "ipam": {"type": "static"}});
    let output = analyze(
        &[
            nad(
                "games",
                "lan",
                &json!({"type": "macvlan", "master": "eth1"}),
            ),
            nad("games", HOSTILE, &config),
            nad("games", "hidden", &hidden),
            nad("games", "odd", &json!({"type": HOSTILE})),
            nad(HOSTILE, "lan", &hidden),
            nad("games", "refused", &json!({"type": format!("/{HOSTILE}")})),
            pod(HOSTILE, "a", "games/lan"),
            pod("shop", HOSTILE, "games/lan"),
        ],
        &[],
    );
    assert_code(&output, 1);
    let text = stdout(&output);
    assert!(
        text.bytes()
            .all(|it| it == b'\n' || (b' '..=b'~').contains(&it)),
        "{text}"
    );
    let (comments, yaml): (Vec<&str>, Vec<&str>) = text.lines().partition(|it| it.starts_with('#'));
    assert!(comments.iter().all(|it| it.len() < 2_000), "{comments:#?}");
    for words in [
        "and 9997 more",
        "games/hidden is permitted",
        "games/odd is permitted",
        "games/refused needs",
        "pod shop/x",
    ] {
        assert!(
            comments.iter().any(|it| it.contains(words)),
            "{words}: {comments:#?}"
        );
    }
    let documents = documents(&text);
    assert_eq!(documents, self::documents(&yaml.join("\n")));
    let [policy] = &documents[..] else {
        panic!("{documents:#?}")
    };
    let spec = &policy["spec"];
    assert_eq!(
        (&spec["masters"], &spec["pluginTypes"]),
        (&json!(["eth1"]), &json!(["macvlan"]))
    );
    assert_eq!(spec["digests"].as_array().unwrap().len(), 3);
    assert_eq!(
        spec["openTo"]["matchExpressions"][0]["values"],
        json!(["shop"])
    );
}

#[test]
fn json_has_policies_and_what_to_read_by_namespace() {
    let objects = [
        nad("games", "any", &json!({"type": "macvlan", "master": "*"})),
        nad("shop", "refused", &json!({"type": "multus"})),
    ];
    let output = analyze(&objects, &["-o", "json"]);
    assert_code(&output, 1);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let [games, shop] = &report["namespaces"].as_array().unwrap()[..] else {
        panic!("{report}")
    };
    assert_eq!(games["policies"][0]["metadata"]["name"], "nads.games");
    assert!(
        games["notes"][0]
            .as_str()
            .unwrap()
            .starts_with("games/any is permitted"),
        "{games}"
    );
    assert_eq!(
        (&shop["namespace"], &shop["policies"]),
        (&json!("shop"), &json!([]))
    );
    assert!(
        shop["notPermitted"][0]
            .as_str()
            .unwrap()
            .starts_with("shop/refused needs")
    );

    for arguments in [&["-o", "table"][..], &["--failure-threshold", "info"]] {
        let output = analyze(&objects, arguments);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), "")
        );
    }
    let only = stdout(&analyze(&objects, &["-n", "games", "--cluster=false"]));
    assert!(
        only.contains("nads.games") && !only.contains("shop"),
        "{only}"
    );
}

fn apply(world: &World, manifests: &str) {
    let mut kubectl = Command::new(Binaries::tool("kubectl").unwrap())
        .env("KUBECONFIG", world.kubeconfig())
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = kubectl.stdin.take().unwrap();
    input.write_all(manifests.as_bytes()).unwrap();
    drop(input);
    let output = kubectl.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn output_applied_to_the_cluster_permits_its_nads_and_no_others() {
    let world = World::new();
    let games = world.games.clone();
    // Where no such kind exists, there is nothing to permit, and nothing to say.
    let output = world.run(&["analyze", "-A", "--attachment-policies"]);
    assert_code(&output, 0);
    assert!(documents(&stdout(&output)).is_empty(), "{output:?}");
    let networks =
        json!({"k8s.v1.cni.cncf.io/networks": format!("{games}/lan,gone,{games}/x@y@z")});
    world.pod("a", "web", "10.0.0.1", &networks);
    assert_eq!(stdout(&world.run(&["analyze", "-n", &games])), "");

    world.define_nads();
    let put = |name: &str, config: &Value| {
        // The server reads an applied object as YAML, in which U+2028 and U+0085 end lines.
        let config = config.to_string();
        let ascii = config.chars().map(|it| match it.is_ascii() {
            true => it.to_string(),
            false => format!("\\u{:04x}", u32::from(it)),
        });
        let spec = json!({"spec": {"config": ascii.collect::<String>()}});
        world.put("NetworkAttachmentDefinition", &world.name(name), spec);
    };
    put(
        "lan",
        &json!({"type": "macvlan", "master": "eth1", "ipam": {"type": "static"}}),
    );
    put(
        "any",
        &json!({"type": "macvlan", "master": "*", HOSTILE: HOSTILE}),
    );
    put(
        "file",
        &json!({"type": "dummy", "ipam": {"type": "host-local", "dataDir": "/"}}),
    );
    let said = |code: &str| {
        let text = stdout(&world.run(&["analyze", "-n", &games]));
        text.lines().filter(|it| it.contains(code)).count()
    };
    assert_eq!(
        (said("NQOS0305"), said("NQOS0306"), said("NQOS0307")),
        (1, 0, 3)
    );
    let networks = json!({"k8s.v1.cni.cncf.io/networks": format!("{games}/lan,gone")});
    world.pod("a", "web", "10.0.0.1", &networks);
    assert_eq!(
        (said("NQOS0305"), said("NQOS0306"), said("NQOS0307")),
        (0, 1, 3)
    );

    let output = world.run(&["analyze", "-A", "--attachment-policies"]);
    assert_code(&output, 0);
    apply(&world, &stdout(&output));
    assert_eq!(said("NQOS0307"), 0);
    // It is the same with the policies there.
    assert_eq!(
        stdout(&world.run(&["analyze", "-A", "--attachment-policies"])),
        stdout(&output)
    );
    put(
        "any",
        &json!({"type": "macvlan", "master": "*", HOSTILE: "changed"}),
    );
    put("more", &json!({"type": "macvlan", "master": "eth2"}));
    assert_eq!(said("NQOS0307"), 2);
}
