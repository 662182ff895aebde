//! What went through the classes of the line.

use std::collections::BTreeMap;

use netqos_classes::{ClassBackend, Kernel};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;
use netqos_netlink::Socket;
use netqos_traffic::Flow;

use super::{World, options};

impl World {
    /// Bytes that each class has sent, or got, since it was made.
    pub fn sent(&self, flow: Flow) -> BTreeMap<TrafficClass, u64> {
        self.sent_by(&self.line(), flow)
    }

    /// The same of another line.
    pub fn sent_by(&self, line: &str, flow: Flow) -> BTreeMap<TrafficClass, u64> {
        let direction = match flow {
            Flow::Upload => Direction::Egress,
            Flow::Download => Direction::Ingress,
        };
        // Whoever asks does not have to be who divides.
        let mut backend = Kernel::open(options()).unwrap();
        let traffic = backend.traffic(line).unwrap().into_iter();
        let of_it = traffic.filter(|((way, _), _)| *way == direction);
        of_it.map(|((_, of), it)| (of, it.bytes)).collect()
    }

    /// The same of what waited in the tree.
    pub fn divided(&self, flow: Flow) -> BTreeMap<TrafficClass, u64> {
        self.divided_by(&self.line(), flow)
    }

    /// The same of another line.
    pub fn divided_by(&self, line: &str, flow: Flow) -> BTreeMap<TrafficClass, u64> {
        let mut socket = Socket::open().unwrap();
        let line = socket.link_by_name(line).unwrap();
        let link = match flow {
            Flow::Upload => line,
            Flow::Download => {
                let name = format!("netqos-l{}", line.index);
                socket.link_by_name(&name).unwrap()
            }
        };
        let classes = socket.classes(&link).unwrap();
        let bytes = |of: TrafficClass| {
            let minor = u16::from(of.priority()) + 2;
            let class = classes.iter().find(|class| class.handle.minor() == minor);
            (of, class.unwrap().statistics.bytes)
        };
        TrafficClass::ALL.into_iter().map(bytes).collect()
    }
}
