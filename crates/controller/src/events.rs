//! Events (events.k8s.io/v1), for who asks `kubectl describe` and `kubectl events`.
//!
//! Each is told when something becomes so, and not as long as it is. Whoever tells the same again is
//! told as a series, and too much at once is left out: an event is a courtesy, and the status says what
//! is.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use netqos_cluster::Kind;
use netqos_core::ObjectName;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::metrics::{Metrics, Outcome};

/// How many may wait.
const WAITING: usize = 200;
/// The least time from one to the next.
const APART: Duration = Duration::from_millis(50);
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that has become so.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    pub(crate) object: ObjectName,
    pub(crate) uid: String,
    pub(crate) good: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// Where events are told to.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Told>);

impl Events {
    /// Begins to write events, in a task of its own.
    pub(crate) fn begin(client: Client, identity: &str, metrics: Metrics) -> Self {
        let (sender, mut told) = mpsc::channel::<Told>(WAITING);
        let reporter = Reporter {
            controller: "netqos-controller".to_owned(),
            instance: Some(identity.to_owned()),
        };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some(told) = told.recv().await {
                let (event, about) = (event(&told), reference(&told));
                let written = timeout(PATIENCE, recorder.publish(&event, &about)).await;
                let outcome = match written {
                    Ok(Ok(())) => Outcome::Done,
                    _ => Outcome::Failed,
                };
                metrics.wrote("events", outcome);
                sleep(APART).await;
            }
        });
        Self(sender)
    }

    /// Tells of something, or leaves it where too much waits.
    pub(crate) fn tell(&self, told: Told) {
        if self.0.try_send(told).is_err() {
            tracing::debug!("an event is left out: too many wait");
        }
    }
}

fn event(told: &Told) -> Event {
    Event {
        type_: match told.good {
            true => EventType::Normal,
            false => EventType::Warning,
        },
        reason: told.reason.clone(),
        // As much as an event has room for: 1,024 bytes.
        note: Some(told.note[..told.note.floor_char_boundary(1_000)].to_owned()),
        action: "Enforce".to_owned(),
        secondary: None,
    }
}

fn reference(told: &Told) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: Some(told.kind.api_version()),
        kind: Some(told.kind.name().to_owned()),
        namespace: text(&told.object.namespace),
        name: text(&told.object.name),
        uid: text(&told.uid),
        ..ObjectReference::default()
    }
}
