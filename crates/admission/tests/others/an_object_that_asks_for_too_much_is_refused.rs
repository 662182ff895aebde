use serde_json::json;

use crate::stage::{GAMES, Stage, policy, run};

#[test]
fn with_the_field_and_the_quota() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let spec = json!({"priority": 60, "egress": [{"dscp": 46}]});
        let said = stage.create("NetworkQoS", GAMES, "before", spec).await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        // The webhook is told of it by its watch: equal priorities are warned of.
        let equal = policy("after", 60, 0);
        let said = stage
            .said(&equal, "networkqoses", |it| !it.warnings.is_empty())
            .await;
        let says = "spec.priority: 60 is that of before, too";
        assert!(said.warnings[0].contains(says), "{said:?}");
        assert_eq!(said.status, 201);

        let quota = json!({"priority": {"max": 50}, "maxRate": 1000, "dscp": [0]});
        let said = stage.create("NetworkQoSQuota", "", "tenants", quota).await;
        assert_eq!(said.status, 201, "{said:?}");
        let says = "1 NetworkQoS ask for more than this allows, and nothing of them is in force: \
                    games/before";
        assert!(said.warnings[0].contains(says), "{said:?}");

        let mut beyond = policy("after", 51, 46);
        beyond["spec"]["egress"][0]["bandwidth"] = json!({"rate": 1001});
        let said = stage
            .said(&beyond, "networkqoses", |it| it.status != 201)
            .await;
        assert_eq!(
            (said.status, said.body["reason"].as_str()),
            (403, Some("Forbidden"))
        );
        let says = "admission webhook \"objects.netqos.io\" denied the request: NetworkQoS \
                    games/after is forbidden: spec.egress[0].bandwidth.rate: 1.001 Mbit/s is more \
                    than 1 Mbit/s (NetworkQoSQuota tenants); spec.egress[0].dscp: 46 is not \
                    allowed, only 0 are (NetworkQoSQuota tenants); spec.priority: 51 is not \
                    between 0 and 50 (NetworkQoSQuota tenants)";
        assert_eq!(said.message(), says);
        let fields = [
            "spec.egress[0].bandwidth.rate",
            "spec.egress[0].dscp",
            "spec.priority",
        ];
        assert_eq!(said.fields(), fields);

        // What was there before goes on to be labelled and deleted; and not to be changed.
        let path = "/apis/k8s.ovn.org/v1alpha1/namespaces/games/networkqoses/before";
        let said = stage
            .merge(path, &json!({"metadata": {"labels": {"a": "b"}}}))
            .await;
        assert_eq!(said.status, 200, "{said:?}");
        let said = stage.merge(path, &json!({"spec": {"priority": 61}})).await;
        assert_eq!(said.status, 403, "{said:?}");
        let said = stage
            .send("DELETE", path, "application/json", &json!({}))
            .await;
        assert_eq!(said.status, 200, "{said:?}");
        webhook.stop().await;
    });
}

/// Beyond the schema: a mode for a rule that is not there, a quantity out of its range.
#[test]
fn and_one_that_says_what_no_schema_can_check() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let mut shadowed = policy("p", 1, 1);
        shadowed["metadata"]["annotations"] = json!({"netqos.io/mode": "shadow:3"});
        let path = "/apis/k8s.ovn.org/v1alpha1/namespaces/games/networkqoses";
        let said = stage.post(path, &shadowed).await;
        assert_eq!(said.status, 422, "{said:?}");
        assert_eq!(said.fields(), ["metadata.annotations[netqos.io/mode]"]);
        let spec = json!({"egress": {"rate": "10"}});
        let said = stage.create("BandwidthProfile", GAMES, "slow", spec).await;
        assert_eq!(said.status, 422, "{said:?}");
        let says = "BandwidthProfile games/slow is invalid: spec.egress.rate: \"10\": it is not \
                    between 1000 and 1000000000000000 bits";
        assert!(said.message().ends_with(says), "{}", said.message());
        let spec = json!({"egress": {"rate": "10M", "burst": "1M", "latency": "25ms"}});
        let said = stage.create("BandwidthProfile", GAMES, "free", spec).await;
        assert_eq!(said.status, 201, "{said:?}");
        webhook.stop().await;
    });
}
