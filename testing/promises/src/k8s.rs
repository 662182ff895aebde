//! Manifests.

use netqos_k8s::{Object, documents, object_from_value, objects_from_yaml, validate};

/// Reading never panics; each document gives at least what its objects give alone; an error says
/// what is wrong; and what `validate` passes is what the conversion takes.
pub fn manifests(text: &str) {
    let objects = objects_from_yaml(text);
    assert!(objects.len() >= documents(text).len() || text.contains("items"));
    for error in objects.iter().filter_map(|object| object.as_ref().err()) {
        assert!(!error.errors.is_empty());
        assert!(!error.to_string().is_empty());
    }
    for value in documents(text).into_iter().filter_map(|one| one.value.ok()) {
        let kind = value.get("kind").and_then(|kind| kind.as_str());
        let version = value.get("apiVersion").and_then(|version| version.as_str());
        if (version, kind) != (Some("k8s.ovn.org/v1alpha1"), Some("NetworkQoS")) {
            continue;
        }
        let errors = validate(&value);
        let object = object_from_value(&value);
        assert_eq!(errors.is_empty(), object.is_ok(), "{errors:?} {object:?}");
        if let Ok(object) = object {
            assert!(matches!(object, Object::Policy(_)));
        }
    }
}
