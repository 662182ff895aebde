use serde_json::json;

use crate::stage::{Stage, pod, run};

const PODS: &str = "/api/v1/namespaces/games/pods";

#[test]
fn and_the_pod_is_made() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let bad = json!({
            "kubernetes.io/egress-bandwidth": "10Mbit",
            "netqos.io/ingress-latency": "25ms",
        });
        let said = stage.post(PODS, &pod("a", bad.clone())).await;
        assert_eq!((said.status, said.warnings.len()), (201, 2), "{said:?}");
        let [first, second] = &said.warnings[..] else {
            panic!()
        };
        let says =
            "annotation kubernetes.io/egress-bandwidth: \\\"10Mbit\\\": quantities must match";
        assert!(first.contains(says), "{first}");
        let says =
            "the container runtime will not start this pod; write bits per second like \\\"10M\\\"";
        assert!(first.contains(says), "{first}");
        let says = "has no effect without a bandwidth in the same direction";
        assert!(second.contains(says), "{second}");
        // Written again unchanged it is said no more, and changed it is.
        let path = format!("{PODS}/a");
        let said = stage
            .merge(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
            .await;
        assert_eq!((said.status, said.warnings.len()), (200, 0), "{said:?}");
        let change = json!({"metadata": {"annotations": {"netqos.io/ingress-latency": null}}});
        let said = stage.merge(&path, &change).await;
        assert_eq!((said.status, said.warnings.len()), (200, 1), "{said:?}");
        // The runtime has started it: an agent keeps its limit.
        // The server may try a patch first on the object that its cache still has; the warnings of both tries come.
        let change = json!({"metadata": {"annotations": {
            "kubernetes.io/egress-bandwidth": "20Mbit",
            "netqos.io/ingress-latency": null,
        }}});
        let said = stage.merge(&path, &change).await;
        assert_eq!((said.status, said.warnings.len()), (200, 1), "{said:?}");
        let says = "netqos keeps the last valid limit of this direction: annotation";
        assert!(said.warnings[0].contains(says), "{said:?}");
        // Who is right hears nothing.
        let good = json!({"kubernetes.io/egress-bandwidth": "10M"});
        let said = stage.post(PODS, &pod("b", good)).await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        // Nobody sees what is said to a pod that something else makes.
        let template = json!({
            "metadata": {"labels": {"a": "b"}, "annotations": bad},
            "spec": {
                "restartPolicy": "Always",
                "containers": [{"name": "c", "image": "registry.example/c"}]
            },
        });
        let mut once = template.clone();
        once["spec"]["restartPolicy"] = "Never".into();
        let selects = json!({"matchLabels": {"a": "b"}});
        let of_apps = json!({"selector": selects, "template": template});
        let every_hour = json!({
            "schedule": "0 * * * *", "jobTemplate": {"spec": {"template": once}}
        });
        for (api_version, kind, plural, spec) in [
            ("apps/v1", "Deployment", "deployments", of_apps.clone()),
            ("apps/v1", "DaemonSet", "daemonsets", of_apps.clone()),
            ("apps/v1", "StatefulSet", "statefulsets", of_apps.clone()),
            ("apps/v1", "ReplicaSet", "replicasets", of_apps),
            (
                "v1",
                "ReplicationController",
                "replicationcontrollers",
                json!({"template": template}),
            ),
            ("batch/v1", "Job", "jobs", json!({"template": once})),
            ("batch/v1", "CronJob", "cronjobs", every_hour),
        ] {
            let object = json!({
                "apiVersion": api_version, "kind": kind, "metadata": {"name": "d"}, "spec": spec,
            });
            let root = if api_version == "v1" { "api" } else { "apis" };
            let path = format!("/{root}/{api_version}/namespaces/games/{plural}");
            let said = stage.post(&path, &object).await;
            assert_eq!(
                (said.status, said.warnings.len()),
                (201, 2),
                "{kind}: {said:?}"
            );
            let says = "the container runtime will not start pods of this template; write ";
            assert!(said.warnings[0].contains(says), "{kind}: {said:?}");
        }
        webhook.stop().await;
    });
}

#[test]
fn wrong_class_and_limit_in_the_wrong_place_are_warnings_too() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let labelled = |class: &str| {
            let mut pod = pod(
                &format!("l{}", class.to_lowercase()),
                json!({"kubernetes.io/ingress-bandwith": "10M"}),
            );
            pod["metadata"]["labels"] = json!({"koordinator.sh/qosClass": class});
            pod
        };
        let misspelt = "metadata.annotations[kubernetes.io/ingress-bandwith]: nothing reads this, and it limits nothing; \
                        write kubernetes.io/ingress-bandwidth";
        let said = stage.post(PODS, &labelled("be")).await;
        let [first, second] = &said.warnings[..] else {
            panic!("{said:?}")
        };
        assert!(first.contains(misspelt), "{first}");
        assert!(
            second.contains("netqos does not follow this: ")
                && second.contains("write SYSTEM, LSE"),
            "{second}"
        );
        let said = stage.post(PODS, &labelled("BE")).await;
        assert!(
            said.warnings.len() == 1 && said.warnings[0].contains(misspelt),
            "{said:?}"
        );
        // Of the label alone.
        let mut only = labelled("ls");
        only["metadata"]["annotations"] = json!({});
        let said = stage.post(PODS, &only).await;
        assert_eq!(said.warnings.len(), 1, "{said:?}");
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "own", "annotations": {"kubernetes.io/egress-bandwidth": "10M"}},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]}
            }},
        });
        let path = "/apis/apps/v1/namespaces/games/deployments";
        let said = stage.post(path, &object).await;
        let says = "write kubernetes.io/egress-bandwidth in spec.template.metadata.annotations";
        assert!(
            said.warnings.len() == 1 && said.warnings[0].contains(says),
            "{said:?}"
        );
        // Unchanged it is said no more.
        let said = stage
            .merge(
                &format!("{path}/own"),
                &json!({"metadata": {"labels": {"a": "b"}}}),
            )
            .await;
        assert_eq!((said.status, said.warnings.len()), (200, 0), "{said:?}");
        webhook.stop().await;
    });
}

#[test]
fn or_where_that_is_asked_for_a_refusal() {
    run(async {
        let mut stage = Stage::new().await;
        stage.options.strict_annotations = true;
        let webhook = stage.start().await;
        let reach = netqos_admission::Reach::Url(format!("https://{}", webhook.address));
        let all: kube::Api<_> = kube::Api::all(stage.client.clone());
        let configuration = netqos_admission::validating(&stage.options, &reach).unwrap();
        all.create(&Default::default(), &configuration)
            .await
            .unwrap();
        let bad = pod("a", json!({"kubernetes.io/egress-bandwidth": "x"}));
        let dry = format!("{PODS}?dryRun=All");
        let mut said = stage.post(&dry, &bad).await;
        for _ in 0..200 {
            if said.status != 201 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            said = stage.post(&dry, &bad).await;
        }
        assert_eq!(said.status, 422, "{said:?}");
        let says = "admission webhook \"pods.netqos.io\" denied the request: Pod games/a is invalid: \
                    metadata.annotations: annotation kubernetes.io/egress-bandwidth: \"x\": ";
        assert!(said.message().starts_with(says), "{}", said.message());
        let says = "; the container runtime will not start this pod; write bits per second like";
        assert!(said.message().contains(says), "{}", said.message());
        webhook.stop().await;
    });
}
