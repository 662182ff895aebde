//! The plugin's records, for people and for `/metrics`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use netqos_api::multinet::{CNI_DRIVER, PodRecord};
use netqos_core::{Direction, ObjectName};

use crate::locate::PRIMARY_INTERFACE;
use crate::status::AttachmentStatus;

/// Reads the records in a directory. One that is gone by now, or that the plugin will set aside, is passed over.
fn records(directory: &Path) -> impl Iterator<Item = PodRecord> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter_map(|path| {
        path.extension().filter(|it| *it == "json")?;
        serde_json::from_slice(&fs::read(&path).ok()?).ok()
    })
}

/// Returns the attachments of all pods, in the order of their names and of their attachments, with the limits that were
/// requested. `annotated` says which interface of a pod its annotations of bandwidth are for, where that is known.
pub(crate) fn attachments(
    directory: &Path,
    annotated: impl Fn(&ObjectName) -> Option<String>,
) -> Vec<AttachmentStatus> {
    let mut records: Vec<PodRecord> = records(directory).collect();
    records.sort_by(|a, b| (&a.pod, &a.container_id).cmp(&(&b.pod, &b.container_id)));
    let statuses = records.iter().flat_map(|record| {
        let pod = record.pod.as_ref();
        let pod = pod.map(|pod| ObjectName::new(&pod.namespace, &pod.name));
        let interface = pod.and_then(|pod| annotated(&pod));
        of_record(record, interface.as_deref())
    });
    statuses.collect()
}

/// The number of attachments for each driver and state, for `/metrics`. Tenants name networks, and those are counted together.
pub(crate) type AttachmentCounts = BTreeMap<(&'static str, &'static str), u64>;

/// Counts the attachments of all records. There is a count for each state, and drivers that netqos does not know are one.
pub(crate) fn count_attachments(directory: &Path) -> AttachmentCounts {
    let all = [
        State::Attached,
        State::Attaching,
        State::Leftover,
        State::Failed,
    ];
    let mut counts = AttachmentCounts::from(all.map(|state| ((CNI_DRIVER, state.label()), 0)));
    for record in records(directory) {
        for (index, attachment) in record.attachments.iter().enumerate() {
            let driver = match &*attachment.driver {
                CNI_DRIVER => CNI_DRIVER,
                _ => "other",
            };
            let state = state(&record, index).label();
            *counts.entry((driver, state)).or_default() += 1;
        }
    }
    counts
}

#[derive(Clone, Copy)]
enum State {
    Attached,
    Attaching,
    /// The sandbox is gone, and DEL was not called or has failed.
    Leftover,
    /// The last DEL failed, or an ADD that failed was not undone.
    Failed,
}

impl State {
    const fn label(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Attaching => "attaching",
            Self::Leftover => "leftover",
            Self::Failed => "failed",
        }
    }
}

fn state(record: &PodRecord, index: usize) -> State {
    match &record.netns {
        _ if record.failure.is_some() => State::Failed,
        Some(netns) if !netns.exists() => State::Leftover,
        _ if index < record.made => State::Attached,
        _ => State::Attaching,
    }
}

/// The interfaces of a record. That on a primary network which the plugins of the default network made too has a row of
/// its own.
fn of_record(record: &PodRecord, annotated: Option<&str>) -> Vec<AttachmentStatus> {
    let (namespace, name) = match &record.pod {
        Some(pod) => (pod.namespace.clone(), pod.name.clone()),
        None => Default::default(),
    };
    let attachments = record.attachments.iter().enumerate();
    let status = attachments.map(|(index, attachment)| {
        // The runtime requests there what is for another interface.
        let is_for_other = index == 0 && annotated.is_some_and(|it| it != attachment.interface);
        let limits = match is_for_other {
            true => attachment.limits_without_annotations().limits,
            false => attachment.limits().limits,
        };
        let rate = |direction| Some(limits.of(direction)?.rate.bits_per_second());
        let addresses = record.addresses(attachment, &attachment.interface);
        let state = match state(record, index) {
            State::Leftover => "its sandbox is gone, and the runtime has not called DEL",
            State::Attached => "attached",
            State::Attaching if index == record.made => "being attached",
            State::Attaching => "waits for the attachment before it",
            State::Failed => "its DEL failed; netqos check on the node says why",
        };
        AttachmentStatus {
            namespace: namespace.clone(),
            name: name.clone(),
            container_id: record.container_id.clone(),
            network: (attachment.nad.as_deref().unwrap_or(attachment.network())).to_owned(),
            interface: attachment.interface.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ingress: rate(Direction::Ingress),
            egress: rate(Direction::Egress),
            driver: attachment.driver.clone(),
            state: state.to_owned(),
        }
    });
    let mut all: Vec<AttachmentStatus> = status.collect();
    if let (Some(first), Some(of_first)) = (record.attachments.first(), all.first()) {
        let addresses = record.addresses(first, PRIMARY_INTERFACE);
        if !addresses.is_empty() {
            let primary = AttachmentStatus {
                interface: PRIMARY_INTERFACE.to_owned(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
                ingress: None,
                egress: None,
                ..of_first.clone()
            };
            all.insert(1, primary);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attachments_are_counted_by_driver_and_state() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, netns: &Path, made: usize, drivers: &[&str]| {
            let attachment = |driver: &&str| {
                json!({"driver": driver, "interface": "net1", "list": {"name": "of a tenant"}, "args": [],
                       "capabilityArgs": {}})
            };
            let attachments: Vec<_> = drivers.iter().map(attachment).collect();
            let record = json!({"containerId": name, "netns": netns, "made": made, "attachments": attachments});
            fs::write(
                directory.path().join(format!("{name}.json")),
                record.to_string(),
            )
            .unwrap();
        };
        let (there, gone) = (directory.path(), Path::new("/none/of/this"));
        write("c1", there, 2, &["cni", "cni", "cni", "cni"]);
        write("c2", gone, 1, &["cni", "x", "y"]);
        let attachment = json!({"driver": "cni", "interface": "eth0", "list": {}, "args": [], "capabilityArgs": {}});
        let failed = json!({"containerId": "c3", "netns": gone, "made": 1, "failure": "x", "attachments": [attachment]});
        fs::write(directory.path().join("c3.json"), failed.to_string()).unwrap();
        fs::write(directory.path().join("broken.json"), "{").unwrap();
        let counts = count_attachments(directory.path());
        let expected = [
            (("cni", "attached"), 2),
            (("cni", "attaching"), 2),
            (("cni", "leftover"), 1),
            (("cni", "failed"), 1),
            (("other", "leftover"), 2),
        ];
        assert_eq!(counts, AttachmentCounts::from(expected));
    }

    /// OVN-Kubernetes makes `ovn-udn1` in the ADD of the default network.
    #[test]
    fn limit_of_annotations_is_listed_for_the_interface_that_it_is_for() {
        let directory = tempfile::tempdir().unwrap();
        let plugin = json!({"type": "ovn-k8s-cni-overlay", "capabilities": {"bandwidth": true}});
        let attachment = json!({
            "driver": "cni", "interface": "eth0", "args": [], "list": {"name": "ovn", "plugins": [plugin]},
            "capabilityArgs": {"bandwidth": {"egressRate": 8_000_000, "egressBurst": u32::MAX}},
        });
        let status = |interface: &str, address: &str| json!({"name": "ovn", "interface": interface, "ips": [address], "dns": {}});
        let record = json!({
            "containerId": "c", "netns": directory.path(), "made": 1, "attachments": [attachment],
            "pod": {"namespace": "games", "name": "a"},
            "status": [status("eth0", "10.0.0.1"), status("ovn-udn1", "172.16.0.1")],
        });
        fs::write(directory.path().join("c.json"), record.to_string()).unwrap();
        for (annotated, of_eth0) in [
            (None, Some(8_000_000)),
            (Some("eth0"), Some(8_000_000)),
            (Some("ovn-udn1"), None),
        ] {
            let found = attachments(directory.path(), |pod| {
                assert_eq!(pod.to_string(), "games/a");
                annotated.map(str::to_owned)
            });
            let found = found
                .into_iter()
                .map(|it| (it.interface, it.addresses, it.egress));
            let expected = [
                ("eth0".to_owned(), vec!["10.0.0.1".to_owned()], of_eth0),
                ("ovn-udn1".to_owned(), vec!["172.16.0.1".to_owned()], None),
            ];
            assert_eq!(found.collect::<Vec<_>>(), expected, "{annotated:?}");
        }
    }

    #[test]
    fn node_without_records_has_a_count_for_each_state() {
        let counts = count_attachments(Path::new("/none/of/this"));
        let states: Vec<_> = counts.into_iter().collect();
        let zero = ["attached", "attaching", "failed", "leftover"].map(|state| (("cni", state), 0));
        assert_eq!(states, zero);
    }
}
