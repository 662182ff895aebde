use std::time::Instant;

use serde_json::{Value, json};

use crate::stage::{PATIENCE, Said, Stage, run};

const NADS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/games/network-attachment-definitions";
const POLICIES: &str = "/apis/netqos.io/v1alpha1/networkattachmentpolicies";
const FIRST: &str = "netqos-multinet attaches no pod to this network: no NetworkAttachmentPolicy for namespace games \
                     permits what it needs";

fn nad(name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name}, "spec": {"config": config.to_string()},
    })
}

async fn permit(stage: &Stage, name: &str, spec: Value) {
    let policy = json!({
        "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkAttachmentPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    let said = stage.post(POLICIES, &policy).await;
    assert_eq!(said.status, 201, "{said:?}");
}

/// Tries without writing until the number of warnings is this one: watches take their time.
async fn warned(stage: &Stage, nad: &Value, number: usize) -> Said {
    let began = Instant::now();
    loop {
        let said = stage.post(&format!("{NADS}?dryRun=All"), nad).await;
        assert_eq!(said.status, 201, "{said:?}");
        if said.warnings.len() == number {
            return said;
        }
        assert!(began.elapsed() < PATIENCE, "{said:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn nad_that_no_policy_permits_is_written_with_a_warning() {
    run(async {
        let stage = Stage::new().await;
        stage.cluster.define_nads().await.unwrap();
        let webhook = stage.start().await;
        stage.ask(&webhook).await;
        let lan = json!({"type": "macvlan", "master": "eth1", "ipam": {"type": "host-local", "dataDir": "/"}});
        let said = stage.post(NADS, &nad("lan", &lan)).await;
        assert_eq!((said.status, said.warnings.len()), (201, 5), "{said:?}");
        let needs = [
            FIRST,
            "plugin type \\\"macvlan\\\" is not permitted",
            "plugin type \\\"host-local\\\" is not permitted",
            "plugins[0].master: interface \\\"eth1\\\" is not permitted",
            "plugins[0].ipam.dataDir: path \\\"/\\\" is not permitted",
        ];
        for (warning, words) in said.warnings.iter().zip(needs) {
            assert!(warning.contains(words), "{warning}");
        }
        // Of an unchanged spec nothing is said again; a changed one is judged.
        let path = format!("{NADS}/lan");
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        let said = stage.merge(&path, &labels).await;
        assert_eq!((said.status, said.warnings.len()), (200, 0), "{said:?}");
        let changed = json!({"spec": {"config": json!({"type": "dummy"}).to_string()}});
        let said = stage.merge(&path, &changed).await;
        assert_eq!((said.status, said.warnings.len()), (200, 2), "{said:?}");

        permit(
            &stage,
            "lans",
            json!({"pluginTypes": ["macvlan", "host-local"], "masters": ["eth1"]}),
        )
        .await;
        let said = warned(&stage, &nad("b", &lan), 2).await;
        assert!(said.warnings[1].contains(needs[4]), "{said:?}");
        // Another namespace's policy permits nothing here, and several are united.
        let other = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
        permit(
            &stage,
            "others",
            json!({"namespaceSelector": other, "hostPaths": ["/"]}),
        )
        .await;
        permit(&stage, "dummies", json!({"pluginTypes": ["dummy"]})).await;
        warned(&stage, &nad("b", &json!({"type": "dummy"})), 0).await;
        warned(&stage, &nad("b", &lan), 2).await;
        let of_games = json!({"matchLabels": {"kubernetes.io/metadata.name": "games"}});
        permit(
            &stage,
            "paths",
            json!({"namespaceSelector": of_games, "hostPaths": ["/"]}),
        )
        .await;
        warned(&stage, &nad("b", &lan), 0).await;
        // A file on the nodes has the configuration.
        let on_disk = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "c"},
        });
        warned(&stage, &on_disk, 0).await;
        webhook.stop().await;
    });
}

#[test]
fn warnings_about_what_an_author_writes_are_bounded() {
    run(async {
        let stage = Stage::new().await;
        stage.cluster.define_nads().await.unwrap();
        let webhook = stage.start().await;
        stage.ask(&webhook).await;
        let mut config = json!({"type": "loopback"});
        for number in 0..10_000 {
            config[format!("key{number:05}\n\"\r{}", "x".repeat(40))] = 1.into();
        }
        let said = stage.post(NADS, &nad("many", &config)).await;
        assert_eq!((said.status, said.warnings.len()), (201, 7), "{said:?}");
        assert!(said.warnings[0].contains(FIRST), "{said:?}");
        assert!(
            said.warnings[2].contains("plugins[0].key00000\\\\n"),
            "{said:?}"
        );
        assert!(said.warnings[6].contains("and 9996 more"), "{said:?}");
        assert!(said.warnings.iter().all(|it| it.len() < 400), "{said:?}");

        let mut broken = nad("broken", &json!({}));
        broken["spec"]["config"] = "{".into();
        let said = stage.post(NADS, &broken).await;
        assert_eq!((said.status, said.warnings.len()), (201, 2), "{said:?}");
        assert!(
            said.warnings[1].contains("spec.config: not a CNI configuration in JSON"),
            "{said:?}"
        );
        webhook.stop().await;
    });
}
