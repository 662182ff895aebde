//! Policies, in both spellings.

use netqos_core::{
    Destination, Dscp, LabelSelector, Labels, Mode, NetworkChoice, NetworkRef, ObjectName,
    Operator, Policy, PortMatch, Rule,
};
use serde_json::{Map, Value, json};

use super::{Style, metadata, object};

/// A policy in one of the two spellings, with what can be said in it.
pub fn policy(mut it: Policy, style: Style) -> (Value, Policy) {
    let mut spec = json!({"priority": it.priority});
    if !(style.short && it.pods.requirements().is_empty()) {
        spec["podSelector"] = selector(&it.pods, style);
    }
    if let NetworkChoice::AnyOf(networks) = &mut it.networks {
        let (field, value) = match style.ovn {
            true => ("networkSelectors", network_selectors(networks, style)),
            false => ("netAttachRefs", references(networks, &it.name, style)),
        };
        match networks.is_empty() {
            true => it.networks = NetworkChoice::Default,
            false => spec[field] = value,
        }
    }
    if it.rules.is_empty() {
        it.rules.push(Rule {
            to: vec![],
            ports: vec![],
            dscp: None,
            bandwidth: None,
            mode: Mode::Enforce,
        });
    }
    let rules = it.rules.iter_mut().map(|it| rule(it, style));
    spec["egress"] = rules.collect();
    let mut metadata = metadata(&it.name, &Labels::new());
    let shadow = |(place, rule): (usize, &Rule)| (rule.mode == Mode::Shadow).then_some(place);
    let shadow: Vec<_> = it.rules.iter().enumerate().filter_map(shadow).collect();
    let list = || {
        let places: Vec<_> = shadow.iter().map(ToString::to_string).collect();
        format!("shadow:{}", places.join(","))
    };
    let mode = match (shadow.len(), style.short) {
        (0, true) => None,
        (0, false) => Some("enforce".to_owned()),
        (count, true) if count == it.rules.len() => Some("shadow".to_owned()),
        _ => Some(list()),
    };
    if let Some(mode) = mode {
        metadata["annotations"] = json!({"netqos.io/mode": mode});
    }
    let value = object(
        "k8s.ovn.org/v1alpha1",
        "NetworkQoS",
        metadata,
        [("spec", spec)],
    );
    (value, it)
}

/// The proposal's way; leaves those networks that can be named.
fn references(networks: &mut Vec<NetworkRef>, policy: &ObjectName, style: Style) -> Value {
    let mut references = Vec::new();
    networks.retain(|network| {
        let reference = match network {
            NetworkRef::Attachment(of) => {
                let kind = match style.rare {
                    true => "UserDefinedNetwork",
                    false => "NetworkAttachmentDefinition",
                };
                let mut reference = json!({"kind": kind, "name": of.name});
                if !style.short || of.namespace != policy.namespace {
                    reference["namespace"] = json!(of.namespace);
                }
                reference
            }
            NetworkRef::Cluster(name) => json!({"kind": "ClusterUserDefinedNetwork", "name": name}),
            _ => return false,
        };
        references.push(reference);
        true
    });
    Value::Array(references)
}

/// The way of OVN-Kubernetes; leaves the first of each kind.
fn network_selectors(networks: &mut Vec<NetworkRef>, style: Style) -> Value {
    let mut selectors: Vec<Value> = Vec::new();
    networks.retain(|network| {
        let (kind, parts) = match network {
            NetworkRef::Default => ("DefaultNetwork", json!({})),
            NetworkRef::AttachmentsMatching {
                namespaces,
                networks,
            } => {
                let namespaces = selector(namespaces, style);
                let both = json!({"namespaceSelector": namespaces,
                    "networkSelector": selector(networks, style)});
                let parts = json!({"networkAttachmentDefinitionSelector": both});
                ("NetworkAttachmentDefinitions", parts)
            }
            NetworkRef::ClustersMatching(networks) => {
                let one = json!({"networkSelector": selector(networks, style)});
                let parts = json!({"clusterUserDefinedNetworkSelector": one});
                ("ClusterUserDefinedNetworks", parts)
            }
            _ => return false,
        };
        let mut known = selectors.iter().map(|one| &one["networkSelectionType"]);
        let is_new = known.all(|known| known != kind);
        if is_new {
            let mut value = parts;
            value["networkSelectionType"] = json!(kind);
            selectors.push(value);
        }
        is_new
    });
    Value::Array(selectors)
}

fn rule(it: &mut Rule, style: Style) -> Value {
    if it.dscp.is_none() && it.bandwidth.is_none() {
        it.dscp = Dscp::try_new(0).ok();
    }
    let mut value = json!({});
    if let Some(dscp) = it.dscp {
        value["dscp"] = json!(dscp.get());
    }
    if let Some(bandwidth) = it.bandwidth {
        value["bandwidth"] = json!({"rate": bandwidth.rate.bits_per_second() / 1000});
        if let Some(burst) = bandwidth.burst {
            value["bandwidth"]["burst"] = json!(burst.bytes() / 125);
        }
    }
    let mut classifier = json!({});
    if !style.short || !it.to.is_empty() {
        let to = it.to.iter().map(|to| destination(to, style));
        classifier["to"] = to.collect();
    }
    let says_something = |it: &PortMatch| it.protocol.is_some() || it.port.is_some();
    if !style.ovn {
        it.ports.truncate(1);
    }
    let port = |it: &PortMatch| {
        let mut value = json!({});
        if let Some(protocol) = it.protocol {
            value["protocol"] = json!(protocol.to_string());
        }
        if let Some(port) = it.port {
            value["port"] = json!(port);
        }
        value
    };
    let mut ports = it.ports.iter().map(port);
    match style.ovn {
        true => classifier["ports"] = ports.collect(),
        false => classifier["port"] = ports.next().unwrap_or(json!({})),
    }
    // What says nothing is passed over.
    it.ports.retain(says_something);
    if !style.short || classifier != json!({}) {
        value["classifier"] = classifier;
    }
    value
}

fn destination(it: &Destination, style: Style) -> Value {
    match it {
        Destination::Anywhere => json!({}),
        Destination::Block(block) => {
            let mut value = json!({"cidr": block.cidr()});
            if !style.short || !block.except().is_empty() {
                value["except"] = json!(block.except());
            }
            json!({"ipBlock": value})
        }
        Destination::Pods(peers) => {
            let mut value = json!({});
            for (name, peers) in [
                ("podSelector", &peers.pods),
                ("namespaceSelector", &peers.namespaces),
            ] {
                if let Some(peers) = peers {
                    value[name] = selector(peers, style);
                }
            }
            value
        }
    }
}

fn selector(it: &LabelSelector, style: Style) -> Value {
    let mut labels = Map::new();
    let mut expressions = Vec::new();
    for requirement in it.requirements() {
        let key = requirement.key.to_string();
        let mut expression = json!({"key": key});
        expression["operator"] = match &requirement.operator {
            Operator::In(values) => {
                let only = values.first().filter(|_| values.len() == 1);
                if let Some(only) = only
                    && style.short
                    && !labels.contains_key(&key)
                {
                    labels.insert(key, json!(only));
                    continue;
                }
                expression["values"] = json!(values);
                json!("In")
            }
            Operator::NotIn(values) => {
                expression["values"] = json!(values);
                json!("NotIn")
            }
            Operator::Exists => json!("Exists"),
            Operator::DoesNotExist => json!("DoesNotExist"),
        };
        expressions.push(expression);
    }
    let mut value = json!({});
    if !labels.is_empty() {
        value["matchLabels"] = Value::Object(labels);
    }
    if !expressions.is_empty() {
        value["matchExpressions"] = Value::Array(expressions);
    }
    value
}
