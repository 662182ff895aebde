//! The kernel backend: HTB on each line, and a program that chooses the class.
//!
//! ```text
//!   to the node:    line ingress ─ program ─ mirred ─► ifb ─ HTB ─► on as it would have gone
//!   from the node:  pod's veth ─ stamp ─► … bridge, NAT, tunnel … ─► line ─ program ─► HTB
//!
//!   6e71:1 total ─┬─ 6e71:2 system             ─┬─ quick   flows that take little
//!                 ├─ 6e71:3 latency-sensitive  ─┼─ bulk    all others
//!                 └─ 6e71:4 best-effort        ─┴─ a part ─┬─ quick
//!                                                          └─ bulk
//! ```
//!
//! The tree of what comes is the same as `6e72:`: a packet may go on by another line with the priority that
//! chose its class there.
//!
//! While a line carries little, packets of what has no lower limit than the line pass beside the tree.
//!
//! HTB gives every class what it is guaranteed, and what is left to the class whose leaves have the
//! lower priority. Numbers of pods and parts are written down before the kernel hears of them, so that
//! the next process finds again what is right already.

mod exchange;
mod form;
mod idle;
mod ingress;
mod line;
mod numbers;
mod places;
mod queue;
mod stalls;
mod stamps;
mod tree;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_api::HookChoice;
use netqos_bpf::can_tell_tcx;
use netqos_bpf::classes::{Classes, Slot};
use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, PartId};
use netqos_datapath::{Paths, try_fq_codel};
use netqos_netlink::link::Link;
use netqos_netlink::{Handle, Socket};

use crate::error::Doing;
use crate::{BackendKind, ClassBackend, Error, Outcome, Result, Standing, Traffic, Trouble};

use form::Forms;
pub use ingress::{is_ifb as is_lines_ifb, uplink_of_ifb};
use numbers::Numbers;
use queue::Leaves;
use stalls::Stalls;
use tree::Root;
pub use tunnels::Tunnels;

/// Packets that have to have room beside a tree that some pass.
const LEAST_DIRECT: u32 = 100;

/// Where the kernel backend finds what is not the kernel's own.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// The folders that it writes to.
    pub paths: Paths,
    /// The root of the cgroup hierarchy of version 2, where it is mounted.
    pub cgroups: Option<PathBuf>,
    /// That of `net_cls` of version 1, where it is.
    pub net_cls: Option<PathBuf>,
    /// Tunnels between nodes, besides those of the node's links.
    pub tunnels: Tunnels,
    /// How programs are attached where pods and lines send: by tcx, where the kernel has that, and who
    /// stands there may be asked (`CAP_SYS_ADMIN`); else, or where filters are asked for, on clsact and in
    /// the tree.
    pub hook: HookChoice,
    /// Every packet waits in a class, also while its line carries next to nothing.
    pub divides_idle_lines: bool,
}

impl KernelOptions {
    /// What is usual: cgroups where they are mounted at, above or below this folder
    /// (`/sys/fs/cgroup`), and the usual ports of tunnels.
    pub fn new(paths: Paths, cgroups: &Path) -> Self {
        let mounted = |below: &str, file: &str| {
            let path = cgroups.join(below);
            let inside = path.ancestors().take_while(|path| path.join(file).exists());
            inside.last().map(Path::to_owned)
        };
        Self {
            paths,
            cgroups: mounted("", "cgroup.controllers")
                .or_else(|| mounted("unified", "cgroup.controllers")),
            net_cls: mounted("net_cls", "net_cls.classid")
                .or_else(|| mounted("net_cls,net_prio", "net_cls.classid")),
            tunnels: Tunnels::default(),
            hook: HookChoice::Auto,
            divides_idle_lines: false,
        }
    }
}

/// Returns the kinds of queues that this kernel makes, so far as this process may try.
fn leaves() -> Leaves {
    match try_fq_codel() {
        Ok(()) => Leaves::Fair,
        Err(why) => {
            tracing::info!(
                "the flows of a class share one queue, first in, first out, without fq_codel: {why}"
            );
            Leaves::Fifo
        }
    }
}

/// Divides lines by HTB, and chooses classes by a program.
#[derive(Debug)]
pub struct Kernel {
    options: KernelOptions,
    socket: Socket,
    numbers: Numbers,
    leaves: Leaves,
    stalls: Stalls,
    /// What stamps and what chooses stands on tcx.
    is_by_tcx: bool,
}

impl Kernel {
    /// Opens the kernel's door, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// There is no netlink.
    pub fn open(options: KernelOptions) -> Result<Self> {
        let is_wanted = matches!(options.hook, HookChoice::Auto | HookChoice::Tcx);
        let numbers = Numbers::open(&options.paths)?;
        Ok(Self {
            socket: Socket::open().doing("open netlink socket")?,
            leaves: leaves(),
            stalls: Stalls::default(),
            options,
            numbers,
            is_by_tcx: is_wanted && can_tell_tcx(),
        })
    }

    /// The link of a line.
    fn link(&mut self, name: &str) -> Result<Link> {
        match self.socket.link_by_name(name) {
            Err(error) if error.is_not_found() => Err(Error::NoLine(name.to_owned())),
            found => found.doing("find the line"),
        }
    }

    /// What the trees of a line become.
    fn forms(&self, line: &str, plan: &ClassPlan) -> Vec<(Direction, Forms)> {
        let slots = self.numbers.slots();
        let ways = [Direction::Egress, Direction::Ingress].into_iter();
        let trees = ways.filter_map(|way| Some((way, plan.tree(line, way)?)));
        trees
            .map(|(way, tree)| (way, form::forms(&tree, &slots, self.leaves)))
            .collect()
    }

    /// Has a line be as the plan says. What comes by one at whose root somebody else's qdisc is goes on being
    /// divided, where it was: its tree is to know no pod that has gone, since others get the number of that.
    fn apply_line(
        &mut self,
        name: &Arc<str>,
        plan: &ClassPlan,
        programs: &Classes,
        changes: &mut usize,
    ) -> Result<()> {
        let link = self.link(name)?;
        let mut errors = Vec::new();
        for (direction, forms) in self.forms(name, plan) {
            if !errors.is_empty() && ingress::of_line(&mut self.socket, &link)?.is_none() {
                // A line that is somebody else's is left as it is.
                break;
            }
            match self.apply_way(&link, direction, &forms, programs) {
                Ok(writes) => *changes += writes,
                Err(why) => errors.push(why),
            }
        }
        Error::all(errors)
    }

    fn apply_way(
        &mut self,
        link: &Link,
        direction: Direction,
        forms: &Forms,
        programs: &Classes,
    ) -> Result<usize> {
        // Before its rates are: what a line that becomes slower carries may be little no more, and that is so
        // whatever takes long or fails after this.
        let passing = self.passing(link, direction, forms)?;
        let mut changes = idle::restrict(programs, link, direction, passing)?;
        changes += match direction {
            Direction::Egress => {
                let (socket, stalls) = (&mut self.socket, &mut self.stalls);
                line::apply(socket, link, forms, programs, self.is_by_tcx, stalls)
            }
            Direction::Ingress => {
                let (socket, stalls) = (&mut self.socket, &mut self.stalls);
                ingress::apply(socket, link, forms, programs, stalls)
            }
        }?;
        Ok(changes + self.pass_beside(link, direction, forms, programs)?)
    }

    /// Lets packets pass beside a tree that has a place, as far as they may.
    fn pass_beside(
        &mut self,
        link: &Link,
        direction: Direction,
        forms: &Forms,
        programs: &Classes,
    ) -> Result<usize> {
        let passing = self.passing(link, direction, forms)?;
        idle::apply(programs, link, direction, passing)
    }

    /// The forms of a tree that packets may pass beside.
    fn passing<'f>(
        &mut self,
        link: &Link,
        direction: Direction,
        forms: &'f Forms,
    ) -> Result<Option<&'f Forms>> {
        let has_room = match direction {
            Direction::Egress => {
                let root = self.socket.qdisc_at(link, Handle::ROOT);
                let root = root.doing("find the root qdisc")?;
                // One that an earlier build has made may have none.
                let htb = root.and_then(|root| root.htb());
                htb.is_some_and(|htb| htb.direct_queue >= LEAST_DIRECT)
            }
            // There it goes its straight way, by no queue.
            Direction::Ingress => true,
        };
        let may_be_idle = !self.options.divides_idle_lines && has_room;
        Ok(may_be_idle.then_some(forms))
    }

    /// What comes after all that had to be there first: parts that nobody needs any more go, and, where all of
    /// the line is divided as the plan says, packets may pass beside trees that have got a place by what went.
    fn settle_line(
        &mut self,
        name: &Arc<str>,
        plan: &ClassPlan,
        programs: &Classes,
        is_divided: bool,
    ) -> Result<usize> {
        let link = self.link(name)?;
        let slots: BTreeSet<_> = self.numbers.slots().into_values().collect();
        let mut changes = line::prune(&mut self.socket, &link, &slots)?;
        if !is_divided {
            return Ok(changes);
        }
        for (direction, forms) in self.forms(name, plan) {
            changes += self.pass_beside(&link, direction, &forms, programs)?;
        }
        Ok(changes)
    }

    /// What stands on a link.
    fn read(&mut self, link: &Link, parts: &BTreeMap<Slot, PartId>) -> Result<Standing> {
        let socket = &mut self.socket;
        let mut standing = Standing::default();
        let root = Root::of_line(link);
        tree::read(socket, root, parts, &mut standing)?;
        if let Some(ifb) = ingress::of_line(socket, link)? {
            let root = Root::of_ifb(link, &ifb);
            tree::read(socket, root, parts, &mut standing)?;
        }
        Ok(standing)
    }

    /// Takes down the lines that are ours and not of the plan, and says what went wrong with which of them;
    /// how many changes that took.
    fn leave(
        &mut self,
        keep: &BTreeSet<Arc<str>>,
        programs: Option<&Classes>,
        mut wrong: impl FnMut(Arc<str>, Error),
    ) -> Result<usize> {
        let links = self.socket.links().doing("list links")?;
        let mut changes = 0;
        let mut one = |link: &Link, done: Result<usize>| match done {
            Ok(changed) => changes += changed,
            // It went by itself.
            Err(error) if error.is_gone() => {}
            Err(error) => wrong(link.name.as_str().into(), error),
        };
        for link in &links {
            if !keep.contains(link.name.as_str()) {
                one(link, line::leave(&mut self.socket, link));
                one(link, ingress::leave(&mut self.socket, link));
            }
        }
        changes += ingress::remove_orphans(&mut self.socket, &links, keep)?;
        if let Some(programs) = programs {
            changes += places::forget_lines(&mut self.socket, &links, programs)?;
        }
        Ok(changes)
    }
}

impl ClassBackend for Kernel {
    fn kind(&self) -> BackendKind {
        BackendKind::Kernel
    }

    fn apply(&mut self, plan: &ClassPlan) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if plan.lines.is_empty() {
            let programs = Classes::open(self.options.paths.bpffs())?;
            let troubles = &mut outcome.troubles;
            let wrong = |line, error| troubles.push(of_line(line, &error));
            outcome.changes += self.leave(&BTreeSet::new(), programs.as_ref(), wrong)?;
            if let Some(programs) = programs {
                outcome.changes += places::clear(self, &programs)?;
            }
            return Ok(outcome);
        }
        let programs = Classes::ensure(self.options.paths.bpffs())?;
        let assigned = self.numbers.assign(plan)?;
        outcome.changes += usize::from(assigned.is_new);
        outcome.troubles.extend(assigned.left_out);
        for name in plan.lines.keys() {
            match self.apply_line(name, plan, &programs, &mut outcome.changes) {
                Ok(()) => outcome.lines.push(name.clone()),
                Err(error) => outcome.troubles.push(of_line(name.clone(), &error)),
            }
        }
        outcome.stalled = self.stalls.take();
        // Packets go to new parts once these are there, and old parts go once no packet does.
        places::apply(self, plan, &programs, &mut outcome)?;
        let keep: BTreeSet<_> = plan.lines.keys().cloned().collect();
        let troubles = &mut outcome.troubles;
        let wrong = |line, error| troubles.push(of_line(line, &error));
        outcome.changes += self.leave(&keep, Some(&programs), wrong)?;
        outcome.changes += usize::from(self.numbers.retain(plan)?);
        let divided: BTreeSet<_> = std::mem::take(&mut outcome.lines).into_iter().collect();
        // Also those of which some is not as it should be: a part that stays would be the next pod's of its number.
        for name in plan.lines.keys() {
            let is_divided = divided.contains(name);
            match (
                self.settle_line(name, plan, &programs, is_divided),
                is_divided,
            ) {
                (Ok(changes), _) => {
                    outcome.changes += changes;
                    outcome.lines.extend(is_divided.then(|| name.clone()));
                }
                (Err(error), true) => outcome.troubles.push(of_line(name.clone(), &error)),
                // Why is said already.
                (Err(_), false) => {}
            }
        }
        Ok(outcome)
    }

    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>> {
        let parts = self.numbers.parts();
        let mut found = BTreeMap::new();
        for link in self.socket.links().doing("list links")? {
            match self.read(&link, &parts) {
                Ok(standing) if !standing.classes.is_empty() && !ingress::is_ifb(&link) => {
                    found.insert(Arc::from(link.name.as_str()), standing);
                }
                Ok(_) => {}
                // Pods' links come and go.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn traffic(&mut self, line: &str) -> Result<Traffic> {
        let link = match self.link(line) {
            Err(Error::NoLine(_)) => return Ok(Traffic::new()),
            link => link?,
        };
        let mut traffic = tree::traffic(&mut self.socket, Root::of_line(&link))?;
        if let Some(ifb) = ingress::of_line(&mut self.socket, &link)? {
            let root = Root::of_ifb(&link, &ifb);
            traffic.extend(tree::traffic(&mut self.socket, root)?);
        }
        if let Some(programs) = Classes::open(self.options.paths.bpffs())? {
            idle::count(&programs, &link, &mut traffic)?;
        }
        Ok(traffic)
    }

    fn teardown(&mut self) -> Result<()> {
        let programs = Classes::open(self.options.paths.bpffs())?;
        let mut errors = Vec::new();
        let wrong = |_, error| errors.push(error);
        self.leave(&BTreeSet::new(), programs.as_ref(), wrong)?;
        if let Some(programs) = programs {
            errors.extend(places::clear(self, &programs).err());
        }
        Error::all(errors)?;
        Classes::unpin(self.options.paths.bpffs())?;
        self.numbers.forget()
    }
}

fn of_line(line: Arc<str>, error: &Error) -> Trouble {
    Trouble {
        line: Some(line),
        part: None,
        what: error.explained(),
    }
}
