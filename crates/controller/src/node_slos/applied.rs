//! What of a NodeSLO was applied by whom: `metadata.managedFields`, read backwards.

use netqos_coexistence::MANAGER;
use serde_json::{Map, Value};

/// What Koordinator's manager calls itself, and what its executable is called.
const KOORDINATORS: [&str; 2] = ["koordinator-manager", "koord-manager"];

/// True of the name by which Koordinator's manager writes.
pub(super) fn is_koordinators(manager: &str) -> bool {
    KOORDINATORS.contains(&manager)
}

/// When Koordinator's manager has written an object last, as the server says times: the later one is
/// the greater text.
pub(super) fn by_koordinator(object: &Value) -> Option<String> {
    let managed = object.pointer("/metadata/managedFields")?.as_array()?;
    let theirs = managed
        .iter()
        .filter(|entry| entry["manager"].as_str().is_some_and(is_koordinators));
    let times = theirs.filter_map(|entry| entry["time"].as_str());
    times.max().map(str::to_owned)
}

/// What of an object's spec netqos has applied, with the values that it has now: client-go's extract.
/// `None`: nothing.
pub(super) fn by_netqos(object: &Value) -> Option<Map<String, Value>> {
    let managed = object.pointer("/metadata/managedFields")?.as_array()?;
    let ours = managed
        .iter()
        .find(|entry| entry["manager"] == MANAGER && entry["operation"] == "Apply")?;
    let fields = ours.pointer("/fieldsV1/f:spec")?;
    match extract(object.get("spec")?, fields) {
        Value::Object(spec) => Some(spec),
        _ => None,
    }
}

/// The part of a value that a set of fields names.
fn extract(value: &Value, fields: &Value) -> Value {
    let fields = fields.as_object().into_iter().flatten();
    let below = fields.filter_map(|(part, below)| Some((part.strip_prefix("f:")?, below)));
    let below: Vec<(&str, &Value)> = below.collect();
    match value {
        Value::Object(there) if !below.is_empty() => {
            let found = below.into_iter().filter_map(|(name, below)| {
                Some((name.to_owned(), extract(there.get(name)?, below)))
            });
            Value::Object(found.collect())
        }
        whole => whole.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_netqos_has_applied_and_as_it_is_now() {
        let managed = |manager: &str, operation: &str| {
            json!({
                "manager": manager, "operation": operation, "time": "2026-01-01T00:00:01Z",
                "fieldsV1": {
                    "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}},
                    "f:spec": {
                        ".": {},
                        "f:systemStrategy": {".": {}, "f:totalNetworkBandwidth": {}},
                        "f:gone": {},
                        "f:resourceQOSStrategy": {"f:lsClass": {"f:networkQOS": {"f:egressLimit": {}}}},
                    },
                },
            })
        };
        let object = |managed: Value| {
            json!({
                "metadata": {"managedFields": managed},
                "spec": {
                    "cpuBurstStrategy": {},
                    "systemStrategy": {"minFreeKbytesFactor": 100, "totalNetworkBandwidth": "1G"},
                    "resourceQOSStrategy": {"lsClass": {"cpuQOS": {}, "networkQOS": {
                        "egressLimit": 90, "egressRequest": 0
                    }}},
                },
            })
        };
        let ours = object(json!([
            managed("koordinator-manager", "Update"),
            managed(MANAGER, "Apply")
        ]));
        let right = json!({
            "systemStrategy": {"totalNetworkBandwidth": "1G"},
            "resourceQOSStrategy": {"lsClass": {"networkQOS": {"egressLimit": 90}}},
        });
        assert_eq!(by_netqos(&ours).map(Value::Object), Some(right));
        assert_eq!(
            by_koordinator(&ours).as_deref(),
            Some("2026-01-01T00:00:01Z")
        );
        for others in [
            json!([]),
            json!(null),
            json!([managed("koordinator-manager", "Update")]),
            json!([managed(MANAGER, "Update")]),
        ] {
            assert_eq!(by_netqos(&object(others)), None);
        }
    }
}
