use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netqos_admission::Certificates;
use netqos_faults::{Account, Fault, Gate};
use serde_json::json;

use crate::stage::{OWN, PATIENCE, Stage, pod, run};

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
        while certificates.len() < 4 {
            assert!(began.elapsed() < 2 * PATIENCE, "{}", certificates.len());
            let said = stage.post(DRY, &bad).await;
            assert_eq!(said.warnings.len(), 1, "question {asked}: {said:?}");
            asked += 1;
            if asked % 10 == 0 {
                certificates.insert(stage.certificate().await);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("{asked} questions in {:?}", began.elapsed());
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

/// The write that was on its way is refused.
#[test]
fn replica_stopped_amid_its_write_overwrites_no_newer_authorities() {
    run(stopped_amid("patch", &[409]));
}

/// What it reads last is the Secret.
#[test]
fn replica_stopped_amid_its_read_overwrites_no_newer_authorities() {
    run(stopped_amid("get", &[]));
}

/// A replica is stopped while this request of its is on its way, and another makes a Secret with newer authorities
/// meanwhile. `writes` are the answers to what the former writes.
async fn stopped_amid(verb: &'static str, writes: &[u16]) {
    const CONFIGURATIONS: &str = "validatingwebhookconfigurations";
    let (stage, first) = Stage::asked().await;
    first.stop().await;
    stage.remove_authorities().await;

    let proxy = stage.cluster.front().await.unwrap();
    let account = Account::Controller;
    let identified = stage.cluster.identify(&proxy, "late", account).await;
    identified.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&proxy.kubeconfig("late")).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let answers = |verb: &str| {
        let requests = proxy.requests().into_iter();
        let requests = requests.filter(|it| it.verb == verb && it.resource == CONFIGURATIONS);
        requests.map(|it| it.status).collect::<Vec<u16>>()
    };
    let gate = Gate::default();
    proxy.inject(Fault::hold(&gate).on(verb, CONFIGURATIONS));
    let late = stage.start_as(client).await;
    eventually("it asks nothing", async || !answers(verb).is_empty()).await;

    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), OWN);
    let secret = &stage.options.secret;
    let deleted = secrets.delete(secret, &Default::default()).await;
    deleted.unwrap();
    let second = stage.start().await;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let are_of_secret = async || {
        let configuration = configurations.get("netqos").await.unwrap();
        let webhook = &configuration.webhooks.unwrap()[0];
        let secret = secrets.get_opt(secret).await.unwrap();
        let authorities = secret.and_then(|it| it.data?.remove("ca.crt"));
        authorities.is_some() && webhook.client_config.ca_bundle == authorities
    };
    eventually("no newer authorities", are_of_secret).await;
    second.stop().await;

    gate.open();
    let read = answers("get").len();
    eventually("it looks no more", async || {
        let answers = answers("get");
        answers.len() > read + 2 && answers.iter().rev().skip(1).all(|it| *it == 200)
    })
    .await;
    assert_eq!(answers("patch"), writes);
    assert!(are_of_secret().await);
    late.stop().await;
}

async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A `helm upgrade` takes the authorities out of the configuration.
#[test]
fn and_who_installs_anew_is_told_again() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        stage.remove_authorities().await;
        stage.wait_until_it_answers().await;
        webhook.stop().await;
    });
}
