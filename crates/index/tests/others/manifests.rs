//! Random manifests through the reader into the index: what is right is read as it was meant, what
//! is broken stops nobody else, and of every packet the plan says what the reference matcher says of
//! the objects that were read.

use std::cell::RefCell;

use netqos_core::objects::{AttachmentConfig, NetworkDefinition, Pod};
use netqos_core::plan::Packet;
use netqos_index::{Change, Index};
use netqos_k8s::{Object, objects_from_yaml};
use netqos_testkit::reference::Cluster;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::agreement::{Tally, agree};
use crate::arbitrary::{change, config, note, packet, rule_with_rate};
use crate::broken::{Flaw, flaw, text};
use crate::objects::NODE;
use crate::written::{Style, written};

/// Something that becomes of a cluster, and how somebody writes it down.
#[derive(Clone, Debug)]
struct Step {
    change: Change,
    style: Style,
    is_json: bool,
    flaw: Option<Flaw>,
}

/// How many objects there were.
#[derive(Clone, Copy, Debug, Default)]
struct Objects {
    written: u64,
    /// Broken, and read.
    read: u64,
    /// Broken, and refused.
    refused: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let style = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.15));
    let style = style.prop_map(|(ovn, short, rare)| Style { ovn, short, rare });
    let flaw = option::weighted(0.3, flaw());
    (change(rule_with_rate()), style, any::<bool>(), flaw).prop_map(
        |(change, style, is_json, flaw)| Step {
            change,
            style,
            is_json,
            flaw,
        },
    )
}

fn change_of(object: &Object) -> Option<Change> {
    Some(match object.clone() {
        Object::Namespace(it) => Change::Namespace(it),
        // The index does not read what attaches pods to networks.
        Object::Pod(it, ..) => Change::Pod(Pod {
            network_annotations: None,
            config_hash: None,
            ..*it
        }),
        Object::Policy(it) => Change::Policy(it),
        Object::Quota(it) => Change::Quota(it),
        Object::Profile(it) => Change::Profile(it),
        Object::Network(it) | Object::UserNetwork(it) => {
            Change::NetworkDefinition(NetworkDefinition {
                attachment: AttachmentConfig::default(),
                ..it
            })
        }
        Object::ClusterNetwork(it) => Change::ClusterNetwork(it),
        Object::Service(it) => Change::Service(it),
        Object::EndpointSlice(it) => Change::EndpointSlice(it),
        Object::PeerSlice(it) => Change::PeerSlice(it),
        Object::Node(_)
        | Object::AttachmentPolicy(_)
        | Object::SloConfig(..)
        | Object::NodeSlo(..)
        | Object::Other { .. } => return None,
    })
}

/// What a text says that can be read.
fn read(text: &str) -> Vec<Change> {
    let objects = objects_from_yaml(text).into_iter();
    objects.flatten().filter_map(|it| change_of(&it)).collect()
}

/// True for a pod that nobody has ever seen: no two have one uid.
fn has_anothers_uid(change: &Change, cluster: &Cluster) -> bool {
    let Change::Pod(Pod { id, .. }) = change else {
        return false;
    };
    let mut others = cluster.pods.values().filter(|pod| pod.id.name != id.name);
    others.any(|pod| pod.id.uid == id.uid)
}

fn check(
    steps: &[Step],
    packets: &[Packet],
    objects: &mut Objects,
    tally: &mut Tally,
) -> Result<(), TestCaseError> {
    let mut cluster = Cluster {
        node: NODE.into(),
        ..Cluster::default()
    };
    let mut index = Index::for_node(NODE);
    let (mut texts, mut alone) = (Vec::new(), Vec::new());
    for step in steps {
        let changes = match written(step.change.clone(), step.style) {
            // What is found on the node, and what goes.
            None => vec![step.change.clone()],
            Some((value, meant)) => {
                let text = text(value, step.is_json, step.flaw.as_ref());
                let changes = read(&text);
                objects.written += 1;
                match (&step.flaw, changes.is_empty()) {
                    (None, _) => prop_assert_eq!(&changes, &vec![meant], "{}", text),
                    (Some(_), false) => objects.read += 1,
                    (Some(_), true) => objects.refused += 1,
                }
                texts.push(text);
                alone.extend(changes.iter().cloned());
                changes
            }
        };
        for change in changes {
            if has_anothers_uid(&change, &cluster) {
                continue;
            }
            note(&mut cluster, change.clone());
            index.apply(change);
        }
    }
    let file = texts.join("\n---\n");
    prop_assert_eq!(read(&file), alone, "{}", file);
    index.take_delta();
    agree(&cluster, &index, packets, tally)
}

#[test]
fn of_random_manifests_plan_explanation_and_reference_agree() {
    let (objects, tally) = (RefCell::default(), RefCell::default());
    let case = |(steps, packets): (Vec<Step>, Vec<Packet>)| {
        let (objects, tally) = (&mut *objects.borrow_mut(), &mut *tally.borrow_mut());
        check(&steps, &packets, objects, tally)
    };
    let mut runner = TestRunner::new(config());
    let result = runner.run(&(vec(step(), 20..80), vec(packet(), 12)), case);
    let (
        Objects {
            written,
            read,
            refused,
        },
        tally,
    ) = (objects.into_inner(), tally.into_inner());
    println!("{written} objects, of the broken {read} were read and {refused} refused; {tally:?}");
    result.unwrap();
    let cases = u64::from(runner.config().cases);
    assert!(written > 20 * cases, "{written}");
    assert!(read > cases && refused > cases, "{read}, {refused}");
    let Tally {
        packets,
        won,
        limited,
        shadow,
    } = tally;
    assert!(won > 5 * cases && won < packets - cases, "{tally:?}");
    assert!(limited > cases && shadow > cases, "{tally:?}");
}
