use std::pin::pin;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchParams};
use serde_json::json;

use crate::fixture::{create, next, run};

#[test]
fn every_request_is_recorded_as_rbac_would_see_it() {
    run(async |behind| {
        let api = behind.of("agent").await;
        create(&api, "one").await;
        let parameters = ListParams::default().labels("a=b");
        api.list(&parameters).await.unwrap();
        api.get("one").await.unwrap();
        api.get_opt("none").await.unwrap();
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        let patched = PatchParams::default();
        api.patch("one", &patched, &patch).await.unwrap();
        let watch = api.watch(&WatchParams::default(), "0").await.unwrap();
        next(&mut pin!(watch)).await.unwrap().unwrap();
        api.delete("one", &DeleteParams::default()).await.unwrap();
        let requests = behind.front.requests();
        let told: Vec<_> = requests
            .iter()
            .map(|one| (one.verb, one.name.as_deref(), one.status))
            .collect();
        assert_eq!(
            told,
            [
                ("create", None, 201),
                ("list", None, 200),
                ("get", Some("one"), 200),
                ("get", Some("none"), 404),
                ("patch", Some("one"), 200),
                ("watch", None, 200),
                ("delete", Some("one"), 200),
            ]
        );
        for request in &requests {
            assert_eq!(request.client, "agent");
            assert_eq!(request.qualified_resource(), "configmaps");
            assert_eq!(request.namespace.as_ref(), Some(&behind.namespace));
        }
        assert_eq!(requests[1].label_selector.as_deref(), Some("a=b"));
        assert_eq!(requests.iter().filter(|one| one.is_write()).count(), 3);
        behind.front.forget_requests();
        assert!(behind.front.requests().is_empty());
    });
}
