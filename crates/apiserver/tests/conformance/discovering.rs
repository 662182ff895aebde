//! What a server says about itself.

use kube::discovery::{Discovery, Scope, verbs};
use serde_json::json;

use crate::setting::*;

pub async fn a_client_finds_every_resource(setting: &Setting<'_>) {
    let widgets = setting.widgets(anything()).await;
    let (group, _) = group_and_version(&widgets);
    let plain = Discovery::new(setting.client.clone()).run().await.unwrap();
    let aggregated = Discovery::new(setting.client.clone());
    let aggregated = aggregated.run_aggregated().await.unwrap();
    for found in [plain, aggregated] {
        for (group, kind, plural, scope) in [
            ("", "Pod", "pods", Scope::Namespaced),
            ("", "Node", "nodes", Scope::Cluster),
            ("apps", "DaemonSet", "daemonsets", Scope::Namespaced),
            ("coordination.k8s.io", "Lease", "leases", Scope::Namespaced),
            (&group, "Widget", "widgets", Scope::Namespaced),
        ] {
            let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
            let (resource, capabilities) = found.resolve_gvk(&gvk).expect(kind);
            assert_eq!(resource.plural, plural);
            assert_eq!(capabilities.scope, scope, "{kind}");
            assert!(capabilities.supports_operation(verbs::WATCH));
        }
    }
    let version = setting.client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
}

pub async fn a_path_behind_which_nothing_is_is_not_found(setting: &Setting<'_>) {
    let api = setting.config_maps();
    create(&api, &mk_config_map("a", json!({}), json!({}))).await;
    let no_status = format!("{}/a/status", api.resource_url());
    for path in [
        &no_status,
        "/apis/nobody.example.com",
        "/apis/nobody.example.com/v1/widgets",
        "/apis/apps/v1/widgets",
    ] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let status = refusal(setting.client.request_text(request).await);
        assert_eq!(status.code, 404, "{path}");
    }
}
