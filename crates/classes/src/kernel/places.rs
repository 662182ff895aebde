//! Whose traffic is whose, told to the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_bpf::classes::{
    CGROUP_MAJOR, Classes, Flow, FlowKey, MOST_CGROUP_LEVELS, MOST_POD_FLOWS, Pod, Settings, Slot,
    cgroup_class, link_entry,
};
use netqos_bpf::rules::Entries;
use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, ClassedPod, PartId};
use netqos_netlink::link::{Link, optional};
use netqos_netlink::{Handle, Socket};

use super::ingress;
use super::stamps::{self, PodLink};
use super::tree::Root;
use super::{Kernel, KernelOptions};
use crate::error::Doing as _;
use crate::net_cls::NetCls;
use crate::{Error, Outcome, Result, Trouble};

/// What the programs are to know.
#[derive(Debug, Default)]
struct Known {
    pods: BTreeMap<u32, Pod>,
    flows: BTreeMap<(u32, u32), Flow>,
    addresses: BTreeMap<IpAddr, u32>,
    links: BTreeMap<u32, (Link, u32)>,
    cgroups: BTreeMap<u64, u32>,
    /// By the folders of cgroups of version 1.
    classids: BTreeMap<PathBuf, (Handle, u32)>,
    levels: u16,
    /// Whose these numbers are.
    uids: BTreeMap<u32, Arc<str>>,
}

impl Known {
    /// True for a pod some of whose flows are told apart.
    fn has_flows(&self, pod: u32) -> bool {
        self.flows
            .range((pod, 0)..=(pod, u32::MAX))
            .next()
            .is_some()
    }

    /// What is wrong with a pod of this number. It stops no other.
    fn trouble(&self, pod: u32, what: impl ToString) -> Trouble {
        let part = self.uids.get(&pod).map(|uid| PartId {
            pod: uid.clone(),
            flow: None,
        });
        Trouble {
            line: None,
            part,
            what: what.to_string(),
        }
    }

    /// What is wrong with a cgroup, of the pod that it is of.
    fn of_cgroup(&self, error: &Error) -> Trouble {
        let pod = match error {
            Error::File { path, .. } => path
                .ancestors()
                .find_map(|folder| self.classids.get(folder)),
            _ => None,
        };
        self.trouble(pod.map_or(0, |(_, pod)| *pod), error)
    }
}

/// Tells the programs of the plan's pods, new ones first, and takes away what is no more.
pub(super) fn apply(
    kernel: &mut Kernel,
    plan: &ClassPlan,
    programs: &Classes,
    outcome: &mut Outcome,
) -> Result<()> {
    let slots = kernel.numbers.slots();
    let mut known = Known::default();
    for (uid, pod) in &plan.pods {
        let Some(number) = kernel.numbers.pod(uid).map(u32::from) else {
            continue;
        };
        known.uids.insert(number, uid.clone());
        for what in learn(kernel, pod, number, &slots, &mut known) {
            outcome.troubles.push(known.trouble(number, what));
        }
    }
    let links = kernel.socket.links().doing("list links")?;
    let settings = Settings::new(known.levels);
    let tunnels = &kernel.options.tunnels;
    let settings = tunnels.add_to(settings, &links, &mut outcome.troubles);
    if programs.settings()? != settings {
        programs.set(&settings)?;
        outcome.changes += 1;
    }
    // What a pod is comes before by what it is known.
    let flows = known
        .flows
        .iter()
        .map(|(&(pod, index), flow)| (FlowKey { pod, index }, *flow));
    outcome.changes += put(&programs.flows, flows)?;
    outcome.changes += put(
        &programs.pods,
        known.pods.iter().map(|(key, pod)| (*key, *pod)),
    )?;
    outcome.changes += put(
        &programs.cgroups,
        known.cgroups.iter().map(|(key, pod)| (*key, *pod)),
    )?;
    if let Some(net_cls) = net_cls(&kernel.options) {
        let numbers = known.classids.iter();
        let numbers = numbers.map(|(folder, (number, _))| (folder.clone(), *number));
        let errors = net_cls.hold_each(&numbers.collect(), &mut outcome.changes);
        let troubles = errors.iter().map(|error| known.of_cgroup(error));
        outcome.troubles.extend(troubles);
    }
    let entry = |pod: u32| link_entry(pod, known.has_flows(pod));
    let links = known.links.iter();
    let links = links.map(|(index, (_, pod))| (*index, entry(*pod)));
    outcome.changes += put(&programs.links, links)?;
    if !kernel.is_by_tcx {
        outcome.filtered = known.links.keys().copied().collect();
    }
    let pods = known.links.values().map(|(link, pod)| PodLink {
        link,
        pod: *pod,
        has_flows: known.has_flows(*pod),
    });
    let troubles = &mut outcome.troubles;
    outcome.changes += stamps::apply(kernel, programs, pods, |at, why| {
        let what = format!(
            "{}: what comes from it is known by its addresses alone: {why}",
            at.link.name
        );
        troubles.push(known.trouble(at.pod, what));
    })?;
    let there: BTreeMap<IpAddr, u32> = programs.addresses()?.into_iter().collect();
    for (address, pod) in &known.addresses {
        if there.get(address) == Some(pod) {
            continue;
        }
        match programs.put_address(*address, *pod) {
            Ok(()) => outcome.changes += 1,
            Err(error) => {
                let what = format!("{address} is not known as its address: {error}");
                outcome.troubles.push(known.trouble(*pod, what));
            }
        }
    }
    for address in there
        .keys()
        .filter(|address| !known.addresses.contains_key(address))
    {
        outcome.changes += usize::from(programs.remove_address(*address)?);
    }
    for index in programs
        .links
        .keys()?
        .iter()
        .filter(|index| !known.links.contains_key(index))
    {
        match stamps::remove(kernel, programs, *index) {
            Ok(changes) => outcome.changes += changes,
            Err(error) => outcome.troubles.push(Trouble {
                line: None,
                part: None,
                what: format!("a link that is no pod's any more: {error}"),
            }),
        }
    }
    outcome.changes += retain(&programs.cgroups, |id| known.cgroups.contains_key(id))?;
    outcome.changes += retain(&programs.pods, |pod| known.pods.contains_key(pod))?;
    let is_known = |key: &FlowKey| known.flows.contains_key(&(key.pod, key.index));
    outcome.changes += retain(&programs.flows, is_known)?;
    Ok(())
}

/// What is to be known of one pod; what of it cannot be is said.
fn learn(
    kernel: &mut Kernel,
    pod: &ClassedPod,
    number: u32,
    slots: &BTreeMap<PartId, Slot>,
    known: &mut Known,
) -> Vec<String> {
    let mut troubles = Vec::new();
    let slot_of = |flow: Option<u16>| {
        let part = PartId {
            pod: pod.id.uid.clone(),
            flow,
        };
        slots.get(&part).copied()
    };
    let whole = |direction| {
        let part = pod.part(direction, None);
        let slot = part.and_then(|_| slot_of(None));
        slot.unwrap_or(Slot::of(pod.class))
    };
    if pod.flows.len() > MOST_POD_FLOWS {
        troubles.push(format!(
            "only the first {MOST_POD_FLOWS} of {} flows have parts of their own",
            pod.flows.len()
        ));
    }
    for (index, flow) in (0_u16..).zip(pod.flows.iter().take(MOST_POD_FLOWS)) {
        let class = flow.class.unwrap_or(pod.class);
        let part = pod.part(flow.direction, Some(index));
        let slot = part.and_then(|_| slot_of(Some(index)));
        let slot = slot.unwrap_or_else(|| match class == pod.class {
            // Its limit is theirs.
            true => whole(flow.direction),
            false => Slot::of(class),
        });
        let mut written = Flow::new(flow.direction, slot);
        if let Some(peer) = flow.flow.peer {
            written = written.peer(peer);
        }
        if let Some(ports) = &flow.flow.port {
            written = written.ports(*ports.start(), *ports.end());
        }
        if let Some(dscp) = flow.flow.dscp {
            written = written.dscp(dscp.get());
        }
        if let Some(mark) = flow.dscp {
            written = written.marked(mark.get());
        }
        known.flows.insert((number, index.into()), written);
    }
    let written = Pod::new(
        whole(Direction::Ingress),
        whole(Direction::Egress),
        pod.flows.len(),
    )
    .at(&pod.place.addresses);
    known.pods.insert(number, written);
    if pod.place.host_network {
        troubles.extend(learn_cgroup(&kernel.options, pod, number, known));
        return troubles;
    }
    known
        .addresses
        .extend(pod.place.addresses.iter().map(|address| (*address, number)));
    for name in &pod.place.host_links {
        match optional(kernel.socket.link_by_name(name)) {
            Ok(Some(link)) => drop(known.links.insert(link.index, (link, number))),
            Ok(None) => troubles.push(format!("there is no link {name}")),
            Err(why) => troubles.push(format!("its link {name} cannot be found: {why}")),
        }
    }
    troubles
}

/// The cgroup of a pod on the host's network, below its root.
fn below(pod: &ClassedPod) -> Option<&Path> {
    let path = pod.place.cgroup.as_deref()?;
    Some(path.strip_prefix("/").unwrap_or(path))
}

fn learn_cgroup(
    options: &KernelOptions,
    pod: &ClassedPod,
    number: u32,
    known: &mut Known,
) -> Option<String> {
    let Some(path) = below(pod) else {
        return Some("its cgroup is not known, and its traffic is the system's".to_owned());
    };
    if let Some(net_cls) = &options.net_cls {
        let class = Handle::from_raw(cgroup_class(number as u16));
        known.classids.insert(net_cls.join(path), (class, number));
    }
    let Some(root) = &options.cgroups else {
        return options.net_cls.is_none().then(|| {
            "it is on the host's network, and neither cgroups of version 2 nor net_cls are mounted; \
             its traffic is the system's"
                .to_owned()
        });
    };
    let level = path.components().count();
    if level >= MOST_CGROUP_LEVELS {
        return Some(format!("its cgroup is more than {MOST_CGROUP_LEVELS} deep"));
    }
    match fs::metadata(root.join(path)) {
        // The id of a cgroup is the number of its folder.
        Ok(folder) => {
            known.cgroups.insert(folder.ino(), number);
            known.levels |= 1 << level;
            None
        }
        // A pod of a hybrid host is in the hierarchy of version 1 alone.
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.net_cls.is_some() => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("there is no cgroup {}", path.display()))
        }
        Err(error) => Some(format!("its cgroup {}: {error}", path.display())),
    }
}

/// Where cgroups of version 1 have our numbers.
fn net_cls(options: &KernelOptions) -> Option<NetCls<'_>> {
    let root = options.net_cls.as_deref()?;
    let is_ours = |number: Handle| number.major() == CGROUP_MAJOR;
    Some(NetCls {
        root,
        is_ours,
        may_be_others: false,
    })
}

/// Writes what is not there.
fn put<K, V: PartialEq>(
    table: &impl Entries<K, V>,
    wanted: impl Iterator<Item = (K, V)>,
) -> Result<usize> {
    let mut changes = 0;
    for (key, value) in wanted {
        if table.get(&key)?.as_ref() != Some(&value) {
            table.put(&key, &value)?;
            changes += 1;
        }
    }
    Ok(changes)
}

/// Removes what is not kept.
fn retain<K, V>(table: &impl Entries<K, V>, keep: impl Fn(&K) -> bool) -> Result<usize> {
    let mut changes = 0;
    for key in table.keys()?.iter().filter(|key| !keep(key)) {
        changes += usize::from(table.remove(key)?);
    }
    Ok(changes)
}

/// Forgets the slots of lines that have no tree any more: neither of what they send, which somebody else's may
/// have taken the place of, nor of what comes. A link that went after it was listed has none.
pub(super) fn forget_lines(
    socket: &mut Socket,
    links: &[Link],
    programs: &Classes,
) -> Result<usize> {
    let mut kept = BTreeSet::new();
    for link in links {
        let root = ingress::root_of(link).unwrap_or(Root::of_line(link));
        match root.is_ours(socket) {
            Ok(true) => drop(kept.insert(root.name.ifindex())),
            Ok(false) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(programs.leaves.retain(|ifindex| kept.contains(&ifindex))?)
}

/// Takes all that was told to the programs away, and the programs from the pods' links. What cannot be
/// stops nothing else.
pub(super) fn clear(kernel: &mut Kernel, programs: &Classes) -> Result<usize> {
    let mut changes = 0;
    let mut errors = Vec::new();
    for index in programs.links.keys()? {
        match stamps::remove(kernel, programs, index) {
            Ok(changed) => changes += changed,
            Err(error) => errors.push(error),
        }
    }
    if let Some(net_cls) = net_cls(&kernel.options) {
        errors.extend(net_cls.hold_each(&BTreeMap::new(), &mut changes));
    }
    for (address, _) in programs.addresses()? {
        changes += usize::from(programs.remove_address(address)?);
    }
    changes += retain(&programs.cgroups, |_| false)?;
    changes += retain(&programs.pods, |_| false)?;
    changes += retain(&programs.flows, |_| false)?;
    Error::all(errors).map(|()| changes)
}
