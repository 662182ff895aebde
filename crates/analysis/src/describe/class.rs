//! Of which class of its node's lines a pod's traffic is, and what it asks for of them.

use netqos_api::koordinator::{Amount, Ask, NetworkQos, PodClass};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;
use serde::Serialize;

/// A pod's class of its node's lines. What it has of them says its node (`netqos status --pod`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedClass {
    /// `system`, `latency-sensitive` or `best-effort`.
    pub class: String,
    /// Who says so: an annotation or label with its key, or Kubernetes.
    pub by: String,
    /// What it asks for; nothing: it has its part of its class's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<DescribedAsk>,
}

/// What a pod asks for in one direction of each line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedAsk {
    /// `ingress` or `egress`.
    pub direction: Direction,
    /// The port on the pod; absent: of all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The class of that port, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What is to be guaranteed: a part of the line (`20 %`), or a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What is not to be exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

impl DescribedClass {
    pub(super) fn of(pod: &PodClass) -> Self {
        let asked = pod.asked();
        let ports = asked.ports.iter();
        let ports = ports.flat_map(|it| asks(&it.qos, Some(it.port.get()), it.class));
        Self {
            class: pod.class().to_string(),
            by: { pod.said_by() }.unwrap_or_else(|| PodClass::KUBERNETES.to_owned()),
            asks: asks(&asked.qos, None, None).chain(ports).collect(),
        }
    }
}

/// What is said of each direction, where anything is.
fn asks(
    qos: &NetworkQos,
    port: Option<u16>,
    class: Option<TrafficClass>,
) -> impl Iterator<Item = DescribedAsk> {
    let ways = [
        (Direction::Ingress, qos.ingress),
        (Direction::Egress, qos.egress),
    ];
    let ways = ways.into_iter();
    let said = ways.filter(move |(_, ask)| *ask != Ask::default() || class.is_some());
    said.map(move |(direction, Ask { request, limit })| DescribedAsk {
        direction,
        port,
        class: class.map(|it| it.to_string()),
        request: request.map(amount),
        limit: limit.map(amount),
    })
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Percent(percent) => format!("{percent} %"),
        Amount::Rate(rate) => rate.to_string(),
    }
}
