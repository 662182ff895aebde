//! Kubernetes' own class of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use netqos_api::koordinator::class::KubernetesClass;

/// The resources that decide.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// What the status says; where there is none, as in a manifest, what a server would write there.
/// `None`: neither a class nor a container is known.
pub(super) fn class(pod: &Pod) -> Option<KubernetesClass> {
    let said = pod.status.as_ref().and_then(|it| it.qos_class.as_deref());
    if let Some(class) = said.and_then(KubernetesClass::named) {
        return Some(class);
    }
    let spec = pod.spec.as_ref()?;
    let containers = spec.init_containers.iter().flatten();
    let mut parts = containers.chain(&spec.containers).map(quality);
    let first = parts.next()?;
    // All must agree on being the first or the last of the classes.
    Some(parts.fold(first, |all, one| match all == one {
        true => all,
        false => KubernetesClass::Burstable,
    }))
}

/// The class of a pod of this container alone.
fn quality(container: &Container) -> KubernetesClass {
    let resources = container.resources.as_ref();
    let limits = counted(resources.and_then(|it| it.limits.as_ref()));
    let asked = counted(resources.and_then(|it| it.requests.as_ref()));
    if limits.is_empty() && asked.is_empty() {
        return KubernetesClass::BestEffort;
    }
    // What is not requested is requested as it is limited.
    let is_kept = |name: &str| {
        let limit = limits.get(name);
        limit.is_some() && asked.get(name).is_none_or(|asked| Some(asked) == limit)
    };
    match COUNTED.into_iter().all(is_kept) {
        true => KubernetesClass::Guaranteed,
        false => KubernetesClass::Burstable,
    }
}

/// What counts of these: more than nothing of a resource that decides.
fn counted(all: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<&str, netqos_api::Quantity> {
    let all = all.into_iter().flatten();
    let all = all.filter(|(name, _)| COUNTED.contains(&name.as_str()));
    all.filter_map(|(name, quantity)| Some((name.as_str(), quantity.0.parse().ok()?)))
        .filter(|(_, quantity): &(_, netqos_api::Quantity)| quantity.value() > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(containers: Value, status: Value) -> Option<KubernetesClass> {
        let pod = json!({
            "metadata": {"name": "a"}, "spec": {"containers": containers}, "status": status
        });
        class(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn is_what_a_server_would_say() {
        use KubernetesClass::{BestEffort, Burstable, Guaranteed};
        let whole = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        for (resources, expected) in [
            (json!([{}]), BestEffort),
            (json!([{}, {"requests": {"cpu": "0"}}]), BestEffort),
            (json!([{"requests": {"example.org/gpu": "1"}}]), BestEffort),
            (json!([{"requests": {"cpu": "100m"}}]), Burstable),
            (json!([{"limits": {"cpu": "1"}}]), Burstable),
            (json!([whole]), Guaranteed),
            (json!([whole, {}]), Burstable),
            (
                json!([{
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "1000m", "memory": "1Gi"}
                }]),
                Guaranteed,
            ),
            (
                json!([{
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "500m"}
                }]),
                Burstable,
            ),
        ] {
            let containers = resources.as_array().unwrap().iter().enumerate();
            let containers: Vec<Value> = containers
                .map(|(index, it)| json!({"name": format!("c{index}"), "resources": it}))
                .collect();
            assert_eq!(
                of(json!(containers), json!({})),
                Some(expected),
                "{resources}"
            );
            let said = of(json!(containers), json!({"qosClass": "Guaranteed"}));
            assert_eq!(said, Some(Guaranteed));
        }
        assert_eq!(of(json!([]), json!({})), None);
    }
}
