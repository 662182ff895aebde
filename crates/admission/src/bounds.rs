//! `NetworkQoSQuota`, `BandwidthProfile` and `NetworkQoSDefault`.

use netqos_k8s::{NetworkQoSDefault, Object, object_from_value, validate};
use serde_json::Value;

use crate::findings::Findings;
use crate::known::Known;

/// What is wrong with a quota, a profile or a default; unchanged it is passed over.
pub(crate) fn check(object: &Value, old: Option<&Value>, known: &Known) -> Findings {
    let mut findings = Findings::default();
    if old.is_some_and(|old| old["spec"] == object["spec"]) {
        return findings;
    }
    findings.invalid = validate(object);
    if findings.invalid.is_empty() && object["kind"] == "NetworkQoSDefault" {
        let read = NetworkQoSDefault::read(object.clone());
        findings.invalid.extend(read.err());
    }
    if findings.invalid.is_empty()
        && let Ok(Object::Quota(quota)) = object_from_value(object)
    {
        let beyond = known.beyond(&quota);
        if !beyond.is_empty() {
            let names: Vec<String> = beyond.iter().take(3).map(ToString::to_string).collect();
            findings.warn(format!(
                "{} NetworkQoS ask for more than this allows, and nothing of them is in force: {}{}",
                beyond.len(),
                names.join(", "),
                if beyond.len() > names.len() { ", …" } else { "" },
            ));
        }
    }
    findings
}
