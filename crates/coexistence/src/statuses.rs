//! Who has written the status of a NetworkQoS, as its `metadata.managedFields` tell.

use serde_json::Value;

/// As whom netqos-controller writes statuses.
pub const MANAGER: &str = "netqos-controller";
/// What OVN-Kubernetes' conditions are called, with a zone behind.
const ZONE: &str = r#"k:{"type":"Ready-In-Zone-"#;

/// True where somebody else than netqos has written a condition `Ready-In-Zone-…`. By their types alone
/// they cannot be told apart: earlier versions of netqos-controller could write the same.
pub fn is_written_by_ovn_kubernetes(policy: &Value) -> bool {
    entries(policy).any(|entry| {
        let conditions = entry.pointer("/fieldsV1/f:status/f:conditions");
        let mut types = conditions
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|fields| fields.keys());
        manager(entry) != Some(MANAGER) && types.any(|type_| type_.starts_with(ZONE))
    })
}

/// True where something of the status is netqos-controller's.
pub fn is_written_by_netqos(policy: &Value) -> bool {
    entries(policy).any(|entry| manager(entry) == Some(MANAGER))
}

/// What was written of the status.
fn entries(policy: &Value) -> impl Iterator<Item = &Value> {
    let entries = policy.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.filter(|it| it.pointer("/fieldsV1/f:status").is_some())
}

fn manager(entry: &Value) -> Option<&str> {
    entry.get("manager")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(manager: &str, type_: &str) -> Value {
        let key = format!(r#"k:{{"type":"{type_}"}}"#);
        json!({"metadata": {"managedFields": [
            {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
            {"manager": manager, "fieldsV1": {"f:status": {"f:conditions": {key: {}}}}}
        ]}})
    }

    #[test]
    fn a_zones_condition_is_ovn_kubernetes_unless_netqos_wrote_it() {
        for (manager, type_, ovn, netqos) in [
            ("node1", "Ready-In-Zone-node1", true, false),
            (MANAGER, "Ready-In-Zone-node1", false, true),
            ("node1", "Ready", false, false),
            (MANAGER, "Ready", false, true),
        ] {
            let policy = written(manager, type_);
            assert_eq!(is_written_by_ovn_kubernetes(&policy), ovn, "{policy}");
            assert_eq!(is_written_by_netqos(&policy), netqos, "{policy}");
        }
        assert!(!is_written_by_ovn_kubernetes(&json!({"metadata": 7})));
    }
}
