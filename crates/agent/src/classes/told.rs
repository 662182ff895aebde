//! Of which class each pod is, who says so, and what it has of each line: for whoever asks.

use std::sync::Arc;

use netqos_classes::Trouble;
use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, ClassedPod, PartId, Place, Tree};

use super::plan::flow;
use super::{InputPod, Knowledge};
use crate::status::{ClassStatus, PartStatus};

/// What there is to be told of these pods, by their names.
pub fn told<'p>(
    knowledge: &Knowledge,
    pods: impl IntoIterator<Item = &'p InputPod>,
    plan: &ClassPlan,
    troubles: &[Trouble],
) -> Vec<ClassStatus> {
    let ways = [Direction::Ingress, Direction::Egress];
    let each = plan
        .lines
        .keys()
        .flat_map(|line| ways.map(|way| (line, way)));
    let trees = each.filter_map(|(line, way)| Some((line, way, plan.tree(line, way)?)));
    let trees: Vec<_> = trees.collect();
    if trees.is_empty() {
        return Vec::new();
    }
    let of_pod = |input: &'p InputPod| {
        let pod = plan.pods.get(&input.id.uid)?;
        let trees = trees.iter();
        let mut parts: Vec<PartStatus> = trees
            .flat_map(|(line, way, tree)| parts(&input.id.uid, pod, line, *way, tree))
            .collect();
        parts.sort_by(|a, b| (&a.line, &a.flow).cmp(&(&b.line, &b.flow)));
        Some(ClassStatus {
            namespace: pod.id.name.namespace.to_string(),
            name: pod.id.name.name.to_string(),
            uid: pod.id.uid.to_string(),
            class: pod.class.to_string(),
            because: knowledge.because(input, pod.place.cgroup.as_deref()),
            known_by: known_by(&pod.place),
            failing: failing(&input.id.uid, troubles),
            parts,
        })
    };
    let mut told: Vec<ClassStatus> = pods.into_iter().filter_map(of_pod).collect();
    told.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    told
}

/// What a pod has in one direction of a line, and those flows have that have something else.
fn parts(
    uid: &Arc<str>,
    pod: &ClassedPod,
    line: &str,
    direction: Direction,
    tree: &Tree,
) -> Vec<PartStatus> {
    let one = |number: Option<u16>, class| {
        let id = PartId {
            pod: uid.clone(),
            flow: number,
        };
        let own = tree.parts.get(&id);
        let class = own.map_or(class, |part| part.class);
        let share = own.map_or(tree.shares.of(class), |part| part.share);
        PartStatus {
            line: line.to_owned(),
            direction: direction.to_string(),
            flow: flow(pod, &id).unwrap_or_default(),
            class: class.to_string(),
            own: own.is_some(),
            min: share.min.bits_per_second(),
            max: share.max.bits_per_second(),
        }
    };
    let flows = (0..)
        .zip(&pod.flows)
        .filter(|(_, it)| it.direction == direction);
    let flows = flows.map(|(number, it)| one(Some(number), it.class.unwrap_or(pod.class)));
    std::iter::once(one(None, pod.class)).chain(flows).collect()
}

fn known_by(place: &Place) -> Vec<String> {
    let links = place.host_links.iter().map(ToString::to_string);
    let addresses = place.addresses.iter().map(ToString::to_string);
    // That of a pod with a network of its own says nothing of its traffic.
    let cgroup = place.cgroup.iter().filter(|_| place.host_network);
    let cgroup = cgroup.map(|path| path.display().to_string());
    links.chain(addresses).chain(cgroup).collect()
}

fn failing(uid: &str, troubles: &[Trouble]) -> String {
    let is_its = |it: &&Trouble| it.part.as_ref().is_some_and(|part| *part.pod == *uid);
    let whats = troubles.iter().filter(is_its).map(|it| match &it.line {
        Some(line) if !it.what.starts_with(&**line) => format!("{line}: {}", it.what),
        _ => it.what.clone(),
    });
    whats.collect::<Vec<_>>().join("; ")
}
