//! The resource `NodeSLO` (slo.koordinator.sh/v1alpha1), by which Koordinator's manager, or, where that
//! is not, netqos' controller tells a node into which parts its line is divided.
//!
//! It is Koordinator's, and most of it is about processors and memory. So a spec is kept as it came,
//! and `netqos_api::koordinator::NodeSlo` reads what of it concerns the network. The definition here is
//! for clusters without Koordinator: it names those fields, and keeps all others. Unlike Koordinator's
//! it fills in no limit of 100 and no request of 0 where nothing is said: a limit of the whole line and
//! a guarantee of nothing are what nothing means, and whoever reads an object sees what was written.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use std::borrow::Cow;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// `spec` of a `NodeSLO`, as it came.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slo.koordinator.sh",
    version = "v1alpha1",
    kind = "NodeSLO",
    plural = "nodeslos",
    singular = "nodeslo",
    derive = "PartialEq",
    derive = "Default",
    doc = "NodeSLO says how a node serves its classes of pods. Its name is the node's. This definition is netqos', for clusters without Koordinator: it names what concerns the network, and keeps all else as it is.",
    printcolumn(
        name = "Total",
        type_ = "string",
        json_path = ".spec.systemStrategy.totalNetworkBandwidth",
        description = "What the node's line carries in bits per second"
    ),
    printcolumn(
        name = "Policy",
        type_ = "string",
        json_path = ".spec.resourceQOSStrategy.policies.netQOSPolicy",
        description = "Who divides it"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(transparent)]
pub struct NodeSloSpec(pub Map<String, Value>);

impl JsonSchema for NodeSloSpec {
    fn schema_name() -> Cow<'static, str> {
        "NodeSloSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What the node is to do. Fields that are not named here are kept as they are.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "resourceQOSStrategy": open(
                    "What each class of pods gets.",
                    json!({
                        "policies": open("Who sees to it.", json!({
                            "netQOSPolicy": {
                                "description": "Who divides the node's line: kernel (netqos), tc, terway-qos, or none. Absent: what the node's agent is told.",
                                "type": "string",
                                "maxLength": 63,
                            },
                        })),
                        "lsrClass": class("Latency-sensitive pods with processors of their own (LSR). They share a level of the line with lsClass, which decides unless it is taken out or says nothing.", NOT_EXCEEDED),
                        "lsClass": class("Latency-sensitive pods (LS).", NOT_EXCEEDED),
                        "beClass": class("Best-effort pods (BE).", NOT_EXCEEDED),
                        "systemClass": class("The system: daemons, and what belongs to no pod. It has what the others leave.", NOT_KEPT),
                    }),
                ),
                "systemStrategy": open("The node as a whole.", json!({
                    "totalNetworkBandwidth": {
                        "description": "What the node's line carries, a quantity in bits per second such as 1000M. Absent or 0: what its network card says.",
                        "x-kubernetes-int-or-string": true,
                        "maxLength": 32,
                        "pattern": QUANTITY,
                    },
                })),
            },
        })
    }
}

/// A quantity that is not negative.
const QUANTITY: &str = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$";

/// An object that keeps what it does not know.
fn open(description: &str, properties: Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": properties,
    })
}

const NOT_EXCEEDED: &str = "What is never exceeded of";
/// Of the system.
const NOT_KEPT: &str =
    "Not kept, and warned of unless it is 100: the system may always have the whole line. Of";

fn class(description: &str, limited: &str) -> Value {
    let amount = |what: &str, direction: &str, absent: &str| {
        json!({
            "description": format!(
                "{what} {direction}: a number is a percentage of the total, 0 to 100; a text is a \
                 quantity in bits per second, such as 50M. Absent: {absent}."
            ),
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maximum": 100,
            "maxLength": 32,
            "pattern": QUANTITY,
        })
    };
    let request = |direction: &str| amount("What is guaranteed of", direction, "nothing");
    let limit = |direction: &str| amount(limited, direction, "the total");
    let network = open(
        "Its part of the node's line.",
        json!({
            "enable": {
                "description": "Whether the class takes part. One that does not is guaranteed nothing and held to nothing. Absent: it does.",
                "type": "boolean",
            },
            "ingressRequest": request("what comes in"),
            "ingressLimit": limit("what comes in"),
            "egressRequest": request("what goes out"),
            "egressLimit": limit("what goes out"),
        }),
    );
    open(description, json!({"networkQOS": network}))
}
