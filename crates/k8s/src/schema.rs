//! The parts of the schema that derive does not make: types of Kubernetes itself, with limits, and
//! closed lists of words.
//!
//! Every list and every text has a limit: the API server estimates what a CEL rule costs from
//! those, and refuses a resource whose rules may cost too much.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A prefix, in CEL.
const IS_CIDR: &str = "isCIDR(self)";

/// The values that labels can have. A pattern costs nothing of the budget of CEL rules.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// `metav1.LabelSelector`.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels and the values that they must have. At most 100.",
                "type": "object",
                "maxProperties": 100,
                "additionalProperties": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE}
            },
            "matchExpressions": {
                "description": "Requirements, which must all hold. At most 50.",
                "type": "array",
                "maxItems": 50,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "description": "The label.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 317
                        },
                        "operator": {
                            "description": "What must hold for it.",
                            "type": "string",
                            "maxLength": 12,
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"]
                        },
                        "values": {
                            "description": "For In and NotIn: the values. At most 100.",
                            "type": "array",
                            "maxItems": 100,
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE}
                        }
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
                        "message": "In and NotIn need values, Exists and DoesNotExist have none",
                        "fieldPath": ".values"
                    }]
                }
            }
        }
    })
}

/// `ipBlock.except`.
pub(crate) fn except(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "maxLength": 49,
            "x-kubernetes-validations": [{
                "rule": IS_CIDR,
                "message": "not a CIDR such as 10.0.0.0/8 or 2001:db8::/64"
            }]
        }
    })
}

/// `dscp` of a quota.
pub(crate) fn dscp_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 63}
    })
}

/// Labels, or annotations.
pub(crate) fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 100,
        "additionalProperties": {"type": "string", "maxLength": 4096}
    })
}

/// A quantity that is not negative, as a text or as a number. Its range is not in the schema: what an
/// API server reckons for a rule on a value of two types is not bounded by its length.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "pattern": "^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
    })
}

/// A duration as Go writes it.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "pattern": "^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h))+$"
    })
}

/// `addresses` of a peer slice. Atomic: whoever writes it writes all of it, and a server keeps no
/// record of who wrote which address.
pub(crate) fn addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "maxLength": 45,
            "x-kubernetes-validations": [{
                "rule": "isIP(self)",
                "message": "not an address such as 10.0.0.1 or 2001:db8::1"
            }]
        }
    })
}

/// `port.protocol`. A closed list: the pattern `^TCP|UDP|SCTP$` would let `TCPx` pass.
pub(crate) fn protocol(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 4, "enum": ["TCP", "UDP", "SCTP"]})
}

/// `netAttachRefs[].kind`.
pub(crate) fn network_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 27,
        "enum": ["NetworkAttachmentDefinition", "UserDefinedNetwork", "ClusterUserDefinedNetwork"]
    })
}

/// `networkSelectors[].networkSelectionType`.
pub(crate) fn network_selection_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 28,
        "enum": [
            "DefaultNetwork",
            "ClusterUserDefinedNetworks",
            "PrimaryUserDefinedNetworks",
            "SecondaryUserDefinedNetworks",
            "NetworkAttachmentDefinitions"
        ]
    })
}

/// A list of `metav1.Condition`: with OVN-Kubernetes one for each node.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10000,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When status changed last.",
                    "type": "string",
                    "format": "date-time",
                    "maxLength": 64
                },
                "message": {
                    "description": "The details, for people.",
                    "type": "string",
                    "maxLength": 32768
                },
                "observedGeneration": {
                    "description": "The metadata.generation that this is about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "status": {
                    "description": "Whether it holds.",
                    "type": "string",
                    "maxLength": 7,
                    "enum": ["True", "False", "Unknown"]
                },
                "type": {
                    "description": "What holds or does not.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                }
            }
        }
    })
}

/// `pluginTypes` of a policy.
pub(crate) fn plugin_types(_: &mut SchemaGenerator) -> Schema {
    texts_of(64, 64, "^(\\*|[A-Za-z0-9][-A-Za-z0-9_.]*)$")
}

/// `masters` and `devices` of a policy.
pub(crate) fn host_names(_: &mut SchemaGenerator) -> Schema {
    texts_of(64, 256, "^[^*\\s]*\\*?$")
}

/// `hostPaths` of a policy.
pub(crate) fn host_paths(_: &mut SchemaGenerator) -> Schema {
    texts_of(64, 4096, "^/")
}

/// `hostKeys` of a policy.
pub(crate) fn host_keys(_: &mut SchemaGenerator) -> Schema {
    texts_of(64, 128, "^(\\*|[A-Za-z0-9][-A-Za-z0-9_]*\\.[A-Za-z0-9_]+)$")
}

/// `digests` of a policy.
pub(crate) fn digests(_: &mut SchemaGenerator) -> Schema {
    texts_of(256, 64, "^[0-9a-f]{64}$")
}

/// At most so many texts, each once, of at most this length and this form.
fn texts_of(items: usize, length: usize, pattern: &str) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": items,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": length, "pattern": pattern}
    })
}
