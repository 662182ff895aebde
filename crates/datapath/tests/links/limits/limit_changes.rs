//! Random changes of a limit under bulk traffic in one direction.

use std::fmt;
use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, Direction, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request, Shaped, SideName};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Namespace, Socket};
use netqos_testkit::random_changes::{
    ChangedQueue, assert_random_changes_keep_flow, random_rate_and_burst,
};
use netqos_testkit::{Bulk, Node, Pod, has_big_tcp};
use netqos_traffic::{Flow, TcpTest};

use super::server;

/// The default size, and one of BIG TCP.
const GSO: [u32; 2] = [65_536, 196_608];

/// The traffic and the queue of a series of changes.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    direction: Direction,
    egress: EgressWay,
    hook: HookChoice,
    congestion_control: &'static str,
    gso: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            egress,
            hook,
            congestion_control,
            gso,
        } = self;
        write!(
            f,
            "{direction} by {egress:?}, {hook:?}, {congestion_control}, GSO of {gso} bytes"
        )
    }
}

/// All combinations.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let ways = [
        (Direction::Ingress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Ifb),
    ];
    for (direction, egress) in ways {
        // Without a program TBF has its own queue.
        for hook in [HookChoice::Auto, HookChoice::None] {
            for congestion_control in ["cubic", "bbr"] {
                for gso in GSO {
                    cases.push(Case {
                        direction,
                        egress,
                        hook,
                        congestion_control,
                        gso,
                    });
                }
            }
        }
    }
    cases.retain(|case| case.gso == GSO[0] || has_big_tcp());
    cases
}

/// Changes a limit at random. Returns the number of changes with a backlog, or `None` if the test must be skipped.
pub(crate) fn keeps_flow(case: &Case, times: usize) -> Option<usize> {
    let node = Node::new().unwrap()?;
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    for at in [&pod, &other] {
        at.set_gso_max_size(&node, case.gso).unwrap();
    }
    // BIG TCP of IPv4 came later than that of IPv6.
    let server = server(&other, &other.address6());
    let test = TcpTest {
        flow: match case.direction {
            Direction::Ingress => Flow::Download,
            Direction::Egress => Flow::Upload,
        },
        streams: 2,
        omit: Duration::ZERO,
        duration: Duration::from_secs(1),
        congestion_control: Some(case.congestion_control.to_owned()),
        ..TcpTest::new(server.local_addr())
    };
    let _bulk = Bulk::start(pod.netns(), move || drop(test.run(|_| ()))).unwrap();
    let mut limited = Limited::new(&pod, case);
    let with_backlog = assert_random_changes_keep_flow(case, &mut limited, times, || {
        let (rate, burst) = random_rate_and_burst();
        Limit {
            burst,
            ..Limit::of(rate)
        }
    });
    limited.set(Limits::default());
    Some(with_backlog)
}

/// A pod with a limit.
struct Limited<'s> {
    case: &'s Case,
    pod: &'s Pod,
    attachment: Attachment,
    datapath: LimitDatapath,
    queue: Option<Shaped>,
}

impl<'s> Limited<'s> {
    fn new(pod: &'s Pod, case: &'s Case) -> Self {
        Self {
            case,
            pod,
            attachment: Attachment::try_new("net", pod.name(), "eth0").unwrap(),
            datapath: LimitDatapath::open(Paths::from_variables(|_| None)).unwrap(),
            queue: None,
        }
    }

    fn set(&mut self, limits: Limits) -> Option<Shaped> {
        let applied = self.datapath.apply(&Request {
            attachment: &self.attachment,
            netns: &self.pod.netns(),
            ends: None,
            host_links: HostLinks::Unknown,
            limits,
            egress: self.case.egress,
            hook: self.case.hook,
            is_running: true,
        });
        applied.unwrap().queues.pop()
    }
}

impl ChangedQueue for Limited<'_> {
    type Change = Limit;

    fn change(&mut self, limit: &Limit) -> BitRate {
        let mut limits = Limits::default();
        match self.case.direction {
            Direction::Ingress => limits.ingress = Some(*limit),
            Direction::Egress => limits.egress = Some(*limit),
        }
        self.queue = self.set(limits);
        limit.rate
    }

    fn statistics(&self) -> Option<Statistics> {
        let queue = self.queue.as_ref()?;
        let mut socket = match queue.side {
            SideName::Host => Socket::open().unwrap(),
            SideName::Pod => Socket::open_in(&Namespace::open(self.pod.netns()).unwrap()).unwrap(),
        };
        let link = socket.link_by_name(&queue.link).unwrap();
        let root = socket.qdisc_at(&link, Handle::ROOT).unwrap().unwrap();
        Some(root.statistics)
    }
}
