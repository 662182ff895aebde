use kube::api::{ListParams, PostParams};
use netqos_faults::Fault;

use crate::fixture::{create, refusal, run};

#[test]
fn every_third_request_fails_and_nothing_of_it_is_done() {
    run(async |behind| {
        let api = behind.of("agent").await;
        let before = api.list(&ListParams::default()).await.unwrap().items.len();
        let fault = Fault::status(500).on("create", "configmaps");
        behind.front.inject(fault.every(3));
        let mut failed = Vec::new();
        for number in 1..=6 {
            let mut object = k8s_openapi::api::core::v1::ConfigMap::default();
            object.metadata.name = Some(format!("n{number}"));
            let made = api.create(&PostParams::default(), &object).await;
            if made.is_err() {
                assert_eq!(refusal(made).code, 500);
                failed.push(number);
            }
        }
        assert_eq!(failed, [3, 6]);
        let there = api.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(there - before, 4);
        behind.front.heal();
        for name in ["a", "b", "c"] {
            create(&api, name).await;
        }
    });
}
