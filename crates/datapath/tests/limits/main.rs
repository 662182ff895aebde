//! Limits on real links, in namespaces of the tests' own.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod a_change_stops_no_flow;
mod a_limit_costs_a_running_pod_no_more_than_tc;
mod applied_twice_changes_nothing;
mod changing;
mod limits_take_effect;
mod others_are_heard_of;
mod ours_goes_before_foreign_tcx_programs;

use std::path::PathBuf;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::Pod;

/// Both hooks: what is tested with one is tested with the other.
const HOOKS: [HookChoice; 2] = [HookChoice::Clsact, HookChoice::Tcx];

/// A request with an owner for what it borrows.
struct Wanted {
    attachment: Attachment,
    netns: PathBuf,
    limits: Limits,
    egress: EgressWay,
    hook: HookChoice,
    is_at_work: bool,
}

impl Wanted {
    fn new(pod: &Pod, limits: Limits, hook: HookChoice) -> Self {
        Self {
            attachment: Attachment::try_new("net", pod.name(), "eth0").unwrap(),
            netns: pod.netns(),
            limits,
            egress: EgressWay::Pod,
            hook,
            is_at_work: false,
        }
    }

    fn at_work(mut self) -> Self {
        self.is_at_work = true;
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
            host_links: HostLinks::Unknown,
            limits: self.limits,
            egress: self.egress,
            hook: self.hook,
            is_at_work: self.is_at_work,
        }
    }
}

fn datapath() -> LimitDatapath {
    LimitDatapath::open(Paths::from_variables(|_| None)).unwrap()
}

/// The same limit both ways.
fn both(megabits: u64) -> Limits {
    let limit = Limit::of(BitRate::from_bits_per_second(megabits * 1_000_000));
    Limits {
        ingress: Some(limit),
        egress: Some(limit),
    }
}
