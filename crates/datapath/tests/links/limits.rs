//! Limits on real links, in namespaces of the tests' own.

mod a_redirect_lifts_no_ingress_limit;
mod applied_twice_changes_nothing;
mod beside_calico;
mod large_datagrams_arrive;
mod limit_change_keeps_flow;
mod limit_changes;
mod limits_take_effect;
mod link_changes_of_other_processes;
mod ours_goes_before_foreign_tcx_programs;
mod queue_length;
mod running_pod_packet_loss;
mod the_pods_end_is_the_recorded_link;

use std::net::SocketAddr;
use std::path::PathBuf;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::{Pod, has_tcx};
use netqos_traffic::Server;

/// The hooks of the kernel: what is tested with one is tested with the other.
fn hooks() -> impl Iterator<Item = HookChoice> {
    let hooks = [HookChoice::Clsact, HookChoice::Tcx].into_iter();
    hooks.filter(|hook| *hook != HookChoice::Tcx || has_tcx())
}

/// A request with an owner for what it borrows.
struct Wanted {
    attachment: Attachment,
    netns: PathBuf,
    limits: Limits,
    egress: EgressWay,
    hook: HookChoice,
    is_running: bool,
}

impl Wanted {
    fn new(pod: &Pod, limits: Limits, hook: HookChoice) -> Self {
        Self {
            attachment: Attachment::try_new("net", pod.name(), "eth0").unwrap(),
            netns: pod.netns(),
            limits,
            egress: EgressWay::Pod,
            hook,
            is_running: false,
        }
    }

    fn running(mut self) -> Self {
        self.is_running = true;
        self
    }

    fn by_ifb(mut self) -> Self {
        self.egress = EgressWay::Ifb;
        self
    }

    fn request(&self) -> Request<'_> {
        Request {
            attachment: &self.attachment,
            netns: &self.netns,
            ends: None,
            host_links: HostLinks::Unknown,
            limits: self.limits,
            egress: self.egress,
            hook: self.hook,
            is_running: self.is_running,
        }
    }
}

fn datapath() -> LimitDatapath {
    LimitDatapath::open(Paths::from_variables(|_| None)).unwrap()
}

fn lift(wanted: &Wanted) {
    let request = wanted.request();
    let (attachment, netns) = (request.attachment, Some(request.netns));
    let lifted = datapath().teardown(attachment, netns, request.host_links, &request.limits);
    lifted.unwrap();
}

/// The same limit both ways.
fn both(megabits: u64) -> Limits {
    let limit = Limit::of(BitRate::from_bits_per_second(megabits * 1_000_000));
    Limits {
        ingress: Some(limit),
        egress: Some(limit),
    }
}

/// A server for traffic tests in this pod.
fn server(pod: &Pod, address: &str) -> Server {
    let address = SocketAddr::new(address.parse().unwrap(), 0);
    pod.inside(|| Server::bind(address)).unwrap().unwrap()
}
