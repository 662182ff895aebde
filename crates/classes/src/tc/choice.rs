//! Who is to be told to choose which class.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use netqos_core::classes::{ClassPlan, ClassedPod, PartId};
use netqos_netlink::Handle;

use super::line::Line;
use super::names::{self, Family};
use super::numbers::{self, Unnumbered};
use super::sets::{self, Sets};
use super::untold;
use crate::Trouble;
use crate::net_cls::NetCls;

/// What chooses the class of each pod's packets.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The classes of pods that have a part of their own.
    pub(super) numbers: BTreeMap<PartId, u16>,
    /// By address.
    pub(super) sets: BTreeMap<Family, Sets>,
    /// On the host's network, by the folder of the cgroup.
    pub(super) cgroups: BTreeMap<PathBuf, Handle>,
}

/// What a pod's packets are known by.
#[derive(Debug)]
enum KnownBy {
    Addresses,
    Cgroup(PathBuf),
}

impl Choice {
    /// What a plan's pods are to be chosen by, where these sets and lines are found.
    pub(super) fn of(
        plan: &ClassPlan,
        net_cls: NetCls<'_>,
        found: &BTreeMap<Family, Sets>,
        lines: &[Line],
        troubles: &mut Vec<Trouble>,
    ) -> Self {
        let mut pods = Vec::new();
        for (uid, pod) in &plan.pods {
            match known_by(pod, net_cls) {
                Ok(known) => pods.push((uid, pod, known)),
                Err(why) => troubles.extend(untold::unplaced(uid, pod, &why)),
            }
        }
        let empty = |family| {
            let names = sets::definitions(family).into_keys();
            (family, names.map(|name| (name, BTreeMap::new())).collect())
        };
        let mut choice = Self {
            numbers: numbers(&pods, net_cls, found, lines),
            sets: Family::BOTH.map(empty).into(),
            cgroups: BTreeMap::new(),
        };
        for (uid, pod, known) in pods {
            let own = choice.numbers.get(&whole(uid));
            let own = own.map(|number| names::minor(*number));
            match known {
                KnownBy::Addresses => choice.put_addresses(pod, own),
                KnownBy::Cgroup(folder) => {
                    let class = own.unwrap_or(names::rest(pod.class));
                    choice.cgroups.insert(folder, class);
                }
            }
        }
        choice
    }

    fn put_addresses(&mut self, pod: &ClassedPod, own: Option<Handle>) {
        for address in &pod.place.addresses {
            let family = Family::of(*address);
            let sets = self.sets.entry(family).or_default();
            let mut put = |set: String, class| {
                let set = sets.entry(set).or_default();
                set.insert(address.to_string(), class);
            };
            put(family.class_set(pod.class), None);
            if own.is_some() {
                put(family.parts_set(), own);
            }
        }
    }

    /// The numbers that cgroups have.
    pub(super) fn cgroup_numbers(&self) -> BTreeSet<u32> {
        self.cgroups.values().map(|class| class.raw()).collect()
    }
}

fn whole(pod: &Arc<str>) -> PartId {
    PartId {
        pod: pod.clone(),
        flow: None,
    }
}

fn known_by(pod: &ClassedPod, net_cls: NetCls<'_>) -> Result<KnownBy, String> {
    if !pod.place.host_network {
        return match pod.place.addresses.is_empty() {
            true => Err("its address is not known".to_owned()),
            false => Ok(KnownBy::Addresses),
        };
    }
    if !net_cls.is_mounted() {
        let root = net_cls.root.display();
        return Err(format!(
            "it is on the host's network, and there is no net_cls (cgroup v1) at {root}"
        ));
    }
    let cgroup = pod.place.cgroup.as_deref();
    let folder = cgroup.and_then(|cgroup| net_cls.folder(cgroup));
    folder
        .map(KnownBy::Cgroup)
        .ok_or_else(|| "its cgroup of net_cls is not known".to_owned())
}

/// Gives each pod that asks for something a number.
fn numbers(
    pods: &[(&Arc<str>, &ClassedPod, KnownBy)],
    net_cls: NetCls<'_>,
    found: &BTreeMap<Family, Sets>,
    lines: &[Line],
) -> BTreeMap<PartId, u16> {
    let by_address: BTreeMap<String, Handle> = found
        .iter()
        .flat_map(|(family, sets)| sets::parts(sets, *family))
        .collect();
    let asking = pods
        .iter()
        .filter(|(_, pod, _)| !pod.asked.egress.is_nothing());
    let parts = asking.map(|(uid, pod, known)| {
        let had = match known {
            KnownBy::Cgroup(folder) => net_cls.number(folder),
            KnownBy::Addresses => {
                let addresses = pod.place.addresses.iter().map(ToString::to_string);
                addresses
                    .filter_map(|it| by_address.get(&it))
                    .next()
                    .copied()
            }
        };
        Unnumbered {
            id: whole(uid),
            parent: names::whole(pod.class),
            had: had.map(Handle::minor),
        }
    });
    let mut parents = BTreeMap::<u16, BTreeSet<Handle>>::new();
    let classes = lines.iter().flat_map(|line| &line.classes);
    for class in classes.filter(|class| names::is_part(class.handle)) {
        let above = parents.entry(class.handle.minor()).or_default();
        above.insert(class.parent);
    }
    let taken = by_address.values().map(|class| class.minor()).collect();
    numbers::give(parts.collect(), taken, &parents)
}
