//! The accounts, roles and admission policies that netqos ships.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netqos_k8s::NetworkQoSNodeReport;
use netqos_kubernetes::{Account, Lease};
use serde_json::json;

async fn config(lease: &Lease) -> kube::Config {
    let kubeconfig = Kubeconfig::from_yaml(&lease.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

/// The administrator, and the agent of `node1`; there is a `node2`, too.
async fn administrator_and_agent(lease: &Lease) -> (Client, Client) {
    let mut config = config(lease).await;
    let administrator = Client::try_from(config.clone()).unwrap();
    let nodes: Api<Node> = Api::all(administrator.clone());
    for name in ["node1", "node2"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let account = Account::Agent { node: "node1" };
    let token = account.token(&administrator).await.unwrap();
    config.auth_info.token = Some(token.into());
    (administrator, Client::try_from(config).unwrap())
}

#[tokio::test]
async fn agent_token_may_report_of_its_own_node_and_read_pods() {
    let lease = Lease::take().await.unwrap();
    let (administrator, agent) = administrator_and_agent(&lease).await;
    let reports: Api<NetworkQoSNodeReport> = Api::all(agent.clone());
    let report = |node: &str| {
        Patch::Apply(json!({
            "apiVersion": "netqos.io/v1alpha1",
            "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node},
            "agentVersion": "0.1.0",
            "policies": [],
            "problems": [],
        }))
    };
    let parameters = PatchParams::apply("netqos").force();
    reports
        .patch("node1", &parameters, &report("node1"))
        .await
        .unwrap();
    let refused = reports.patch("node2", &parameters, &report("node2")).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status.code, 403, "{status:?}");
    assert!(status.message.contains("own node alone"), "{status:?}");
    // The policy limits agents only.
    let all: Api<NetworkQoSNodeReport> = Api::all(administrator);
    all.patch("node2", &parameters, &report("node2"))
        .await
        .unwrap();

    let pods: Api<Pod> = Api::namespaced(agent, "default");
    pods.list(&ListParams::default()).await.unwrap();
    let deleted = pods.delete("any", &DeleteParams::default()).await;
    assert_eq!(code(deleted), 403);
    let delete = DeleteParams::default();
    assert_eq!(code(reports.delete("node1", &delete).await), 403);
}

#[tokio::test]
async fn agent_token_may_write_network_status_of_its_pods_and_nothing_else() {
    let lease = Lease::take().await.unwrap();
    let (administrator, agent) = administrator_and_agent(&lease).await;
    let all: Api<Pod> = Api::namespaced(administrator, "default");
    for (name, node) in [("here", "node1"), ("there", "node2")] {
        let pod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "labels": {"a": "1"}, "annotations": {"of-tenant": "1"},
                "finalizers": ["example.com/kept"],
            },
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        }));
        all.create(&PostParams::default(), &pod.unwrap())
            .await
            .unwrap();
    }
    let pods: Api<Pod> = Api::namespaced(agent, "default");
    let parameters = PatchParams::default();
    let status = |patch| {
        let (pods, parameters) = (&pods, &parameters);
        async move {
            pods.patch_status("here", parameters, &Patch::Merge(&patch))
                .await
        }
    };
    let annotation =
        |key: &str, value: serde_json::Value| json!({"metadata": {"annotations": {key: value}}});
    let own = "k8s.v1.cni.cncf.io/network-status";
    for permitted in [
        annotation(own, json!("[]")),
        annotation(own, json!("[{}]")),
        annotation("netqos.io/attachments", json!("1")),
        annotation(own, json!(null)),
    ] {
        status(permitted.clone())
            .await
            .unwrap_or_else(|why| panic!("{permitted}: {why}"));
    }
    for refused in [
        annotation("of-tenant", json!("2")),
        annotation("of-tenant", json!(null)),
        annotation("k8s.v1.cni.cncf.io/networks", json!("lan")),
        annotation("k8s.v1.cni.cncf.io/network-statuses", json!("[]")),
        annotation("kubernetes.io/ingress-bandwidth", json!("1M")),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": {"a": "2"}}}),
        json!({"metadata": {"labels": {"b": "1"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"status": {"phase": "Succeeded"}}),
        json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ] {
        let answer = status(refused.clone()).await;
        let Err(kube::Error::Api(why)) = &answer else {
            panic!("{refused}: {answer:?}");
        };
        assert_eq!(why.code, 403, "{refused}: {why:?}");
        assert!(why.message.contains("netqos-agent-pods"), "{why:?}");
    }
    // Of spec and owners, a patch of status takes nothing.
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"});
    let ignored =
        json!({"metadata": {"ownerReferences": [owner]}, "spec": {"activeDeadlineSeconds": 1}});
    let before = all.get("here").await.unwrap();
    let _ = status(ignored).await;
    let after = all.get("here").await.unwrap();
    assert_eq!(
        (before.spec, before.metadata.owner_references),
        (after.spec, after.metadata.owner_references)
    );

    let elsewhere = Patch::Merge(annotation(own, json!("[]")));
    let answer = pods.patch_status("there", &parameters, &elsewhere).await;
    assert_eq!(code(answer), 403);
    let whole = Patch::Merge(annotation(own, json!("[]")));
    assert_eq!(
        code(pods.patch("here", &parameters, &whole).await),
        403,
        "not by the pod itself"
    );
    // Others are not held to it.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "3"}}}));
    all.patch("here", &parameters, &label).await.unwrap();
}
