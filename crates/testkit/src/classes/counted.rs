//! What went through the classes of the line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netqos_classes::{ClassBackend, Kernel};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;
use netqos_netlink::Socket;
use netqos_netlink::class::InstalledClass;
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

impl World {
    /// Lists the classes of the uplink again and again during changes. Returns those whose rate was above the ceiling of
    /// their parent.
    pub fn rates_above_parents(&mut self, act: impl FnOnce(&mut Self)) -> Vec<String> {
        let (uplink, is_done) = (self.line(), AtomicBool::new(false));
        let watch = || {
            let mut socket = Socket::open().unwrap();
            let link = socket.link_by_name(&uplink).unwrap();
            let (mut found, mut times) = (Vec::new(), 0);
            while !is_done.load(Ordering::Relaxed) {
                let classes = socket.classes(&link).unwrap();
                for class in &classes {
                    let is_above = |parent: &&InstalledClass| {
                        parent.handle == class.parent && parent.ceil() < class.rate()
                    };
                    let parent = classes.iter().find(is_above);
                    found.extend(parent.map(|parent| format!("{class:?} in {parent:?}")));
                }
                times += 1;
            }
            (found, times)
        };
        let (found, times) = thread::scope(|scope| {
            let watched = scope.spawn(watch);
            act(self);
            is_done.store(true, Ordering::Relaxed);
            watched.join().unwrap()
        });
        // Less often, nothing was tested.
        assert!(times > 100, "{times}");
        found
    }
}
