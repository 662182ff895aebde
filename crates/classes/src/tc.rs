//! The proposal's own way, for kernels without BPF: HTB on each line, ipsets and iptables that choose a
//! packet's class, and cgroup v1's `net_cls` for processes on the host's network.
//!
//! ```text
//!   a pod's packet ──► mangle POSTROUTING: the set of its address ──► skb->priority 1:2, 1:3, 1:4
//!                                          pod_class, by address  ──► …   or its own 1:100 …
//!   a process's    ──► mangle POSTROUTING: net_cls of its cgroup  ──► …
//!                                                                       └─► HTB 1: of the line
//! ```
//!
//! The names are the proposal's, so that who knows it finds what they expect, but for one
//! level of classes more (`tree`). Only what is sent is divided.
//!
//! What is in force stands in the kernel and nowhere else: each call begins with reading it. A change is
//! made in an order in which no packet meets a class that is not there: who is told to choose a class
//! comes after it, and goes before it.

mod choice;
mod command;
mod line;
mod names;
mod numbers;
mod rules;
mod sets;
mod steps;
mod tree;
mod untold;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, PartId};
use netqos_netlink::{Namespace, Socket};

use crate::error::Doing;
use crate::net_cls::NetCls;
use crate::{ClassBackend, Error, Outcome, Result, Standing, Traffic, traffic};
use line::Line;
use names::Family;
use sets::Sets;
use steps::Steps;

/// The backend of the proposal. It works in the network namespace of the calling thread.
#[derive(Clone, Debug)]
pub struct Tc {
    net_cls: PathBuf,
    /// Whose the numbers are, by the last plan.
    numbers: BTreeMap<u16, PartId>,
}

impl Default for Tc {
    fn default() -> Self {
        Self::new(netqos_api::terway::NET_CLS_ROOT)
    }
}

impl Tc {
    /// The executables that it runs.
    pub const EXECUTABLES: [&str; 5] = [
        "ipset",
        Family::V4.iptables(),
        Family::V4.iptables_restore(),
        Family::V6.iptables(),
        Family::V6.iptables_restore(),
    ];

    /// With `net_cls` mounted here. Where it is not, processes on the host's network are the system's.
    pub fn new(net_cls: impl Into<PathBuf>) -> Self {
        Self {
            net_cls: net_cls.into(),
            numbers: BTreeMap::new(),
        }
    }

    /// Makes the ipsets and the rules of iptables in a network namespace of its own.
    ///
    /// # Errors
    /// Returns the first error of `ipset` and `iptables`, also if they are not installed.
    pub fn probe() -> Result<()> {
        let scratch = Namespace::scratch().doing("make a network namespace")?;
        let _inside = scratch.enter().doing("enter a network namespace")?;
        let cgroups = BTreeSet::from([names::minor(names::FIRST_PART).raw()]);
        for family in Family::BOTH {
            let wanted = sets::definitions(family).into_keys();
            let wanted = wanted.map(|name| (name, BTreeMap::new())).collect();
            sets::change(sets::additions(family, &Sets::new(), &wanted))?;
            rules::hold(family, &rules::wanted(family, &cgroups))?;
        }
        Ok(())
    }

    fn socket() -> Result<Socket> {
        Socket::open().doing("open a socket")
    }

    /// The lines that are divided by netqos, of all that there are.
    fn divided(socket: &mut Socket) -> Result<Vec<Line>> {
        let links = socket.links().doing("list links")?;
        let mut lines = Vec::new();
        for link in links {
            match Line::of(socket, link) {
                Ok(line) if line.is_ours() => lines.push(line),
                Ok(_) => {}
                // It went meanwhile.
                Err(Error::Netlink { source, .. }) if source.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(lines)
    }
}

fn net_cls(root: &Path) -> NetCls<'_> {
    NetCls {
        root,
        is_ours: names::is_cgroups,
        may_be_others: true,
    }
}

impl ClassBackend for Tc {
    fn kind(&self) -> BackendKind {
        BackendKind::Tc
    }

    fn apply(&mut self, plan: &ClassPlan) -> Result<Outcome> {
        let mut socket = Self::socket()?;
        let steps = Steps::plan(plan, net_cls(&self.net_cls), &mut socket)?;
        self.numbers = steps.numbers();
        steps.take()
    }

    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>> {
        let lines = Self::divided(&mut Self::socket()?)?;
        let standing = |line: &Line| {
            let mut standing = Standing::default();
            for class in &line.classes {
                let share = tree::share(class);
                if let Some(whole) = names::class_of(class.handle) {
                    standing.classes.insert((Direction::Egress, whole), share);
                }
                if names::is_part(class.handle)
                    && let Some(part) = self.numbers.get(&class.handle.minor())
                {
                    standing
                        .parts
                        .insert((Direction::Egress, part.clone()), share);
                }
            }
            standing
        };
        Ok(lines
            .iter()
            .map(|line| (Arc::from(line.name()), standing(line)))
            .collect())
    }

    fn traffic(&mut self, line: &str) -> Result<Traffic> {
        match Line::find(&mut Self::socket()?, line) {
            Ok(line) if line.is_ours() => Ok(traffic::counted(
                &line.classes,
                Direction::Egress,
                names::whole,
            )),
            Ok(_) | Err(Error::NoLine(_)) => Ok(Traffic::new()),
            Err(error) => Err(error),
        }
    }

    fn teardown(&mut self) -> Result<()> {
        let mut socket = Self::socket()?;
        let lines = Self::divided(&mut socket)?;
        let mut errors = Vec::new();
        let mut keep = |result: Result<()>| match result {
            // Where nothing is divided, who lacks the programs has not used them.
            Err(Error::NoProgram { .. }) if lines.is_empty() => {}
            result => errors.extend(result.err()),
        };
        let mut are_others = false;
        for family in Family::BOTH {
            // koordlet has rules for its sets that are the same, to a letter, and numbers for cgroups.
            let others = sets::foreign(family).unwrap_or_else(|why| {
                keep(Err(why));
                BTreeSet::new()
            });
            keep(rules::remove(family, &others).map(drop));
            keep(sets::destroy(family).map(drop));
            are_others |= !others.is_empty();
        }
        if !are_others {
            keep(net_cls(&self.net_cls).hold(&BTreeMap::new()).map(drop));
        }
        for line in &lines {
            keep(line.remove(&mut socket));
        }
        self.numbers.clear();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Error::Several(errors)),
        }
    }
}
