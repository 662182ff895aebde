//! One event is written, under a name that follows from its content.
//!
//! A replica that writes the same event again, or after another replica, finds it by that name and counts it in its
//! series. So a late request of a deposed leader adds a count at most.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use netqos_core::Digest;

use super::Told;

/// The `reportingController` of each event.
const CONTROLLER: &str = "netqos-controller";
/// The bytes of a note that an event has room for are 1,024.
const NOTE: usize = 1_000;
/// The bytes of a name that stay beside a full stop and the digits of a digest: a DNS subdomain has 253.
const NAME: usize = 253 - 17;
/// The namespace of events about objects that have none.
const DEFAULT: &str = "default";

/// Writes events in the name of a replica.
pub(super) struct Recorder {
    client: Client,
    identity: String,
}

impl Recorder {
    pub(super) fn new(client: Client, identity: &str) -> Self {
        Self {
            client,
            identity: identity.to_owned(),
        }
    }

    /// Creates an event, or counts it if it exists. The count is the only thing that an update changes, and it
    /// carries the uid and resourceVersion that were read.
    ///
    /// # Errors
    /// Returns an error if the server refuses it or does not answer. An event that another writer has counted
    /// meanwhile, or that has expired, is not an error.
    pub(super) async fn record(&self, told: &Told) -> kube::Result<()> {
        let event = self.event(told);
        let namespace = event.metadata.namespace.as_deref().unwrap_or(DEFAULT);
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams::default();
        match events.create(&parameters, &event).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            answer => return answer.map(drop),
        }
        let Some(mut known) = events.get_opt(name).await? else {
            return events.create(&parameters, &event).await.map(drop);
        };
        known.series = Some(EventSeries {
            count: known
                .series
                .map_or(1, |series| series.count)
                .saturating_add(1),
            last_observed_time: MicroTime(Timestamp::now()),
        });
        match events.replace(name, &parameters, &known).await {
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn event(&self, told: &Told) -> Event {
        let regarding = reference(told);
        let namespace = regarding.namespace.as_deref().unwrap_or(DEFAULT);
        Event {
            action: Some("Enforce".to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            metadata: ObjectMeta {
                name: Some(name(told)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            note: Some(told.note[..told.note.floor_char_boundary(NOTE)].to_owned()),
            reason: Some(told.reason.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.identity.clone()),
            type_: Some(if told.good { "Normal" } else { "Warning" }.to_owned()),
            regarding: Some(regarding),
            ..Event::default()
        }
    }
}

/// The name of the object, and a digest of what the event says of it.
fn name(told: &Told) -> String {
    let Told {
        kind,
        object,
        uid,
        reason,
        note,
        ..
    } = told;
    let digest = Digest::of(&(kind.name(), uid, reason, note));
    let object = &object.name[..object.name.floor_char_boundary(NAME)];
    format!("{}.{digest}", object.trim_end_matches(['.', '-']))
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

#[cfg(test)]
mod tests {
    use netqos_cluster::Kind;
    use netqos_core::ObjectName;

    use super::*;

    fn told(object: &str, uid: &str, note: &str) -> Told {
        Told {
            kind: Kind::Pod,
            object: ObjectName::new("games", object),
            uid: uid.to_owned(),
            good: false,
            reason: "Invalid".to_owned(),
            note: note.to_owned(),
        }
    }

    #[test]
    fn event_name_follows_from_its_content() {
        let same = name(&told("a", "1", "m"));
        assert_eq!(same, name(&told("a", "1", "m")));
        assert_eq!(same.len(), "a.".len() + 16);
        for other in [told("a", "2", "m"), told("a", "1", "n")] {
            assert_ne!(same, name(&other));
        }
        let mut of_policy = told("a", "1", "m");
        of_policy.kind = Kind::NetworkQoS;
        assert_ne!(same, name(&of_policy));
    }

    #[test]
    fn event_name_of_long_object_is_a_dns_subdomain() {
        // 237 bytes would end in a hyphen or a full stop.
        for end in ["-b", ".b", "bb"] {
            let long = format!("{}{end}{}", "a".repeat(NAME - 1), "c".repeat(15));
            assert_eq!(long.len(), 252);
            let name = name(&told(&long, "1", "m"));
            assert!(name.len() <= 253, "{name}");
            let mut labels = name.split('.');
            let is_label = |it: &str| !it.is_empty() && !it.starts_with('-') && !it.ends_with('-');
            assert!(labels.all(is_label), "{name}");
        }
    }
}
