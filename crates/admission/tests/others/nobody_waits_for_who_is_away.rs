use std::time::{Duration, Instant};

use serde_json::json;

use crate::stage::{Stage, pod, policy, run};

/// Pods start, and objects are written, whatever is wrong with the webhook.
#[test]
fn and_everything_is_written() {
    run(async {
        let (stage, webhook) = Stage::asked().await;
        let address = webhook.address;
        webhook.stop().await;
        let began = Instant::now();
        let bad = pod("a", json!({"kubernetes.io/egress-bandwidth": "x"}));
        let said = stage.post("/api/v1/namespaces/games/pods", &bad).await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        let mut shadowed = policy("p", 1, 1);
        shadowed["metadata"]["annotations"] = json!({"netqos.io/mode": "shadow:3"});
        let path = "/apis/k8s.ovn.org/v1alpha1/namespaces/games/networkqoses";
        let said = stage.post(path, &shadowed).await;
        assert_eq!(said.status, 201, "{said:?}");
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        // One that takes the connection, and says nothing: no longer than its time-out.
        let silent = std::net::TcpListener::bind(address).unwrap();
        let began = Instant::now();
        let said = stage
            .post(
                "/api/v1/namespaces/games/pods",
                &pod("b", json!({"netqos.io/x": "y"})),
            )
            .await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        drop(silent);
    });
}

/// Clients that open connections and say nothing hold up nobody.
#[test]
fn nor_for_a_client_that_is_slow() {
    run(async {
        let stage = Stage::new().await;
        let webhook = stage.start().await;
        let mut slow = Vec::new();
        for _ in 0..64 {
            slow.push(std::net::TcpStream::connect(webhook.address).unwrap());
        }
        let began = Instant::now();
        stage.ask(&webhook).await;
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "{:?}",
            began.elapsed()
        );
        drop(slow);
        webhook.stop().await;
    });
}
