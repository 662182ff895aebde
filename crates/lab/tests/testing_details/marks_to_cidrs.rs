use crate::eyes::Packet::{Tcp, Udp};
use crate::marks::{Case, check};
use crate::stage::{FAMILIES, Stage};

#[test]
fn traffic_to_a_cidr_of_host_networked_destinations_is_marked_and_other_traffic_is_not() {
    let Some(stage) = Stage::new() else { return };
    for family in FAMILIES {
        let to = format!("to: [{{ipBlock: {{cidr: '{}'}}}}]", family.block());
        for case in [
            Case {
                says: "to a CIDR",
                classifier: to.clone(),
                marked: &[("node", Udp(5000)), ("node", Tcp(80)), ("other", Tcp(80))],
                unmarked: &[("outside", Udp(5000)), ("outside", Tcp(80))],
            },
            Case {
                says: "to a CIDR, by protocol",
                classifier: format!("{to}, port: {{protocol: TCP}}"),
                marked: &[("node", Tcp(80)), ("node", Tcp(81))],
                unmarked: &[("node", Udp(80)), ("outside", Tcp(80))],
            },
            Case {
                says: "to a CIDR, by protocol and port",
                classifier: format!("{to}, port: {{protocol: UDP, port: 5000}}"),
                marked: &[("node", Udp(5000))],
                unmarked: &[
                    ("node", Udp(5001)),
                    ("node", Tcp(5000)),
                    // An address that is not in it, with the protocol and the port.
                    ("outside", Udp(5000)),
                ],
            },
        ] {
            check(&stage, family, &case);
        }
    }
}
