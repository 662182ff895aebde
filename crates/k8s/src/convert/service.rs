//! Services, and what stands behind them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use netqos_core::Protocol;
use netqos_core::objects::{EndpointSlice, Service, ServicePortSpec};

use super::namespaced;
use crate::FieldError;
use crate::field::item;

/// Says which Service a slice is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A `Service`. One without virtual address (headless, or `ExternalName`) has no addresses here.
///
/// # Errors
/// An address or a port that is none, or a protocol other than the three.
pub fn service(object: &core::Service) -> Result<Service, FieldError> {
    let name = namespaced(&object.metadata)?;
    let nothing = core::ServiceSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&nothing);
    let mut addresses = BTreeSet::new();
    let listed = spec.cluster_ips.iter().flatten().enumerate();
    let listed = listed.map(|(index, text)| (item("spec.clusterIPs", index), text));
    let single = spec.cluster_ip.iter();
    let single = single.map(|text| ("spec.clusterIP".to_owned(), text));
    for (path, text) in listed.chain(single) {
        if !matches!(text.as_str(), "" | "None") {
            addresses.insert(address(text, path)?);
        }
    }
    let mut ports = Vec::new();
    for (index, port) in spec.ports.iter().flatten().enumerate() {
        let path = item("spec.ports", index);
        ports.push(port_spec(
            port.name.as_deref(),
            port.protocol.as_deref(),
            port.port,
            &path,
        )?);
    }
    Ok(Service {
        name,
        addresses,
        ports,
    })
}

/// An `EndpointSlice`; `None` for one that is of no Service. Names instead of addresses are passed
/// over, and so are ports without a number (which stand for all).
///
/// # Errors
/// An address or a port that is none, or a protocol other than the three.
pub fn endpoint_slice(
    object: &discovery::EndpointSlice,
) -> Result<Option<EndpointSlice>, FieldError> {
    let name = namespaced(&object.metadata)?;
    let labels = object.metadata.labels.as_ref();
    let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME)) else {
        return Ok(None);
    };
    let mut addresses = BTreeSet::new();
    if object.address_type != "FQDN" {
        for (index, endpoint) in object.endpoints.iter().enumerate() {
            let conditions = endpoint.conditions.as_ref();
            let serving = conditions.and_then(|conditions| conditions.serving);
            if serving == Some(false) {
                continue;
            }
            for text in &endpoint.addresses {
                let path = format!("{}.addresses", item("endpoints", index));
                addresses.insert(address(text, path)?);
            }
        }
    }
    let mut ports = Vec::new();
    for (index, port) in object.ports.iter().flatten().enumerate() {
        if let Some(number) = port.port {
            let path = item("ports", index);
            ports.push(port_spec(
                port.name.as_deref(),
                port.protocol.as_deref(),
                number,
                &path,
            )?);
        }
    }
    Ok(Some(EndpointSlice {
        name,
        service: service.as_str().into(),
        ports,
        addresses,
    }))
}

fn port_spec(
    name: Option<&str>,
    protocol: Option<&str>,
    number: i32,
    path: &str,
) -> Result<ServicePortSpec, FieldError> {
    let protocol = protocol.unwrap_or("TCP");
    let wrong = |field: &str, message: String| FieldError::new(format!("{path}.{field}"), message);
    let name: Arc<str> = name.unwrap_or_default().into();
    Ok(ServicePortSpec {
        name,
        protocol: Protocol::from_name(protocol).ok_or_else(|| {
            wrong(
                "protocol",
                format!("{protocol:?} is none of TCP, UDP, SCTP"),
            )
        })?,
        port: u16::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| wrong("port", format!("{number} is not between 1 and 65535")))?,
    })
}

pub(super) fn address(text: &str, path: String) -> Result<IpAddr, FieldError> {
    text.parse()
        .map_err(|_| FieldError::new(path, format_args!("{text:?} is no address")))
}
