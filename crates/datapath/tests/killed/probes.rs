//! What packets meet: the program is asked about packets of every kind at every pod, and some are
//! sent, which shows that it stands at the interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use netqos_bpf::rules::{Rules as Tables, Verdict};
use netqos_core::plan::Packet;
use netqos_core::{Digest, EndpointId, NetworkKey, NodePlan, Protocol};
use netqos_testkit::Pod;
use netqos_testkit::rules::Wire;
use netqos_testkit::rules::frame::Frame;

use crate::plans::{ALIKE, Facts, MIXED, SERVICE_PORT};

/// Where nobody is; what the prefixes of the rules, and their exceptions, are about.
const ELSEWHERE: [&str; 9] = [
    "198.51.100.2",
    "198.51.100.20",
    "198.51.100.70",
    "198.51.100.200",
    "203.0.113.1",
    "192.0.2.1",
    "2001:db8::1",
    "2001:db8:1::1",
    "2001:db8:2::1",
];
/// Ports in rules, and one in none.
const PORTS: [u16; 4] = [1, 3, SERVICE_PORT, 9999];

/// A packet of a pod: the pod's name, and what decides which rule is for it.
pub type Probe = (String, Packet);
/// The mark that each is given; `None` when it is dropped.
pub type Marks = BTreeMap<Probe, Option<u8>>;

/// All packets that are asked about.
pub fn probes(pods: &[Facts]) -> Vec<Probe> {
    let known = ELSEWHERE.iter().chain(&ALIKE).chain(&MIXED);
    let known = known.map(|text| text.parse::<IpAddr>().unwrap());
    let own = pods.iter().flat_map(|pod| pod.addresses.clone());
    let mut probes = Vec::new();
    for destination in known.chain(own).collect::<BTreeSet<_>>() {
        let udp = PORTS.map(|port| (Some(Protocol::Udp), Some(port)));
        for (protocol, port) in udp.into_iter().chain([(None, None)]) {
            let packet = Packet {
                destination,
                protocol,
                port,
            };
            probes.extend(pods.iter().map(|pod| (pod.name.clone(), packet)));
        }
    }
    probes
}

/// What a plan says of a packet.
pub fn wanted(plan: &NodePlan, (name, packet): &Probe) -> Option<u8> {
    let mark = || {
        let mut endpoints = plan.endpoints.values();
        let endpoint = endpoints.find(|endpoint| &*endpoint.pod.name.name == name)?;
        let chain = &plan.chains[&endpoint.chain?];
        let verdict = plan.classify(chain, &NetworkKey::Default, *packet);
        chain.rules[verdict.winner?].dscp.map(|dscp| dscp.get())
    };
    Some(mark().unwrap_or_default())
}

/// The numbers that the engine gives to endpoints, where no other has them; by the pods' names.
pub fn numbers<'p>(plans: impl IntoIterator<Item = &'p NodePlan>) -> BTreeMap<String, u16> {
    let endpoints = plans.into_iter().flat_map(|plan| &plan.endpoints);
    let number = |id: &EndpointId| (1 + Digest::of(id).get() % 0xFFFF) as u16;
    endpoints
        .map(|(id, endpoint)| (endpoint.pod.name.name.to_string(), number(id)))
        .collect()
}

/// What the program says of each of these, as the tables are now.
pub fn met(numbers: &BTreeMap<String, u16>, probes: &[Probe]) -> Marks {
    let tables = Tables::open(Path::new("/sys/fs/bpf")).unwrap();
    // Those that are not loaded to the end are at no hook yet.
    let tables = tables.filter(|tables| tables.program().is_ok());
    let mark = |(name, packet): &Probe| {
        let Some(tables) = &tables else {
            return Some(0);
        };
        let frame = Frame::of(packet).bytes();
        let ran = tables.run(numbers[name], &frame, 1).unwrap();
        (ran.verdict != Verdict::Drop).then(|| mark_of(&ran.packet))
    };
    let probes = probes.iter();
    probes.map(|probe| (probe.clone(), mark(probe))).collect()
}

/// The code point in a frame.
fn mark_of(frame: &[u8]) -> u8 {
    match frame[12..14] {
        [0x86, 0xdd] => frame[14] << 4 >> 2 | frame[15] >> 6,
        _ => frame[15] >> 2,
    }
}

/// Packets that are sent.
pub struct Traffic {
    senders: Vec<Sender>,
    sent: u32,
}

struct Sender {
    socket: UdpSocket,
    wire: Wire,
    probe: Probe,
    to: String,
}

impl Traffic {
    pub fn new() -> Self {
        Self {
            senders: Vec::new(),
            sent: 0,
        }
    }

    /// From a pod to this address, seen where the wire is.
    pub fn add(&mut self, from: &Pod, to: IpAddr, wire: Wire) {
        const PORT: u16 = 9999;
        let packet = Packet {
            destination: to,
            protocol: Some(Protocol::Udp),
            port: Some(PORT),
        };
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = from.inside(|| UdpSocket::bind(any).unwrap()).unwrap();
        self.senders.push(Sender {
            socket,
            wire,
            probe: (from.name().to_owned(), packet),
            to: std::net::SocketAddr::new(to, PORT).to_string(),
        });
    }

    /// Which packets they are.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.senders.iter().map(|sender| &sender.probe)
    }

    /// One of each, and the mark with which it arrives.
    pub fn marks(&mut self) -> Marks {
        let mut marks = Marks::new();
        for sender in &self.senders {
            self.sent += 1;
            let payload = format!("packet number {:6}", self.sent);
            let sent = sender.socket.send_to(payload.as_bytes(), &sender.to);
            sent.unwrap();
            let frame = sender.wire.receive(payload.as_bytes());
            marks.insert(sender.probe.clone(), frame.map(|frame| mark_of(&frame)));
        }
        marks
    }
}
