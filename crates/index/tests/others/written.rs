//! Objects as people and controllers write them, and what they are to be read as.

use std::sync::Arc;

use netqos_core::objects::{
    EndpointSlice, NetworkDefinition, NetworkName, Pod, PodAddresses, Service, ServicePortSpec,
};
use netqos_core::{Labels, Limit, ObjectName};
use netqos_index::Change;
use serde_json::{Map, Value, json};

mod policy;

use policy::policy;

/// How an object is written, where there are several ways.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Policies as OVN-Kubernetes ships them, and not as the proposal has them; a pod's addresses
    /// in the annotation of OVN-Kubernetes, and not in that of Multus.
    pub ovn: bool,
    /// What may be left out is left out.
    pub short: bool,
    /// A `UserDefinedNetwork` in place of a definition; a pod without uid.
    pub rare: bool,
}

/// An object in a manifest, and what it is read as, which is what can be said of it in this style.
/// `None` for what has no manifest.
pub fn written(change: Change, style: Style) -> Option<(Value, Change)> {
    Some(match change {
        Change::Namespace(mut it) => {
            let metadata = json!({"name": it.name, "labels": it.labels});
            // A server gives it to each.
            let own = "kubernetes.io/metadata.name".into();
            it.labels.insert(own, it.name.clone());
            (
                object("v1", "Namespace", metadata, []),
                Change::Namespace(it),
            )
        }
        Change::ClusterNetwork(it) => {
            let metadata = json!({"name": it.name, "labels": it.labels});
            let kind = "ClusterUserDefinedNetwork";
            let value = object("k8s.ovn.org/v1", kind, metadata, []);
            (value, Change::ClusterNetwork(it))
        }
        Change::NetworkDefinition(it) => {
            let (value, it) = definition(it, style);
            (value, Change::NetworkDefinition(it))
        }
        Change::Pod(it) => {
            let (value, it) = pod(it, style);
            (value, Change::Pod(it))
        }
        Change::Policy(it) => {
            let (value, it) = policy(it, style);
            (value, Change::Policy(it))
        }
        Change::Service(it) => (service(&it, style), Change::Service(it)),
        Change::EndpointSlice(it) => (slice(&it, style), Change::EndpointSlice(it)),
        _ => return None,
    })
}

fn object<const N: usize>(
    version: &str,
    kind: &str,
    metadata: Value,
    parts: [(&str, Value); N],
) -> Value {
    let mut value = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    for (name, part) in parts {
        value[name] = part;
    }
    value
}

fn metadata(name: &ObjectName, labels: &Labels) -> Value {
    json!({"namespace": name.namespace, "name": name.name, "labels": labels})
}

fn definition(mut it: NetworkDefinition, style: Style) -> (Value, NetworkDefinition) {
    let mut metadata = metadata(&it.name, &it.labels);
    if style.rare {
        it.cluster_network = None;
        it.is_of_ovn = true;
        it.owner_uid = Some("".into());
        it.cni_name = format!("{}_{}", it.name.namespace, it.name.name).into();
        let spec = [("spec", json!({"topology": "Layer2"}))];
        return (
            object("k8s.ovn.org/v1", "UserDefinedNetwork", metadata, spec),
            it,
        );
    }
    if let Some(owner) = &it.cluster_network {
        let kind = "ClusterUserDefinedNetwork";
        metadata["ownerReferences"] =
            json!([{"apiVersion": "k8s.ovn.org/v1", "kind": kind, "name": owner, "uid": "u"}]);
    }
    let plugin = if it.is_of_ovn {
        "ovn-k8s-cni-overlay"
    } else {
        "macvlan"
    };
    let config = json!({"cniVersion": "1.0.0", "name": it.cni_name, "type": plugin});
    let spec = [("spec", json!({"config": config.to_string()}))];
    let kind = "NetworkAttachmentDefinition";
    (object("k8s.cni.cncf.io/v1", kind, metadata, spec), it)
}

fn pod(mut it: Pod, style: Style) -> (Value, Pod) {
    let mut metadata = metadata(&it.id.name, &it.labels);
    match style.rare {
        true => it.id.uid = it.id.name.to_string().into(),
        false => metadata["uid"] = json!(it.id.uid),
    }
    let mut spec = json!({"nodeName": it.node});
    if it.host_network {
        spec["hostNetwork"] = json!(true);
    }
    let mut status = json!({"phase": "Running"});
    match (it.finished, style.ovn) {
        (false, _) => {}
        (true, true) => status["phase"] = json!("Failed"),
        (true, false) => metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
    }
    let mut annotations = Map::new();
    let rate = |limit: Limit| json!(format!("{}k", limit.rate.bits_per_second() / 1000));
    for (name, limit) in [("ingress", it.limits.ingress), ("egress", it.limits.egress)] {
        if let Some(limit) = limit {
            annotations.insert(format!("kubernetes.io/{name}-bandwidth"), rate(limit));
        }
    }
    let (default, others) = addresses_that_can_be_said(std::mem::take(&mut it.addresses));
    let mut multus = Vec::new();
    let mut ovn = Map::new();
    // Without an address in the status, annotations do not count.
    let has_sandbox = default.is_some();
    if let Some(mut default) = default {
        let ips: Vec<_> = default.addresses.iter().collect();
        let all = ips.iter().map(|ip| json!({"ip": ip}));
        status["podIP"] = json!(ips[0]);
        status["podIPs"] = all.collect();
        match &default.interface {
            Some(interface) => multus
                .push(json!({"name": "cbr0", "interface": interface, "ips": ips, "default": true})),
            None => default.interface = Some("eth0".into()),
        }
        it.addresses.push(default);
    }
    for said in others {
        let name = match &said.network {
            NetworkName::Attachment(name) => name.to_string(),
            NetworkName::Cni(name) => name.to_string(),
            NetworkName::Default | NetworkName::Primary(_) => continue,
        };
        let mut entry = json!({"name": name, "interface": said.interface});
        // A network that the pod is on twice cannot be told apart in that of OVN-Kubernetes.
        let mut same = multus.iter().filter(|entry| entry["name"] == name);
        if style.ovn && same.next().is_none() && matches!(said.network, NetworkName::Attachment(_))
        {
            let all = said.addresses.iter().map(|ip| format!("{ip}/24"));
            ovn.insert(name, json!({"ip_addresses": all.collect::<Vec<_>>()}));
        } else {
            entry["ips"] = json!(said.addresses);
        }
        multus.push(entry);
        // Nor does an address of the default network's interface.
        let is_default = matches!(said.network, NetworkName::Cni(_))
            && said.interface.as_deref() == Some("eth0");
        if has_sandbox && !is_default {
            it.addresses.push(said);
        }
    }
    let texts = [
        ("k8s.v1.cni.cncf.io/network-status", json!(multus)),
        ("k8s.ovn.org/pod-networks", Value::Object(ovn)),
    ];
    for (name, text) in texts {
        annotations.insert(name.to_owned(), json!(text.to_string()));
    }
    metadata["annotations"] = Value::Object(annotations);
    let parts = [("spec", spec), ("status", status)];
    (object("v1", "Pod", metadata, parts), it)
}

/// Those on the default network, of which there are some, and all others.
fn addresses_that_can_be_said(
    said: Vec<PodAddresses>,
) -> (Option<PodAddresses>, Vec<PodAddresses>) {
    let (default, others): (Vec<_>, Vec<_>) = said
        .into_iter()
        .partition(|said| said.network == NetworkName::Default);
    let mut default = default.into_iter();
    (default.find(|said| !said.addresses.is_empty()), others)
}

fn service(it: &Service, style: Style) -> Value {
    let ips: Vec<_> = it.addresses.iter().collect();
    let mut spec = json!({"ports": ports(&it.ports, style)});
    match ips.first() {
        Some(first) => {
            spec["clusterIP"] = json!(first);
            spec["clusterIPs"] = json!(ips);
        }
        None => spec["clusterIP"] = json!("None"),
    }
    let metadata = metadata(&it.name, &Labels::new());
    object("v1", "Service", metadata, [("spec", spec)])
}

fn slice(it: &EndpointSlice, style: Style) -> Value {
    let label: (Arc<str>, _) = ("kubernetes.io/service-name".into(), it.service.clone());
    let metadata = metadata(&it.name, &[label].into());
    let serving = it.addresses.iter();
    let mut endpoints: Vec<_> = serving.map(|ip| json!({"addresses": [ip]})).collect();
    if !style.short {
        let gone = json!({"addresses": ["10.0.0.99"], "conditions": {"serving": false}});
        endpoints.push(gone);
    }
    let parts = [
        ("addressType", json!("IPv4")),
        ("endpoints", json!(endpoints)),
        ("ports", ports(&it.ports, style)),
    ];
    object("discovery.k8s.io/v1", "EndpointSlice", metadata, parts)
}

fn ports(ports: &[ServicePortSpec], style: Style) -> Value {
    let ports = ports.iter().map(|port| {
        let mut value = json!({"port": port.port});
        let protocol = port.protocol.to_string();
        if !style.short || protocol != "TCP" {
            value["protocol"] = json!(protocol);
        }
        if !style.short || !port.name.is_empty() {
            value["name"] = json!(port.name);
        }
        value
    });
    ports.collect()
}
