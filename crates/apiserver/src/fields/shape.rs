//! How a value is merged: which lists have keys, what is of one piece.
//!
//! A resource that a definition made says it in its schema. Of Kubernetes' own the fields are known
//! by their names, as far as they matter to netqos; all other lists are of one piece.

use serde_json::{Map, Value};

/// What a place in an object looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'s> {
    /// As a schema says.
    Schema(&'s Value),
    /// The root of an object with a schema, whose metadata is as any.
    Root(&'s Value),
    /// By the name of the field: of one of Kubernetes' own.
    Named(&'s str),
    /// Nothing is known.
    Unknown,
}

/// What a list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Of one piece.
    Atomic,
    /// Of values, each of which is there once.
    Set,
    /// Of objects that are told apart by these fields.
    Map(Vec<String>),
}

impl<'s> Shape<'s> {
    /// The root of one of Kubernetes' own.
    pub(crate) fn built_in(plural: &str) -> Self {
        match plural {
            // Their ports look like those of a container or a Service, and are of one piece.
            "endpoints" | "endpointslices" => Self::Unknown,
            _ => Self::Named(""),
        }
    }

    /// The shape of a field.
    pub(crate) fn field(self, name: &'s str) -> Self {
        match self {
            Self::Root(_) if name == "metadata" => Self::Named("metadata"),
            Self::Unknown if name == "metadata" => Self::Named("metadata"),
            Self::Schema(schema) | Self::Root(schema) => {
                let named = schema.get("properties").and_then(|known| known.get(name));
                let others = || {
                    let others = schema.get("additionalProperties");
                    others.filter(|schema| schema.is_object())
                };
                named.or_else(others).map_or(Self::Unknown, Self::Schema)
            }
            Self::Named(_) => Self::Named(name),
            Self::Unknown => Self::Unknown,
        }
    }

    /// The shape of the items of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Schema(schema) => schema.get("items").map_or(Self::Unknown, Self::Schema),
            Self::Named(_) => Self::Named(""),
            Self::Root(_) | Self::Unknown => Self::Unknown,
        }
    }

    /// Whether an object is of one piece.
    pub(crate) fn is_atomic(self) -> bool {
        match self {
            Self::Schema(schema) => schema.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            Self::Named(name) => matches!(
                name,
                "selector" | "labelSelector" | "namespaceSelector" | "podSelector" | "nodeSelector"
            ),
            Self::Root(_) | Self::Unknown => false,
        }
    }

    /// What a list with these items is.
    pub(crate) fn list<'v>(self, items: impl IntoIterator<Item = &'v Value>) -> ListKind {
        let keys =
            |keys: &[&str]| ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect());
        match self {
            Self::Schema(schema) => match schema.get("x-kubernetes-list-type") {
                Some(kind) if kind == "set" => ListKind::Set,
                Some(kind) if kind == "map" => {
                    let keys = schema["x-kubernetes-list-map-keys"].as_array();
                    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                    ListKind::Map(keys.map(str::to_owned).collect())
                }
                _ => ListKind::Atomic,
            },
            Self::Named(name) => match name {
                "conditions" | "addresses" => keys(&["type"]),
                "containers"
                | "initContainers"
                | "ephemeralContainers"
                | "volumes"
                | "env"
                | "imagePullSecrets"
                | "secrets"
                | "webhooks" => keys(&["name"]),
                "volumeMounts" => keys(&["mountPath"]),
                "hostAliases" | "podIPs" => keys(&["ip"]),
                "ownerReferences" => keys(&["uid"]),
                "finalizers" => ListKind::Set,
                "ports" => {
                    let of_container = |item: &Value| item.get("containerPort").is_some();
                    match items.into_iter().any(of_container) {
                        true => keys(&["containerPort", "protocol"]),
                        false => keys(&["port", "protocol"]),
                    }
                }
                _ => ListKind::Atomic,
            },
            Self::Root(_) | Self::Unknown => ListKind::Atomic,
        }
    }

    /// The part of a path that names an item of a list with keys. A key that is not there has its
    /// default.
    pub(crate) fn item_part(self, keys: &[String], item: &Value) -> String {
        let mut named = Map::new();
        for key in keys {
            let value = item.get(key).cloned().or_else(|| self.default_of(key));
            named.insert(key.clone(), value.unwrap_or(Value::Null));
        }
        format!("k:{}", Value::Object(named))
    }

    fn default_of(self, key: &str) -> Option<Value> {
        match self.item() {
            Self::Schema(schema) => schema["properties"][key].get("default").cloned(),
            Self::Named(_) if key == "protocol" => Some("TCP".into()),
            _ => None,
        }
    }
}
