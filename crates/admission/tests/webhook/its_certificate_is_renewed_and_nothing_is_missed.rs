use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use netqos_admission::Certificates;
use serde_json::json;

use crate::stage::{OWN, Stage, pod, run};

const DRY: &str = "/api/v1/namespaces/games/pods?dryRun=All";

/// Two replicas, certificates that are good for six seconds, and a question every few
/// milliseconds: whoever is not known to the API server for a moment would leave one unanswered,
/// since its failure policy is to ignore that.
#[test]
fn while_it_is_asked_all_the_time() {
    run(async {
        let mut stage = Stage::new().await;
        stage.options.lifetime = Duration::from_secs(6);
        stage.options.renew_before = Duration::from_secs(4);
        let first = stage.start().await;
        stage.ask(&first).await;
        let second = stage.start().await;
        let bad = pod("a", json!({"kubernetes.io/egress-bandwidth": "x"}));
        let mut certificates = BTreeSet::new();
        let (mut asked, began) = (0, Instant::now());
        while began.elapsed() < Duration::from_secs(12) {
            let said = stage.post(DRY, &bad).await;
            assert_eq!(said.warnings.len(), 1, "question {asked}: {said:?}");
            asked += 1;
            if asked % 10 == 0 {
                certificates.insert(stage.certificate().await);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("{asked} questions, {} certificates", certificates.len());
        assert!(certificates.len() >= 4, "{}", certificates.len());
        first.stop().await;
        second.stop().await;
    });
}

/// A Secret that ends soon, is another's, or says nothing that can be read.
#[test]
fn whatever_is_in_the_secret() {
    run(async {
        let stage = Stage::new().await;
        let soon = Duration::from_secs(600);
        let names = stage.options.names.clone();
        let ends = Certificates::make(&names, soon, None).unwrap();
        let anothers = Certificates::make(&["example.com".to_owned()], soon, None).unwrap();
        let broken = Certificates {
            key: "-".to_owned(),
            ..ends.clone()
        };
        let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), OWN);
        for found in [Some(ends), Some(anothers), Some(broken), None] {
            secrets
                .delete(&stage.options.secret, &Default::default())
                .await
                .ok();
            let data = found.iter().flat_map(|it| {
                let texts = [&it.certificate, &it.key, &it.authorities];
                let bytes = texts.map(|text| ByteString(text.clone().into_bytes()));
                ["tls.crt", "tls.key", "ca.crt"]
                    .map(str::to_owned)
                    .into_iter()
                    .zip(bytes)
            });
            let mut secret = Secret {
                data: Some(data.collect()),
                ..Secret::default()
            };
            secret.metadata.name = Some(stage.options.secret.clone());
            secret.metadata.labels = Some([("kept".to_owned(), "yes".to_owned())].into());
            secrets
                .create(&PostParams::default(), &secret)
                .await
                .unwrap();
            let webhook = stage.start().await;
            stage.ask(&webhook).await;
            let now = secrets.get(&stage.options.secret).await.unwrap();
            assert_ne!(now.data, secret.data);
            assert_eq!(
                now.metadata.labels, secret.metadata.labels,
                "the rest is left alone"
            );
            webhook.stop().await;
            stage.forget().await;
        }
    });
}

/// A `helm upgrade` takes the authorities out of the configuration.
#[test]
fn and_who_installs_anew_is_told_again() {
    run(async {
        let stage = Stage::new().await;
        let webhook = stage.start().await;
        stage.ask(&webhook).await;
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/netqos";
        let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
        let media = "application/json-patch+json";
        let said = stage.send("PATCH", path, media, &remove).await;
        assert_eq!(said.status, 200, "{said:?}");
        stage.wait_until_it_answers().await;
        webhook.stop().await;
    });
}
