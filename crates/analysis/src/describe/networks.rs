//! The networks that a pod selects, and those that its status and annotations say it is on.

use netqos_api::multinet::CNI_DRIVER;
use netqos_api::npwg::{
    InterfaceNames, MAX_SELECTIONS, NETWORK_STATUS, NetworkSelection, PodSelections, escaped,
    quoted,
};
use netqos_core::objects::{NetworkName, Pod, PodAddresses};
use netqos_core::{Direction, ObjectName, Problem};
use netqos_k8s::Object;
use serde::Serialize;

use super::DescribedLimit;
use crate::snapshot::{Found, Snapshot};

/// The most networks of a pod that are described: all that it may select, and as many that its annotations name beside
/// them. Tenants may write `network-status`.
const MOST_NETWORKS: usize = 2 * MAX_SELECTIONS;

/// The most addresses of a network that are described.
const MOST_ADDRESSES: usize = 16;

/// The interface of a pod's default network.
const DEFAULT_INTERFACE: &str = "eth0";

/// A network of a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedNetwork {
    /// `namespace/name` of the NetworkAttachmentDefinition, `default` for the cluster's default network, `primary` for
    /// the primary one of a user-defined network, or the name of a CNI network. Empty: an annotation of the pod's networks cannot be read.
    pub network: String,
    /// The interface in the pod; absent: not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its addresses, at most 16.
    pub addresses: Vec<String>,
    /// The number of its other addresses.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_addresses: usize,
    /// True for the default network, and for the network in its place.
    pub default: bool,
    /// The limits that the pod requests of the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DescribedLimit>,
    /// The program that attached it; absent: it is not attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<&'static str>,
    /// The state of the attachment.
    pub state: NetworkState,
    /// The reason for that state, where it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The state of a pod's attachment to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkState {
    /// The pod's status or annotations say that the pod is on it.
    Attached,
    /// They do not say so.
    Waiting,
    /// They do not say so, and its NetworkAttachmentDefinition does not exist.
    NadMissing,
    /// The annotation that would say it cannot be read.
    Unreadable,
}

impl NetworkState {
    /// The name of the state, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Waiting => "waiting",
            Self::NadMissing => "nad-missing",
            Self::Unreadable => "unreadable",
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The entries of a pod's addresses that no network of the list has yet.
struct Unclaimed<'p> {
    entries: Vec<&'p PodAddresses>,
    /// The annotation `network-status` exists.
    has_status: bool,
    /// It cannot be read.
    is_unreadable: bool,
}

/// Returns the networks of a pod, the default one first, then those that it selects in their order, then others; and the
/// number of those that are left out.
pub(super) fn networks(
    snapshot: &Snapshot,
    pod: &Pod,
    found: &Found,
) -> (Vec<DescribedNetwork>, usize) {
    if pod.host_network || pod.finished {
        return (Vec::new(), 0);
    }
    let annotations = pod.network_annotations.as_deref();
    let mut problems = problems(found).iter();
    let problem = problems.find(|it| it.message.contains(NETWORK_STATUS));
    let mut unclaimed = Unclaimed {
        entries: pod.addresses.iter().collect(),
        has_status: annotations.is_some_and(|it| it.status.is_some()),
        is_unreadable: problem.is_some(),
    };
    let selections = PodSelections::of(
        &pod.id.name.namespace,
        annotations.and_then(|it| it.networks.as_deref()),
        annotations.and_then(|it| it.default_network.as_deref()),
        InterfaceNames::Net,
        DEFAULT_INTERFACE,
    );
    let (selections, error) = match selections {
        Ok(selections) => (selections, None),
        Err(error) => (PodSelections::default(), Some(error)),
    };
    let mut networks = vec![default_network(snapshot, &selections, &mut unclaimed)];
    let reasons = [
        error.map(|it| it.to_string()),
        problem.map(|it| it.message.clone()),
    ];
    networks.extend(reasons.into_iter().flatten().map(unreadable));
    networks.extend(selected(snapshot, &selections, &mut unclaimed));
    let others = unclaimed.entries.iter().filter(|it| unclaimed.is_made(it));
    networks.extend(others.map(|entry| attached(name_of(&entry.network), entry)));
    let left_out = networks.len().saturating_sub(MOST_NETWORKS);
    networks.truncate(MOST_NETWORKS);
    (networks, left_out)
}

fn problems(found: &Found) -> &[Problem] {
    match &found.object {
        Ok(Object::Pod(_, problems, _)) => problems,
        _ => &[],
    }
}

fn default_network(
    snapshot: &Snapshot,
    selections: &PodSelections,
    unclaimed: &mut Unclaimed<'_>,
) -> DescribedNetwork {
    let in_place = selections.default_network.as_ref();
    let name = in_place.map_or_else(|| "default".to_owned(), |it| it.nad.to_string());
    let described = match unclaimed.take(|it| it.network == NetworkName::Default) {
        Some(entry) => attached(name, entry),
        None => DescribedNetwork {
            interface: Some(DEFAULT_INTERFACE.to_owned()),
            ..match in_place {
                Some(selection) => unattached(snapshot, selection, unclaimed),
                None => bare(name, NetworkState::Waiting),
            }
        },
    };
    DescribedNetwork {
        default: true,
        limits: in_place.map(limits).unwrap_or_default(),
        ..described
    }
}

/// The networks beside the default one. Of several attachments to one network, the interfaces' names tell which is which,
/// and else their order.
fn selected(
    snapshot: &Snapshot,
    selections: &PodSelections,
    unclaimed: &mut Unclaimed<'_>,
) -> Vec<DescribedNetwork> {
    let networks = &selections.networks;
    let mut entries: Vec<Option<&PodAddresses>> = networks
        .iter()
        .map(|(selection, interface)| {
            unclaimed.take_made(&selection.nad, |it| it == Some(interface.as_str()))
        })
        .collect();
    for ((selection, _), entry) in networks.iter().zip(&mut entries) {
        if entry.is_none() {
            let is_named = selection.interface.is_some();
            // The node may name interfaces in another form, and a plugin may report none.
            *entry = unclaimed.take_made(&selection.nad, |it| !is_named || it.is_none());
        }
    }
    let described = networks.iter().zip(entries).map(|((selection, _), entry)| {
        let described = match entry {
            Some(entry) => attached(selection.nad.to_string(), entry),
            None => unattached(snapshot, selection, unclaimed),
        };
        DescribedNetwork {
            limits: limits(selection),
            ..described
        }
    });
    described.collect()
}

impl<'p> Unclaimed<'p> {
    /// Takes the first entry of this kind.
    fn take(&mut self, is_it: impl Fn(&PodAddresses) -> bool) -> Option<&'p PodAddresses> {
        let index = self.entries.iter().position(|it| is_it(it))?;
        Some(self.entries.remove(index))
    }

    /// Takes the first entry of a NetworkAttachmentDefinition with such an interface.
    fn take_made(
        &mut self,
        nad: &ObjectName,
        is_interface: impl Fn(Option<&str>) -> bool,
    ) -> Option<&'p PodAddresses> {
        let index = self.entries.iter().position(|it| {
            let is_nad = matches!(&it.network, NetworkName::Attachment(name) if name == nad);
            is_nad && self.is_made(it) && is_interface(it.interface.as_deref())
        })?;
        Some(self.entries.remove(index))
    }

    /// Returns true if the entry is of an attachment that is made. OVN-Kubernetes writes its own annotation before that,
    /// without interfaces.
    fn is_made(&self, entry: &PodAddresses) -> bool {
        entry.interface.is_some() || self.has_status
    }
}

fn bare(network: String, state: NetworkState) -> DescribedNetwork {
    DescribedNetwork {
        network,
        interface: None,
        addresses: Vec::new(),
        more_addresses: 0,
        default: false,
        limits: Vec::new(),
        driver: None,
        state,
        why: String::new(),
    }
}

fn attached(network: String, entry: &PodAddresses) -> DescribedNetwork {
    let addresses = entry.addresses.iter().take(MOST_ADDRESSES);
    DescribedNetwork {
        interface: entry.interface.as_deref().map(escaped),
        addresses: addresses.map(ToString::to_string).collect(),
        more_addresses: entry.addresses.len().saturating_sub(MOST_ADDRESSES),
        // The only one that there is.
        driver: Some(CNI_DRIVER),
        ..bare(network, NetworkState::Attached)
    }
}

/// A selected network that the pod is not known to be on.
fn unattached(
    snapshot: &Snapshot,
    selection: &NetworkSelection,
    unclaimed: &Unclaimed<'_>,
) -> DescribedNetwork {
    let nad = &selection.nad;
    let (state, why) = match snapshot.nad(nad) {
        _ if unclaimed.is_unreadable => {
            let why = format!("annotation {NETWORK_STATUS} cannot be read");
            (NetworkState::Unreadable, why)
        }
        None if snapshot.knows_nads_of(&nad.namespace) => {
            let why = format!("no NetworkAttachmentDefinition {nad} exists");
            (NetworkState::NadMissing, why)
        }
        Some(Err(error)) => {
            let why = format!(
                "its NetworkAttachmentDefinition cannot be read: {}",
                quoted(&error)
            );
            (NetworkState::Waiting, why)
        }
        _ if unclaimed.has_status => {
            let why = format!("annotation {NETWORK_STATUS} does not name it");
            (NetworkState::Waiting, why)
        }
        _ => (NetworkState::Waiting, String::new()),
    };
    DescribedNetwork {
        interface: selection.interface.clone(),
        why,
        ..bare(nad.to_string(), state)
    }
}

/// In place of the networks of an annotation that cannot be read.
fn unreadable(why: String) -> DescribedNetwork {
    DescribedNetwork {
        why,
        ..bare(String::new(), NetworkState::Unreadable)
    }
}

fn limits(selection: &NetworkSelection) -> Vec<DescribedLimit> {
    let directions = [Direction::Ingress, Direction::Egress].into_iter();
    let limits = directions.filter_map(|direction| {
        let limit = selection.bandwidth.of(direction)?;
        Some(DescribedLimit {
            direction,
            rate: limit.rate.bits_per_second(),
            burst: limit.burst.map(|it| it.bytes()),
            latency_ms: None,
            by: "annotation".to_owned(),
            passed_over: Vec::new(),
        })
    });
    limits.collect()
}

/// The name of a network that an annotation writes.
fn name_of(network: &NetworkName) -> String {
    match network {
        NetworkName::Default => "default".to_owned(),
        NetworkName::Attachment(name) | NetworkName::Primary(Some(name)) => {
            escaped(&name.to_string())
        }
        NetworkName::Primary(None) => "primary".to_owned(),
        NetworkName::Cni(name) => escaped(name),
    }
}
