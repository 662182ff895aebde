use crate::eyes::Packet::{Tcp, Udp};
use crate::marks::{Case, check};
use crate::stage::{FAMILIES, Stage};

const TO: &str = "to: [{podSelector: {matchLabels: {app: target}}}]";

#[test]
fn traffic_to_targeted_pods_is_marked_and_other_traffic_is_not() {
    let Some(stage) = Stage::new() else { return };
    for family in FAMILIES {
        for case in [
            Case {
                says: "to all targeted pods",
                classifier: TO.to_owned(),
                marked: &[
                    ("target", Udp(5000)),
                    ("target", Tcp(80)),
                    ("target2", Udp(5000)),
                    ("target2", Tcp(80)),
                ],
                unmarked: &[
                    ("other", Udp(5000)),
                    ("node", Tcp(80)),
                    ("outside", Tcp(80)),
                ],
            },
            Case {
                says: "to the pods, by protocol",
                classifier: format!("{TO}, port: {{protocol: UDP}}"),
                marked: &[("target", Udp(5000)), ("target2", Udp(5001))],
                unmarked: &[("target", Tcp(5000)), ("other", Udp(5000))],
            },
            Case {
                says: "to the pods, by protocol and port",
                classifier: format!("{TO}, port: {{protocol: TCP, port: 80}}"),
                marked: &[("target", Tcp(80)), ("target2", Tcp(80))],
                unmarked: &[
                    ("target", Tcp(81)),
                    ("target", Udp(80)),
                    // A pod that is not selected, with the protocol and the port.
                    ("other", Tcp(80)),
                ],
            },
        ] {
            check(&stage, family, &case);
        }
    }
}
