//! `NetworkQoS` into [`Policy`].

use std::num::NonZeroU16;

use netqos_core::{
    Bandwidth, BitRate, ByteCount, Destination, Dscp, LabelSelector, NetworkChoice, NetworkRef,
    ObjectName, PeerSelector, Policy, PortMatch, Priority, Protocol, Rule,
};

use super::selector::at_most;
use super::{Modes, ip_block, label_selector, namespaced};
use crate::field::{child, entry, item};
use crate::{FieldError, MODE_ANNOTATION, NetworkQoS, NetworkQosSpec};

/// The most rules of an object.
const RULES: usize = 20;
/// The most destinations, and the most ports, of a rule.
const MATCHES: usize = 100;
/// The most networks by name.
const REFS: usize = 20;
/// The most kilobits of a rate or a burst.
pub(super) const KILOBITS: i64 = 4_294_967_295;
/// Bits in a kilobit.
const KILO: u64 = 1_000;

/// The policy that an object asks for. It obeys every limit of the schema and of its CEL rules.
///
/// # Errors
/// The first field that breaks one.
pub fn policy(object: &NetworkQoS) -> Result<Policy, FieldError> {
    let name = namespaced(&object.metadata)?;
    let spec = &object.spec;
    let in_spec = |error: FieldError| error.inside("spec");
    let priority = Priority::try_new(spec.priority)
        .map_err(|error| FieldError::new("spec.priority", error))?;
    one_spelling(spec)?;
    let networks = networks(spec, &name).map_err(in_spec)?;
    let pods = selector(spec.pod_selector.as_ref(), "podSelector").map_err(in_spec)?;
    if spec.egress.is_empty() {
        return Err(FieldError::new("spec.egress", "at least 1 is needed"));
    }
    at_most(spec.egress.len(), RULES, "spec.egress")?;
    let modes = modes(object)?;
    let mut rules = Vec::with_capacity(spec.egress.len());
    for (index, written) in spec.egress.iter().enumerate() {
        let path = item("spec.egress", index);
        let mut rule = rule(written).map_err(|error| error.inside(&path))?;
        rule.mode = modes.of(index);
        rules.push(rule);
    }
    Ok(Policy {
        name,
        priority,
        networks,
        pods: pods.unwrap_or_default(),
        rules,
    })
}

fn modes(object: &NetworkQoS) -> Result<Modes, FieldError> {
    let annotations = object.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(MODE_ANNOTATION)) else {
        return Ok(Modes::Enforce);
    };
    Modes::parse(text, object.spec.egress.len())
        .map_err(|message| FieldError::new(entry("metadata.annotations", MODE_ANNOTATION), message))
}

/// An object is written as okep-4380 has it or as OVN-Kubernetes ships it.
fn one_spelling(spec: &NetworkQosSpec) -> Result<(), FieldError> {
    let classifiers = || {
        spec.egress
            .iter()
            .filter_map(|rule| rule.classifier.as_ref())
    };
    for (index, rule) in spec.egress.iter().enumerate() {
        let classifier = rule.classifier.as_ref();
        if classifier.is_some_and(|one| one.port.is_some() && one.ports.is_some()) {
            let path = child(&item("spec.egress", index), "classifier");
            return Err(FieldError::new(path, "port and ports exclude each other"));
        }
    }
    let proposed = spec.net_attach_refs.is_some() || classifiers().any(|one| one.port.is_some());
    let shipped = spec.network_selectors.is_some() || classifiers().any(|one| one.ports.is_some());
    if proposed && shipped {
        return Err(FieldError::new(
            "spec",
            "netAttachRefs and classifier.port are of one spelling, networkSelectors and \
             classifier.ports of the other: use one of the two",
        ));
    }
    Ok(())
}

fn networks(spec: &NetworkQosSpec, own: &ObjectName) -> Result<NetworkChoice, FieldError> {
    let mut chosen = Vec::new();
    let refs = spec.net_attach_refs.as_deref().unwrap_or_default();
    at_most(refs.len(), REFS, "netAttachRefs")?;
    for (index, one) in refs.iter().enumerate() {
        let path = item("netAttachRefs", index);
        chosen.push(by_name(one, own).map_err(|error| error.inside(&path))?);
    }
    if let Some(selectors) = &spec.network_selectors {
        if selectors.is_empty() {
            return Err(FieldError::new("networkSelectors", "at least 1 is needed"));
        }
        for (index, one) in selectors.iter().enumerate() {
            let path = item("networkSelectors", index);
            let of_this_type = |other: &&crate::NetworkSelector| {
                other.network_selection_type == one.network_selection_type
            };
            if selectors[..index].iter().any(|other| of_this_type(&other)) {
                return Err(FieldError::new(path, "there is another one of this type"));
            }
            chosen.push(by_labels(one).map_err(|error| error.inside(&path))?);
        }
    }
    if chosen.is_empty() {
        return Ok(NetworkChoice::Default);
    }
    Ok(NetworkChoice::AnyOf(chosen))
}

fn by_name(one: &crate::NetworkAttachmentRef, own: &ObjectName) -> Result<NetworkRef, FieldError> {
    if one.name.is_empty() {
        return Err(FieldError::new("name", "empty"));
    }
    let namespace = match one.namespace.as_deref() {
        None | Some("") => &*own.namespace,
        Some(namespace) => namespace,
    };
    match one.kind.as_str() {
        "NetworkAttachmentDefinition" | "UserDefinedNetwork" => Ok(NetworkRef::Attachment(
            ObjectName::new(namespace, &one.name),
        )),
        "ClusterUserDefinedNetwork" => Ok(NetworkRef::Cluster(one.name.as_str().into())),
        other => Err(FieldError::new(
            "kind",
            format_args!(
                "{other:?} is none of NetworkAttachmentDefinition, UserDefinedNetwork, \
                 ClusterUserDefinedNetwork"
            ),
        )),
    }
}

fn by_labels(one: &crate::NetworkSelector) -> Result<NetworkRef, FieldError> {
    let kind = one.network_selection_type.as_str();
    let clusters = one.cluster_user_defined_network_selector.as_ref();
    let attachments = one.network_attachment_definition_selector.as_ref();
    for (name, there, of) in [
        (
            "clusterUserDefinedNetworkSelector",
            clusters.is_some(),
            "ClusterUserDefinedNetworks",
        ),
        (
            "networkAttachmentDefinitionSelector",
            attachments.is_some(),
            "NetworkAttachmentDefinitions",
        ),
        (
            "primaryUserDefinedNetworkSelector",
            one.primary_user_defined_network_selector.is_some(),
            "PrimaryUserDefinedNetworks",
        ),
        (
            "secondaryUserDefinedNetworkSelector",
            one.secondary_user_defined_network_selector.is_some(),
            "SecondaryUserDefinedNetworks",
        ),
    ] {
        if there != (kind == of) {
            let message = format!("has to be there with networkSelectionType {of}, and only then");
            return Err(FieldError::new(name, message));
        }
    }
    match (kind, clusters, attachments) {
        ("DefaultNetwork", ..) => Ok(NetworkRef::Default),
        (_, Some(clusters), _) => {
            let networks = label_selector(&clusters.network_selector).map_err(|error| {
                error.inside("clusterUserDefinedNetworkSelector.networkSelector")
            })?;
            Ok(NetworkRef::ClustersMatching(networks))
        }
        (_, _, Some(attachments)) => {
            let outer = "networkAttachmentDefinitionSelector";
            let at = |name: &str| child(outer, name);
            let namespaces = label_selector(&attachments.namespace_selector)
                .map_err(|error| error.inside(&at("namespaceSelector")))?;
            let networks = label_selector(&attachments.network_selector)
                .map_err(|error| error.inside(&at("networkSelector")))?;
            Ok(NetworkRef::AttachmentsMatching {
                namespaces,
                networks,
            })
        }
        _ => Err(FieldError::new(
            "networkSelectionType",
            format_args!(
                "{kind:?} is not supported: DefaultNetwork, ClusterUserDefinedNetworks and \
                 NetworkAttachmentDefinitions are"
            ),
        )),
    }
}

fn rule(written: &crate::EgressRule) -> Result<Rule, FieldError> {
    let dscp = match written.dscp {
        None => None,
        Some(number) => {
            Some(Dscp::try_new(number).map_err(|error| FieldError::new("dscp", error))?)
        }
    };
    let bandwidth = match &written.bandwidth {
        None => None,
        Some(written) => bandwidth(written).map_err(|error| error.inside("bandwidth"))?,
    };
    if dscp.is_none() && bandwidth.is_none() {
        return Err(FieldError::new(
            "",
            "a rule needs dscp, bandwidth.rate, or both",
        ));
    }
    let nothing = crate::Classifier::default();
    let classifier = written.classifier.as_ref().unwrap_or(&nothing);
    let in_classifier = |error: FieldError| error.inside("classifier");
    Ok(Rule {
        to: destinations(classifier).map_err(in_classifier)?,
        ports: ports(classifier).map_err(in_classifier)?,
        dscp,
        bandwidth,
        mode: netqos_core::Mode::Enforce,
    })
}

fn bandwidth(written: &crate::Bandwidth) -> Result<Option<Bandwidth>, FieldError> {
    let kilobits = |value: Option<i64>, name: &str| match value {
        None => Ok(None),
        Some(value @ 1..=KILOBITS) => Ok(Some(value.unsigned_abs() * KILO)),
        Some(value) => Err(FieldError::new(
            name,
            format_args!("{value} is not between 1 and {KILOBITS}"),
        )),
    };
    let rate = kilobits(written.rate, "rate")?;
    let burst = kilobits(written.burst, "burst")?;
    match (rate, burst) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(FieldError::new("burst", "burst needs rate")),
        (Some(rate), burst) => Ok(Some(Bandwidth {
            rate: BitRate::from_bits_per_second(rate),
            burst: burst.map(ByteCount::from_bits),
        })),
    }
}

fn destinations(classifier: &crate::Classifier) -> Result<Vec<Destination>, FieldError> {
    let to = classifier.to.as_deref().unwrap_or_default();
    at_most(to.len(), MATCHES, "to")?;
    let destinations = to.iter().enumerate().map(|(index, written)| {
        destination(written).map_err(|error| error.inside(&item("to", index)))
    });
    destinations.collect()
}

fn destination(written: &crate::Destination) -> Result<Destination, FieldError> {
    let namespaces = selector(written.namespace_selector.as_ref(), "namespaceSelector")?;
    let pods = selector(written.pod_selector.as_ref(), "podSelector")?;
    match (&written.ip_block, namespaces, pods) {
        (None, None, None) => Ok(Destination::Anywhere),
        (None, namespaces, pods) => Ok(Destination::Pods(PeerSelector { namespaces, pods })),
        (Some(block), None, None) => {
            let block = ip_block::ip_block(block).map_err(|error| error.inside("ipBlock"))?;
            Ok(Destination::Block(block))
        }
        (Some(_), ..) => Err(FieldError::new(
            "",
            "Can't specify both podSelector/namespaceSelector and ipBlock",
        )),
    }
}

/// An entry that says nothing restricts nothing: alone it is as good as no list, beside others it
/// is passed over, as by OVN-Kubernetes.
fn ports(classifier: &crate::Classifier) -> Result<Vec<PortMatch>, FieldError> {
    if let Some(port) = &classifier.port {
        let port = port_match(port).map_err(|error| error.inside("port"))?;
        return Ok(port.into_iter().collect());
    }
    let ports = classifier.ports.as_deref().unwrap_or_default();
    at_most(ports.len(), MATCHES, "ports")?;
    let matches = ports.iter().enumerate().filter_map(|(index, port)| {
        let path = || item("ports", index);
        port_match(port)
            .map_err(|error| error.inside(&path()))
            .transpose()
    });
    matches.collect()
}

fn port_match(written: &crate::Port) -> Result<Option<PortMatch>, FieldError> {
    let protocol = match written.protocol.as_deref() {
        None => None,
        Some(name) => Some(Protocol::from_name(name).ok_or_else(|| {
            FieldError::new(
                "protocol",
                format_args!("{name:?} is none of TCP, UDP, SCTP"),
            )
        })?),
    };
    let port = match written.port {
        None => None,
        Some(number) => {
            let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
            Some(port.ok_or_else(|| {
                FieldError::new("port", format_args!("{number} is not between 1 and 65535"))
            })?)
        }
    };
    let says_something = protocol.is_some() || port.is_some();
    Ok(says_something.then_some(PortMatch { protocol, port }))
}

fn selector(
    written: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
    name: &str,
) -> Result<Option<LabelSelector>, FieldError> {
    written
        .map(|written| label_selector(written).map_err(|error| error.inside(name)))
        .transpose()
}
