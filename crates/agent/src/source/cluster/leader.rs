//! Whether there is a controller: asked where somebody waits for one, and not else.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use netqos_cluster::{Client, lease};
use tokio::sync::mpsc;

/// The Lease of the replica that writes.
const LEASE: &str = "netqos-controller";
/// How long something has waited before it is asked, and how often it is asked while it waits.
const FIRST: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(60);
/// For how long a Lease that is not renewed may be one that is about to be taken over; clocks differ.
const EXPIRED: Duration = Duration::from_secs(120);

/// Asks for the Lease.
pub(super) struct Leader {
    client: Client,
    namespace: String,
    asked: Option<Instant>,
    answers: (
        mpsc::UnboundedSender<String>,
        mpsc::UnboundedReceiver<String>,
    ),
}

impl Leader {
    /// Nothing is asked yet. `namespace` is the controller's.
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            asked: None,
            answers: mpsc::unbounded_channel(),
        }
    }

    /// When it is to be asked where something has waited since then.
    pub(super) fn due(&self, waiting: Instant) -> Instant {
        let first = waiting + FIRST;
        self.asked.map_or(first, |asked| first.max(asked + AGAIN))
    }

    /// Asks, beside everything else.
    pub(super) fn ask(&mut self) {
        self.asked = Some(Instant::now());
        let (client, namespace) = (self.client.clone(), self.namespace.clone());
        let answers = self.answers.0.clone();
        tokio::spawn(async move {
            let told = match lease(&client, &namespace, LEASE).await {
                Ok(lease) => said(&namespace, lease.as_ref(), Timestamp::now()),
                Err(why) => format!("whether netqos-controller runs is not known ({why})"),
            };
            // Nobody may wait any more.
            let _ = answers.send(told);
        });
    }

    /// What became of it, in words; it waits until something has.
    pub(super) async fn answer(&mut self) -> Option<String> {
        self.answers.1.recv().await
    }
}

/// What a Lease says of the controller, and what to do. It does not change by itself.
fn said(namespace: &str, lease: Option<&Lease>, now: Timestamp) -> String {
    let name = format!("Lease {namespace}/{LEASE}");
    let Some(spec) = lease.map(|lease| lease.spec.clone().unwrap_or_default()) else {
        return format!("there is no controller: no {name} is there. Install netqos-controller");
    };
    let holder = spec.holder_identity.unwrap_or_default();
    let renewed = spec.renew_time.map(|time| time.0);
    let limit = now - EXPIRED;
    match renewed {
        Some(renewed) if !holder.is_empty() && renewed >= limit => {
            format!("{holder} leads ({name}), and has not published them: its log says why")
        }
        Some(renewed) => format!(
            "no controller runs: {name} was renewed last at {renewed} by {who}. Look what has become \
             of netqos-controller",
            who = if holder.is_empty() {
                "nobody"
            } else {
                holder.as_str()
            },
        ),
        None => format!("no controller runs: nobody holds {name}. Look at netqos-controller"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_missing_is_named() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let told = |spec: serde_json::Value| {
            let lease: Lease = serde_json::from_value(json!({"spec": spec})).unwrap();
            said("netqos-system", Some(&lease), now)
        };
        let held = |at: &str| json!({"holderIdentity": "one", "renewTime": at});
        let alive = told(held("2026-01-01T00:59:30.000000Z"));
        assert!(alive.starts_with("one leads"), "{alive}");
        // A clock that is behind the controller's.
        assert_eq!(told(held("2026-01-01T02:00:00.000000Z")), alive);
        let dead = told(held("2026-01-01T00:30:00.000000Z"));
        assert!(
            dead.contains("renewed last at 2026-01-01T00:30:00Z by one"),
            "{dead}"
        );
        let left = told(json!({"renewTime": "2026-01-01T00:59:30.000000Z"}));
        assert!(left.contains("by nobody"), "{left}");
        assert!(told(json!({})).contains("nobody holds"));
        let none = said("netqos-system", None, now);
        assert!(
            none.contains("no Lease netqos-system/netqos-controller"),
            "{none}"
        );
    }
}
