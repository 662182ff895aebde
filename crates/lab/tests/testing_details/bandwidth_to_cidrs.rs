use crate::bandwidth::{Case, check};
use crate::eyes::Packet::{Tcp, Udp};
use crate::stage::{FAMILIES, Stage};

#[test]
fn traffic_to_a_cidr_of_host_networked_destinations_is_held_to_the_rate_and_other_traffic_is_not() {
    let Some(stage) = Stage::new() else { return };
    for family in FAMILIES {
        let to = format!("to: [{{ipBlock: {{cidr: '{}'}}}}]", family.block());
        for case in [
            Case {
                says: "to a CIDR",
                classifier: to.clone(),
                held: &[("node", Udp(6000)), ("node", Tcp(6001))],
                free: &[("outside", Tcp(6002))],
            },
            Case {
                says: "to a CIDR, by protocol",
                classifier: format!("{to}, port: {{protocol: TCP}}"),
                held: &[("node", Tcp(6003))],
                free: &[("outside", Tcp(6004))],
            },
            Case {
                says: "to a CIDR, by protocol and port",
                classifier: format!("{to}, port: {{protocol: TCP, port: 6005}}"),
                held: &[("node", Tcp(6005))],
                // And an address that is not in it, with the protocol and the port.
                free: &[("node", Tcp(6006)), ("outside", Tcp(6005))],
            },
        ] {
            check(&stage, family, &case);
        }
    }
}
