//! What the proxy passes on, and what goes wrong with it on demand.

use std::pin::pin;
use std::time::{Duration, Instant};

use kube::api::{ListParams, WatchEvent, WatchParams};
use netqos_faults::{Fault, Front, Gate};

use crate::fixture::{
    assert_expired, assert_goes_on, create, is_whole, next, refusal, run, watched,
};

#[test]
fn what_is_asked_is_passed_on_and_goes_wrong_on_demand() {
    run(async |behind| {
        let (agent, other) = (behind.of("agent").await, behind.of("other").await);
        let made = create(&agent, "one").await;
        assert_eq!(behind.direct.get("one").await.unwrap(), made);

        let fault = Fault::status(429).retry_after(1).of("agent");
        behind.front.inject(fault.on("list", "configmaps").times(1));
        other.list(&ListParams::default()).await.unwrap();
        behind.direct.list(&ListParams::default()).await.unwrap();
        let status = refusal(agent.list(&ListParams::default()).await);
        assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"));
        assert_eq!(status.details.unwrap().retry_after_seconds, 1);
        agent.list(&ListParams::default()).await.unwrap();
        let asked = behind.front.requests().into_iter();
        let asked = asked.map(|it| (it.client, it.verb, it.status));
        let asked: Vec<(String, &str, u16)> = asked.collect();
        let right = [
            ("agent", "create", 201),
            ("other", "list", 200),
            ("agent", "list", 429),
        ];
        let right = right.map(|(client, verb, status)| (client.to_owned(), verb, status));
        assert_eq!(asked[..3], right);

        let fault = Fault::status(500).on("get", "configmaps");
        behind.front.inject(fault.every(3));
        let mut codes = Vec::new();
        for _ in 0..6 {
            codes.push(agent.get("one").await.is_ok());
        }
        assert_eq!(codes, [true, true, false, true, true, false]);
        behind.front.heal();

        let delay = Duration::from_millis(300);
        let fault = Fault::delay(delay).on("get", "configmaps");
        behind.front.inject(fault);
        let begun = Instant::now();
        agent.get("one").await.unwrap();
        assert!(begun.elapsed() >= delay);
        behind.front.heal();

        let is_unanswered = async || {
            let error = agent.get("one").await.unwrap_err();
            !matches!(error, kube::Error::Api(_))
        };
        behind.front.inject(Fault::close());
        assert!(is_unanswered().await);
        behind.front.heal();
        behind.front.go_away().unwrap();
        assert!(is_unanswered().await);
        behind.direct.get("one").await.unwrap();
        behind.front.come_back().unwrap();
        agent.get("one").await.unwrap();
    });
}

#[test]
fn a_watch_is_passed_on_and_one_from_what_is_forgotten_is_expired() {
    run(async |behind| {
        let api = behind.of("agent").await;
        let (before, mut stream) = watched(&api).await;
        create(&behind.direct, "one").await;
        let told = next(&mut stream).await.unwrap().unwrap();
        assert!(matches!(told, WatchEvent::Added(_)), "{told:?}");

        behind.front.expire_versions();
        let late = api.watch(&WatchParams::default(), &before).await.unwrap();
        assert_expired(&mut stream).await;
        assert_expired(&mut pin!(late)).await;
        assert_goes_on(&api).await;
    });
}

#[test]
fn what_is_passed_on_is_counted() {
    run(async |behind| {
        let api = behind.of("agent").await;
        let (_, mut stream) = watched(&api).await;
        let sent = |verb: &str| {
            let requests = behind.front.requests();
            let request = requests.iter().find(|it| it.verb == verb).unwrap();
            (request.events, request.sent)
        };
        assert!(sent("list").1 > 0);
        assert_eq!(sent("watch"), (0, 0));
        for (event, name) in (1..).zip(["one", "two"]) {
            let (_, before) = sent("watch");
            let made = create(&behind.direct, name).await;
            next(&mut stream).await.unwrap().unwrap();
            let (events, bytes) = sent("watch");
            assert_eq!(events, event);
            let about = serde_json::to_string(&made).unwrap().len() as u64;
            let more = bytes - before;
            assert!((about..about + 200).contains(&more), "{more} of {about}");
        }
    });
}

#[test]
fn further_pages_of_what_is_forgotten_are_gone() {
    run(async |behind| {
        let api = behind.of("agent").await;
        for name in ["a", "b", "c"] {
            create(&behind.direct, name).await;
        }
        let page = ListParams::default().limit(1);
        let token = async || api.list(&page).await.unwrap().metadata.continue_.unwrap();
        let first = token().await;
        behind.front.expire_versions();
        let status = refusal(api.list(&page.clone().continue_token(&first)).await);
        assert_eq!((status.code, &*status.reason), (410, "Expired"));
        let first = token().await;
        api.list(&page.clone().continue_token(&first))
            .await
            .unwrap();
    });
}

#[test]
fn a_broken_watch_is_cut_off_and_an_ended_one_is_not() {
    run(async |behind| {
        let kubeconfig: serde_json::Value =
            serde_json::from_str(&behind.front.kubeconfig("agent")).unwrap();
        let server = kubeconfig["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap();
        let address = server.strip_prefix("http://").unwrap().parse().unwrap();
        let is_whole = |interrupt: fn(&Front)| is_whole(address, || interrupt(&behind.front));
        assert!(!is_whole(Front::break_watches));
        assert!(is_whole(Front::end_watches));
    });
}

#[test]
fn front_held_request_reaches_the_server_when_the_gate_opens() {
    run(async |behind| {
        let agent = behind.of("agent").await;
        let gate = Gate::default();
        let fault = Fault::hold(&gate).on("create", "configmaps");
        behind.front.inject(fault.of("agent"));
        let mut held = pin!(create(&agent, "one"));
        let answered = tokio::time::timeout(Duration::from_millis(200), &mut held).await;
        assert!(answered.is_err());
        let status = behind
            .front
            .requests()
            .last()
            .map(|it| (it.verb, it.status));
        assert_eq!(status, Some(("create", 0)));
        assert_eq!(behind.direct.get_opt("one").await.unwrap(), None);
        gate.open();
        let made = held.await;
        assert_eq!(behind.direct.get("one").await.unwrap(), made);
    });
}
