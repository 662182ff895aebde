use super::case::{Case, check_all};
use super::eyes::Packet::{Tcp, Udp};
use super::stage::Family;
use super::{bandwidth, marks};

const TO: &str = "to: [{podSelector: {matchLabels: {app: target}}}]";

fn cases(_: Family) -> [Case; 3] {
    [
        Case {
            says: "to all targeted pods",
            classifier: TO.to_owned(),
            met: &[
                ("target", Tcp(80)),
                ("target2", Udp(5000)),
                ("target", Udp(5000)),
                ("target2", Tcp(80)),
            ],
            unmet: &[
                ("other", Udp(5000)),
                ("node", Tcp(80)),
                ("outside", Tcp(80)),
            ],
        },
        Case {
            says: "to the pods, by protocol",
            classifier: format!("{TO}, port: {{protocol: UDP}}"),
            met: &[("target", Udp(5000)), ("target2", Udp(5001))],
            unmet: &[("target", Tcp(5000)), ("other", Udp(5000))],
        },
        Case {
            says: "to the pods, by protocol and port",
            classifier: format!("{TO}, port: {{protocol: TCP, port: 80}}"),
            met: &[("target", Tcp(80)), ("target2", Tcp(80))],
            unmet: &[
                ("target", Tcp(81)),
                // A pod that is not selected, with the protocol and the port.
                ("other", Tcp(80)),
                ("target", Udp(80)),
            ],
        },
    ]
}

#[test]
fn traffic_to_targeted_pods_is_marked_and_other_traffic_is_not() {
    check_all(cases, marks::check);
}

#[test]
fn traffic_to_targeted_pods_is_held_to_the_rate_and_other_traffic_is_not() {
    check_all(cases, bandwidth::check);
}
