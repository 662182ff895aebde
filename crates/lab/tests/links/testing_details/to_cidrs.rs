use super::case::{Case, check_all};
use super::eyes::Packet::{Tcp, Udp};
use super::stage::Family;
use super::{bandwidth, marks};

fn cases(family: Family) -> [Case; 3] {
    let to = format!("to: [{{ipBlock: {{cidr: '{}'}}}}]", family.block());
    [
        Case {
            says: "to a CIDR",
            classifier: to.clone(),
            met: &[("node", Udp(5000)), ("node", Tcp(80)), ("other", Tcp(80))],
            unmet: &[("outside", Tcp(80)), ("outside", Udp(5000))],
        },
        Case {
            says: "to a CIDR, by protocol",
            classifier: format!("{to}, port: {{protocol: TCP}}"),
            met: &[("node", Tcp(80)), ("node", Tcp(81))],
            unmet: &[("outside", Tcp(80)), ("node", Udp(80))],
        },
        Case {
            says: "to a CIDR, by protocol and port",
            classifier: format!("{to}, port: {{protocol: UDP, port: 5000}}"),
            met: &[("node", Udp(5000))],
            unmet: &[
                ("node", Udp(5001)),
                // An address that is not in it, with the protocol and the port.
                ("outside", Udp(5000)),
                ("node", Tcp(5000)),
            ],
        },
    ]
}

#[test]
fn traffic_to_a_cidr_of_host_networked_destinations_is_marked_and_other_traffic_is_not() {
    check_all(cases, marks::check);
}

#[test]
fn traffic_to_a_cidr_of_host_networked_destinations_is_held_to_the_rate_and_other_traffic_is_not() {
    check_all(cases, bandwidth::check);
}
