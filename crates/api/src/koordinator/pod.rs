//! What a single pod asks for: the annotation `koordinator.sh/networkQOS`.

use std::num::NonZeroU16;

use netqos_core::BitRate;
use netqos_core::classes::TrafficClass;
use serde_json::{Map, Value};

use super::class::QosClass;
use super::network_qos::{Ask, Mistake, NETWORK_KEYS, NetworkQos, check_keys, field};

/// The annotation.
pub const NETWORK_QOS_ANNOTATION: &str = "koordinator.sh/networkQOS";

/// The least rate of a pod: what Kubernetes' own annotations may say.
const LEAST: BitRate = BitRate::from_bits_per_second(1_000);

/// What a pod asks for, and what single ports of it do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNetworkQos {
    /// The pod's class, before its label's.
    pub class: Option<TrafficClass>,
    /// What the pod asks for: percentages are of the line.
    pub qos: NetworkQos,
    /// What traffic of single ports asks for.
    pub ports: Vec<PortNetworkQos>,
}

/// What the traffic of one port of a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortNetworkQos {
    /// The port on the pod: the source of what it sends, the destination of what it gets.
    pub port: NonZeroU16,
    /// Its class, if it is another one than the pod's.
    pub class: Option<TrafficClass>,
    /// What it asks for.
    pub qos: NetworkQos,
}

impl PodNetworkQos {
    /// Reads the annotation's value. The names of its fields may be written in any case, as Go reads
    /// them; numbers are percentages of the line, texts quantities in bits per second.
    ///
    /// # Errors
    /// Everything that cannot be followed.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            let what = format!("is no JSON object: {error}");
            vec![Mistake::new(NETWORK_QOS_ANNOTATION, what)]
        })?;
        let mut mistakes = Vec::new();
        let path = NETWORK_QOS_ANNOTATION;
        let pod = Self {
            class: read_class(&object, path, &mut mistakes),
            qos: read_qos(&object, path, &mut mistakes),
            ports: read_ports(&object, path, &mut mistakes),
        };
        if mistakes.is_empty() {
            Ok(pod)
        } else {
            Err(mistakes)
        }
    }
}

fn read_qos(object: &Map<String, Value>, path: &str, mistakes: &mut Vec<Mistake>) -> NetworkQos {
    let keys = [&NETWORK_KEYS[..4], &PORTS[..], &["QoSClass", "port"]].concat();
    check_keys(object, &keys, path, mistakes);
    let qos = NetworkQos::read(object, path, LEAST, mistakes);
    for (name, ask) in [("ingress", qos.ingress), ("egress", qos.egress)] {
        if is_above(ask) {
            let what = format!("{name}Request is above {name}Limit");
            mistakes.push(Mistake::new(path, what));
        }
    }
    qos
}

/// True where a request is above its limit on every line. (Of a percentage and a rate only the line
/// can tell.)
fn is_above(Ask { request, limit }: Ask) -> bool {
    use super::amount::Amount::{Percent, Rate};
    match (request, limit) {
        (Some(Percent(request)), Some(Percent(limit))) => request > limit,
        (Some(Rate(request)), Some(Rate(limit))) => {
            limit > BitRate::from_bits_per_second(0) && request > limit
        }
        _ => false,
    }
}

fn read_class(
    object: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<TrafficClass> {
    let mut wrong = |what: String| {
        mistakes.push(Mistake::new(format!("{path}.QoSClass"), what));
        None
    };
    match field(object, "QoSClass")? {
        Value::Null => None,
        Value::String(name) if name.is_empty() => None,
        Value::String(name) => match name.parse::<QosClass>() {
            Ok(class) => Some(class.traffic()),
            Err(error) => wrong(error.to_string()),
        },
        other => wrong(format!("{other} is no text")),
    }
}

/// The proposal calls the list by two names.
const PORTS: [&str; 2] = ["PortsNetworkQOS", "PortsNetwrokQOS"];

fn read_ports(
    object: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Vec<PortNetworkQos> {
    let found = PORTS.iter().find_map(|name| field(object, name));
    let ports = match found {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(ports)) => ports,
        Some(_) => {
            mistakes.push(Mistake::new(format!("{path}.{}", PORTS[0]), "is no list"));
            return Vec::new();
        }
    };
    let mut read: Vec<PortNetworkQos> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}.{}[{index}]", PORTS[0]);
        let Value::Object(object) = port else {
            mistakes.push(Mistake::new(path, "is no object"));
            continue;
        };
        let number = field(object, "port").and_then(Value::as_u64);
        let number = number
            .and_then(|port| u16::try_from(port).ok())
            .and_then(NonZeroU16::new);
        let class = read_class(object, &path, mistakes);
        let qos = read_qos(object, &path, mistakes);
        match number {
            None => mistakes.push(Mistake::new(format!("{path}.port"), "a port is 1 to 65535")),
            Some(port) if read.iter().any(|other| other.port == port) => {
                let what = format!("port {port} stands there twice");
                mistakes.push(Mistake::new(path, what));
            }
            Some(port) => read.push(PortNetworkQos { port, class, qos }),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::super::amount::Amount;
    use super::*;

    const fn bits(bits: u64) -> Option<Amount> {
        Some(Amount::Rate(BitRate::from_bits_per_second(bits)))
    }

    #[test]
    fn what_is_shipped_and_what_was_proposed() {
        let shipped = PodNetworkQos::parse(r#"{"IngressLimit": "1000", "EgressLimit": "2000"}"#);
        let shipped = shipped.unwrap();
        assert_eq!(
            shipped.qos.ingress,
            Ask {
                request: None,
                limit: bits(1000)
            }
        );
        assert_eq!(
            shipped.qos.egress,
            Ask {
                request: None,
                limit: bits(2000)
            }
        );

        let proposed = PodNetworkQos::parse(
            r#"{"ingressRequest": 10, "egressRequest": "5M", "egressLimit": "20M", "QoSClass": "BE",
                "PortsNetwrokQOS": [{"Port": 443, "qosclass": "LS", "egressLimit": 50}]}"#,
        )
        .unwrap();
        assert_eq!(proposed.class, Some(TrafficClass::BestEffort));
        assert_eq!(proposed.qos.ingress.request, Some(Amount::Percent(10)));
        assert_eq!(
            proposed.qos.egress,
            Ask {
                request: bits(5_000_000),
                limit: bits(20_000_000)
            }
        );
        let [port] = proposed.ports[..] else {
            panic!("{proposed:?}")
        };
        assert_eq!(
            (port.port.get(), port.class),
            (443, Some(TrafficClass::LatencySensitive))
        );
        assert_eq!(port.qos.egress.limit, Some(Amount::Percent(50)));
        assert_eq!(PodNetworkQos::parse("{}"), Ok(PodNetworkQos::default()));
    }

    #[test]
    fn what_cannot_be_followed() {
        for (text, mistakes) in [
            ("", &["is no JSON object: EOF"][..]),
            ("[]", &["is no JSON object"]),
            (
                r#"{"ingressLimit": 200, "egressRequest": "5X", "qosClass": "LLS"}"#,
                &[
                    "LLS",
                    "ingressLimit: must be percentage value just in 0-100: 200 is no percentage",
                    "egressRequest: \"5X\"",
                ],
            ),
            (
                r#"{"egressRequest": 50, "egressLimit": 40}"#,
                &["egressRequest is above egressLimit"],
            ),
            (
                r#"{"PortsNetworkQOS": [{"port": 0}, 7, {"port": 80}, {"port": 80}]}"#,
                &[
                    "[0].port: a port is 1 to 65535",
                    "[1]: is no object",
                    "port 80 stands there twice",
                ],
            ),
        ] {
            let found = PodNetworkQos::parse(text).unwrap_err();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), mistakes.len(), "{text}: {found:?}");
            for (found, expected) in found.iter().zip(mistakes) {
                assert!(found.contains(expected), "{text}: {found}");
            }
        }
    }
}
