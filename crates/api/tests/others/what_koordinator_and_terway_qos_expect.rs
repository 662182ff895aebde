//! Cases from the public tests of Koordinator and terway-qos (their places stand beside each), and
//! some derived from their code: `koordinator/vectors.json`.

use std::collections::BTreeMap;

use netqos_api::koordinator::class::{KubernetesClass, traffic_class};
use netqos_api::koordinator::{
    Amount, BackendKind, NETWORK_QOS_ANNOTATION, NetworkQos, NodeSlo, PodNetworkQos, RESOURCE_QOS,
    SYSTEM, SloConfig, annotated,
};
use netqos_api::terway::{GlobalBps, PercentUnit, PodEntry, PodRates, pod_json};
use netqos_core::{BitRate, Labels};
use netqos_netlink::Handle;
use serde_json::{Map, Value, json};

const VECTORS: &str = include_str!("../koordinator/vectors.json");

#[test]
fn every_case_comes_out_as_there() {
    let document: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = document["vectors"].as_array().unwrap();
    assert!(cases.len() >= 33);
    for case in cases {
        let (input, expected) = (&case["input"], &case["expected"]);
        let found = match case["component"].as_str().unwrap() {
            "global_bps_config text" => global_text(input),
            "terway-qos reader of global_bps_config" => read_global(input, expected),
            "NodeSLO -> global_bps_config (bytes/s)" => node_slo_to_file(input, expected),
            "NodeSLO -> global_bps_config" => percent_quirk(input),
            "terwayqos.parseQuantity(value,total_bits)" => quantity_in_bytes(input),
            "terwayqos.parseQoS" => class_in_bytes(input),
            "pod annotation -> bytes/s" => pod_annotation(input),
            "pod -> prio (0/1/2)" => priority(input),
            "terwayqos enablement" => enablement(input),
            "tc plugin NodeSLO -> NetQosGlobalConfig (BITS/s)" => global_in_bits(input),
            "tc.getBandwidthVal(total,value) (bits/s)" => amount_in_bits(input),
            "slo-controller-config webhook" => webhook(input),
            "system-config -> NodeSLO.systemStrategy.totalNetworkBandwidth" => total(input),
            "node annotation" => node_annotation(input),
            "pod.json" => pod_file(input),
            "getMinorId" => minor(input),
            other => panic!("a case of a new kind: {other}"),
        };
        assert_eq!(&found, expected, "{}", case["id"]);
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    object(value)
        .into_iter()
        .map(|(key, value)| (key, value.as_str().unwrap().to_owned()))
        .collect()
}

fn labels(value: &Value) -> Labels {
    let texts = texts(value).into_iter();
    texts
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn slo(input: &Value) -> NodeSlo {
    NodeSlo::from_spec(&object(&input["nodeSLOSpec"])).unwrap()
}

fn bits(bits: u64) -> BitRate {
    BitRate::from_bits_per_second(bits)
}

/// The names of the file's lines, and those of the proposal's JSON.
fn offline(name: &str) -> String {
    name.replace("offline_", "")
}

fn global_text(input: &Value) -> Value {
    let fields: Map<String, Value> = object(input)
        .into_iter()
        .map(|(key, value)| (offline(&key), value))
        .collect();
    let config: GlobalBps = serde_json::from_value(fields.into()).unwrap();
    json!({"file": config.to_string()})
}

/// Of all that was read, what the case speaks of.
fn fields(config: GlobalBps, of: &Value) -> Value {
    let all = serde_json::to_value(config).unwrap();
    let of = object(of).into_iter();
    of.map(|(name, _)| (name.clone(), all[offline(&name)].clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn read_global(input: &Value, expected: &Value) -> Value {
    let config = GlobalBps::parse(input["file"].as_str().unwrap()).unwrap();
    fields(config, expected)
}

fn node_slo_to_file(input: &Value, expected: &Value) -> Value {
    let slo = slo(input);
    assert_eq!(slo.policy, Some(BackendKind::TerwayQos));
    let config = GlobalBps::of_node_slo(&slo, PercentUnit::Bytes);
    json!({"fields": fields(config, &expected["fields"]), "file": config.to_string()})
}

fn percent_quirk(input: &Value) -> Value {
    let slo = slo(input);
    let theirs = GlobalBps::of_node_slo(&slo, PercentUnit::Bits);
    let right = GlobalBps::of_node_slo(&slo, PercentUnit::Bytes);
    // What netqos writes for terway-qos, it takes.
    let ours = GlobalBps::for_terway(&slo.shares(slo.total.unwrap()).unwrap());
    assert_eq!(ours.check(), Ok(()));
    json!({
        "upstream_file": theirs.to_string(),
        "correct_file": right.to_string(),
        "terway_qos_accepts_upstream": theirs.check().is_ok(),
        "terway_qos_accepts_correct": right.check().is_ok(),
    })
}

fn quantity_in_bytes(input: &Value) -> Value {
    let total = bits(input["total_bits"].as_u64().unwrap());
    let bytes = match &input["value"] {
        Value::Null => 0,
        value => Amount::from_value(value)
            .unwrap()
            .of(total)
            .bytes_per_second(),
    };
    json!({"result": bytes})
}

fn class_in_bytes(input: &Value) -> Value {
    let spec = json!({
        "resourceQOSStrategy": {"lsClass": {"networkQOS": input["networkQOS"]}},
        "systemStrategy": {"totalNetworkBandwidth": input["total"].to_string()},
    });
    let slo = NodeSlo::from_spec(&object(&spec)).unwrap();
    let config = GlobalBps::of_node_slo(&slo, PercentUnit::Bytes);
    json!({"ingressLimitBps": config.l1_rx_bps_max})
}

fn rates(annotations: &BTreeMap<String, String>) -> PodRates {
    let qos: NetworkQos = annotations
        .get(NETWORK_QOS_ANNOTATION)
        .map(|text| PodNetworkQos::parse(text).unwrap().qos)
        .unwrap_or_default();
    let limit = |amount: Option<Amount>| amount.map(|amount| amount.of(bits(0)));
    PodRates::of(limit(qos.ingress.limit), limit(qos.egress.limit))
}

fn pod_annotation(input: &Value) -> Value {
    let rates = rates(&texts(&input["annotations"]));
    json!({"ingress": rates.ingress_bandwidth, "egress": rates.egress_bandwidth})
}

fn priority(input: &Value) -> Value {
    let kubernetes = input["status.qosClass"]
        .as_str()
        .and_then(KubernetesClass::named);
    let (class, wrong) = traffic_class(&labels(&input["labels"]), kubernetes);
    assert_eq!(wrong, None);
    json!({"prio": class.priority()})
}

fn enablement(input: &Value) -> Value {
    let enabled = slo(input).policy == Some(BackendKind::TerwayQos);
    let updated = slo(input) != NodeSlo::default();
    json!({"enabled": enabled, "updated": updated})
}

fn global_in_bits(input: &Value) -> Value {
    let config = GlobalBps::of_node_slo(&slo(input), PercentUnit::Bytes);
    let bytes = object(&serde_json::to_value(config).unwrap());
    let bits = bytes.into_iter();
    bits.map(|(name, value)| (name, json!(value.as_u64().unwrap() * 8)))
        .collect::<Map<_, _>>()
        .into()
}

/// What tc's part of koordlet takes for zero is refused here, and not taken at all.
fn amount_in_bits(input: &Value) -> Value {
    let total = bits(input["total"].as_u64().unwrap());
    let amount = Amount::from_value(&input["value"]);
    let found = amount.map_or(0, |amount| amount.of(total).bits_per_second());
    json!({"result": found})
}

fn webhook(input: &Value) -> Value {
    let data = [RESOURCE_QOS, SYSTEM].map(|key| (key.to_owned(), input[key].to_string()));
    let mut config = SloConfig::default();
    let mut unreadable = config.update(&data.into()).err().unwrap_or_default();
    // It passes "50m", a twentieth of a bit.
    unreadable.retain(|it| !it.what.contains("is 1 bit/s, less than the 100 kbit/s"));
    let reject = !unreadable.is_empty() || !config.contradictions().is_empty();
    json!({"reject": reject})
}

fn total(input: &Value) -> Value {
    let data = BTreeMap::from([(SYSTEM.to_owned(), input[SYSTEM].to_string())]);
    let mut config = SloConfig::default();
    config.update(&data).unwrap();
    let node = &input["node"];
    let slo = config
        .for_node(&labels(&node["labels"]), &texts(&node["annotations"]))
        .unwrap();
    let megabits = slo.total.unwrap().bits_per_second() / 1_000_000;
    json!({"totalNetworkBandwidth": format!("{megabits}M")})
}

fn node_annotation(input: &Value) -> Value {
    json!({"error": annotated(&texts(&input["annotations"])).is_err()})
}

fn minor(input: &Value) -> Value {
    let raw = input["handle"].as_u64().unwrap();
    let handle = Handle::from_raw(u32::try_from(raw).unwrap());
    json!({"minor_hex": format!("{:x}", handle.minor())})
}

fn pod_file(input: &Value) -> Value {
    let pod = &input["pod"];
    let text = |key: &str| pod[key].as_str().unwrap();
    let (class, _) = traffic_class(&labels(&pod["labels"]), None);
    let rates = rates(&texts(&pod["annotations"]));
    let name = (text("namespace"), text("name"));
    let entry = PodEntry::new(name, text("uid"), class, text("cgroupDir"), rates);
    json!({"file": pod_json([entry])})
}
