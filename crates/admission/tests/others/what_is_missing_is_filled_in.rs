use serde_json::json;

use crate::stage::{GAMES, Stage, policy, run};

/// The least priority that the quotas for the namespace allow.
#[test]
fn the_priority() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let mut without = policy("p", 0, 1);
        without["spec"].as_object_mut().unwrap().remove("priority");
        let priority = |said: &crate::stage::Said| said.body["spec"]["priority"].as_i64();
        let said = stage
            .said(&without, "networkqoses", |it| it.status == 201)
            .await;
        assert_eq!(priority(&said), Some(0), "{said:?}");
        let quota = json!({"priority": {"min": 20}});
        let said = stage.create("NetworkQoSQuota", "", "high", quota).await;
        assert_eq!(said.status, 201, "{said:?}");
        let others = json!({
            "priority": {"min": 30},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}},
        });
        let said = stage.create("NetworkQoSQuota", "", "others", others).await;
        assert_eq!(said.status, 201, "{said:?}");
        let said = stage
            .said(&without, "networkqoses", |it| priority(it) == Some(20))
            .await;
        assert_eq!(said.status, 201);
        // What is said stays.
        let spec = json!({"priority": 70, "egress": [{"dscp": 1}]});
        let said = stage.create("NetworkQoS", GAMES, "said", spec).await;
        assert_eq!((said.status, priority(&said)), (201, Some(70)), "{said:?}");
        webhook.stop().await;
    });
}
