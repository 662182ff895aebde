use crate::bandwidth::{Case, check};
use crate::eyes::Packet::{Tcp, Udp};
use crate::stage::{FAMILIES, Stage};

const TO: &str = "to: [{podSelector: {matchLabels: {app: target}}}]";

#[test]
fn traffic_to_targeted_pods_is_held_to_the_rate_and_other_traffic_is_not() {
    let Some(stage) = Stage::new() else { return };
    for family in FAMILIES {
        for case in [
            Case {
                says: "to all targeted pods",
                classifier: TO.to_owned(),
                held: &[("target", Tcp(6000)), ("target2", Udp(6001))],
                free: &[("other", Tcp(6002))],
            },
            Case {
                says: "to the pods, by protocol",
                classifier: format!("{TO}, port: {{protocol: UDP}}"),
                held: &[("target", Udp(6003))],
                free: &[("target", Tcp(6004))],
            },
            Case {
                says: "to the pods, by protocol and port",
                classifier: format!("{TO}, port: {{protocol: TCP, port: 6005}}"),
                held: &[("target", Tcp(6005))],
                // And a pod that is not selected, with the protocol and the port.
                free: &[("target", Tcp(6006)), ("other", Tcp(6005))],
            },
        ] {
            check(&stage, family, &case);
        }
    }
}
