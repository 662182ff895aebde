//! Slices of peer sets: of bounded size, changed where a change is, in an order that never mixes
//! pods up, and found again by whoever starts anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use netqos_core::objects::PeerSlice;
use netqos_core::plan::{PeerSet, Scope, SetId};
use netqos_core::{LabelSelector, NetworkKey, ObjectName};
use netqos_index::{PeerChange, SliceWrite, Slicer, head_name};
use netqos_k8s::NetworkQoSPeerSlice;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::arbitrary::config;
use crate::objects::{attachment, selector};

const CONTROLLER: &str = "netqos";

/// The most bytes that an API server sends of a slice.
const MOST: usize = 2048;

/// Three sets, of which two are on the same network.
fn sets() -> [Arc<PeerSet>; 3] {
    let longest = "n".repeat(63);
    let of = |network, namespaces| PeerSet {
        network,
        namespaces,
        pods: selector(&[("app", "web")]),
    };
    let everywhere = Scope::Matching(LabelSelector::everything());
    [
        of(
            NetworkKey::Default,
            Scope::Namespace(longest.as_str().into()),
        ),
        of(NetworkKey::Default, everywhere.clone()),
        of(
            attachment(&format!("{longest}/{}", "m".repeat(253))),
            everywhere,
        ),
    ]
    .map(Arc::new)
}

/// The addresses that pods may have, of all lengths.
fn address(number: u16) -> IpAddr {
    let [a, b] = number.to_be_bytes();
    match number % 5 {
        0 => Ipv6Addr::new(
            0xfd00, 0x1234, 0xaaaa, 0x5678, 0xbbbb, 0xcccc, 0xdddd, number,
        )
        .into(),
        1 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into(),
        2 => Ipv4Addr::new(192, 168, 100 + a, b).into(),
        _ => Ipv4Addr::new(10, 0, a, b).into(),
    }
}

type Members = BTreeMap<SetId, BTreeSet<IpAddr>>;
type Server = BTreeMap<ObjectName, PeerSlice>;

fn members(server: &Server) -> Members {
    let mut members = Members::new();
    for slice in server.values() {
        members
            .entry(slice.set)
            .or_default()
            .extend(&slice.addresses);
    }
    members
}

fn carry_out(server: &mut Server, write: SliceWrite) {
    match write {
        SliceWrite::Put(slice) => drop(server.insert(slice.name.clone(), slice)),
        SliceWrite::Delete(name) => drop(server.remove(&name)),
    }
}

/// What makes one of the other.
fn changes(before: &Members, after: &Members) -> Vec<PeerChange> {
    let nobody = BTreeSet::new();
    let changes = sets().map(|set| {
        let id = set.id();
        let [was, is] = [before, after].map(|it| it.get(&id).unwrap_or(&nobody));
        let gone = was.difference(is).copied().collect();
        let new = is.difference(was).copied().collect();
        PeerChange {
            id,
            set,
            named: after.contains_key(&id),
            gone,
            new,
        }
    });
    changes.into()
}

fn taken(slicer: &mut Slicer, before: &Members, after: &Members) -> Vec<SliceWrite> {
    slicer.change(changes(before, after));
    slicer.take_writes()
}

/// A slice as a server sends it to those who watch.
fn sent(slice: &PeerSlice) -> usize {
    let mut object = serde_json::to_value(NetworkQoSPeerSlice::of(slice)).unwrap();
    let managed = json!({
        "manager": "netqos-controller",
        "operation": "Apply",
        "apiVersion": "netqos.io/v1alpha1",
        "time": "2026-11-21T21:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:netqos.io/peer-set": {}}},
            "f:network": {},
            "f:addresses": {},
        },
    });
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".into(), json!("0a1b2c3d-0000-4000-8000-0123456789ab"));
    metadata.insert("resourceVersion".into(), json!("1234567890"));
    metadata.insert("generation".into(), json!(100_000));
    metadata.insert("creationTimestamp".into(), json!("2026-11-21T21:00:00Z"));
    metadata.insert("managedFields".into(), json!([managed]));
    serde_json::to_string(&object).unwrap().len()
}

/// Every slice of these is as it may be, and no more of them are there than need be.
fn check(server: &Server, right: &Members) -> Result<(), TestCaseError> {
    prop_assert_eq!(&members(server), right);
    let controller = CONTROLLER.into();
    for set in sets() {
        let id = set.id();
        let slices: Vec<&PeerSlice> = server.values().filter(|it| it.set == id).collect();
        let heads = slices.iter().filter(|it| *it.name.name == head_name(id));
        prop_assert_eq!(heads.count() == 1, right.contains_key(&id));
        let mut once = BTreeSet::new();
        for slice in &slices {
            let size = sent(slice);
            prop_assert!(size <= MOST, "{} takes {size} bytes", slice.name);
            prop_assert!(!slice.addresses.is_empty() || *slice.name.name == head_name(id));
            prop_assert_eq!(&slice.network, &set.network);
            prop_assert_eq!(&slice.name.namespace, set.home(&controller));
            for address in &slice.addresses {
                prop_assert!(once.insert(address), "{address} is in two slices");
            }
        }
    }
    Ok(())
}

/// In which sets addresses are, at each time between two states.
struct Watched<'m> {
    before: &'m Members,
    after: &'m Members,
    /// In how many slices of a set an address is now.
    now: BTreeMap<(SetId, IpAddr), usize>,
}

impl<'m> Watched<'m> {
    fn new(server: &Server, before: &'m Members, after: &'m Members) -> Self {
        let mut now = BTreeMap::new();
        for slice in server.values() {
            for address in &slice.addresses {
                *now.entry((slice.set, *address)).or_default() += 1;
            }
        }
        Self { before, after, now }
    }

    /// One slice is another one now. None of its addresses is in a set that it left and in one that
    /// is new to it, and each is in those that it stays in.
    fn see(
        &mut self,
        was: Option<&PeerSlice>,
        is: Option<&PeerSlice>,
    ) -> Result<(), TestCaseError> {
        for (slice, by) in [(was, -1), (is, 1)] {
            for address in slice.into_iter().flat_map(|slice| &slice.addresses) {
                let set = was.or(is).map(|slice| slice.set).unwrap();
                let now = self.now.entry((set, *address)).or_default();
                *now = now.checked_add_signed(by).unwrap();
            }
        }
        let Some(slice) = was.or(is) else {
            return Ok(());
        };
        let both = was.into_iter().chain(is);
        for address in both.flat_map(|slice| &slice.addresses) {
            let mut sets: [BTreeSet<SetId>; 3] = Default::default();
            for set in sets_on(&slice.network) {
                let in_members =
                    |members: &Members| members.get(&set).is_some_and(|it| it.contains(address));
                let now = self.now.get(&(set, *address)).is_some_and(|now| *now > 0);
                let there = [in_members(self.before), now, in_members(self.after)];
                for (sets, _) in sets.iter_mut().zip(there).filter(|(_, there)| *there) {
                    sets.insert(set);
                }
            }
            let [was, is, will] = sets;
            prop_assert!(
                is.is_subset(&was) || is.is_subset(&will),
                "{address} is mixed up"
            );
            let stays: BTreeSet<_> = was.intersection(&will).copied().collect();
            prop_assert!(stays.is_subset(&is), "{address} is lost meanwhile");
        }
        Ok(())
    }
}

fn sets_on(network: &NetworkKey) -> Vec<SetId> {
    let on_it = sets().into_iter().filter(|set| set.network == *network);
    on_it.map(|set| set.id()).collect()
}

/// Something that becomes of the addresses of sets.
#[derive(Clone, Debug)]
enum Step {
    /// These get into a set.
    Come(usize, u16, u16),
    /// Each so many-th leaves it.
    Leave(usize, u16),
    /// Each so many-th moves from one set to another.
    Move(usize, usize, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let set = 0..3_usize;
    prop_oneof![
        3 => (set.clone(), 0..400_u16, 1..200_u16).prop_map(|(set, from, many)| Step::Come(set, from, many)),
        2 => (set.clone(), 1..8_u16).prop_map(|(set, nth)| Step::Leave(set, nth)),
        2 => (set.clone(), set, 1..8_u16).prop_map(|(from, to, nth)| Step::Move(from, to, nth)),
    ]
}

fn become_of(members: &mut Members, step: &Step) {
    let ids = sets().map(|set| set.id());
    let each = |members: &Members, set: usize, nth: u16| -> Vec<IpAddr> {
        let all = members.get(&ids[set]).into_iter().flatten();
        all.step_by(nth.into()).copied().collect()
    };
    let leave = |members: &mut Members, set: usize, those: &[IpAddr]| {
        if let Some(all) = members.get_mut(&ids[set]) {
            all.retain(|address| !those.contains(address));
            if all.is_empty() {
                members.remove(&ids[set]);
            }
        }
    };
    match *step {
        Step::Come(set, from, many) => {
            let all = members.entry(ids[set]).or_default();
            all.extend((from..from + many).map(address));
        }
        Step::Leave(set, nth) => {
            let those = each(members, set, nth);
            leave(members, set, &those);
        }
        Step::Move(from, to, nth) => {
            let those = each(members, from, nth);
            leave(members, from, &those);
            if !those.is_empty() {
                members.entry(ids[to]).or_default().extend(those);
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn slices_are_right_at_every_write_and_a_restart_changes_nothing(
        steps in vec(vec(step(), 1..4), 1..8),
    ) {
        let mut slicer = Slicer::new(CONTROLLER);
        let mut server = Server::new();
        let mut right = Members::new();
        for batch in steps {
            let before = right.clone();
            batch.iter().for_each(|step| become_of(&mut right, step));
            let writes = taken(&mut slicer, &before, &right);
            let mut watched = Watched::new(&server, &before, &right);
            for write in writes {
                let (name, is) = match &write {
                    SliceWrite::Put(slice) => (slice.name.clone(), Some(slice)),
                    SliceWrite::Delete(name) => (name.clone(), None),
                };
                let was = server.get(&name);
                prop_assert!(was != is, "{name} is so already");
                watched.see(was, is)?;
                carry_out(&mut server, write);
            }
            check(&server, &right)?;
            prop_assert_eq!(slicer.slices(), server.len());
            prop_assert_eq!(slicer.take_writes(), vec![]);

            // What it wrote comes back to it, and somebody else takes over.
            server.values().cloned().for_each(|slice| slicer.found(slice));
            prop_assert_eq!(slicer.take_writes(), vec![]);
            let mut next = Slicer::new(CONTROLLER);
            server.values().cloned().for_each(|slice| next.found(slice));
            prop_assert_eq!(taken(&mut next, &Members::new(), &right), vec![]);
        }
    }

    #[test]
    fn what_is_wrong_on_the_server_is_put_right(
        steps in vec(step(), 1..6),
        meanwhile in vec(step(), 0..4),
        damage in vec((any::<prop::sample::Index>(), 0..6_u8), 0..6),
        starts_anew in any::<bool>(),
    ) {
        let mut slicer = Slicer::new(CONTROLLER);
        let mut server = Server::new();
        let mut right = Members::new();
        steps.iter().for_each(|step| become_of(&mut right, step));
        for write in taken(&mut slicer, &Members::new(), &right) {
            carry_out(&mut server, write);
        }
        for (which, how) in damage {
            let names: Vec<ObjectName> = server.keys().cloned().collect();
            if names.is_empty() {
                break;
            }
            let name = which.get(&names).clone();
            let mut slice = server[&name].clone();
            match how {
                0 => {
                    server.remove(&name);
                    slicer.gone(&name);
                    continue;
                }
                1 => drop(slice.addresses.pop_first()),
                2 => slice.addresses.extend((500..502).map(address)),
                3 => slice.addresses.extend((500..700).map(address)),
                4 => slice.name = ObjectName::new(&name.namespace, "another"),
                _ => slice.network = NetworkKey::Cluster("wide".into()),
            }
            server.insert(slice.name.clone(), slice.clone());
            slicer.found(slice);
        }
        let before = right.clone();
        meanwhile.iter().for_each(|step| become_of(&mut right, step));
        let writes = match starts_anew {
            false => taken(&mut slicer, &before, &right),
            true => {
                slicer = Slicer::new(CONTROLLER);
                server.values().cloned().for_each(|slice| slicer.found(slice));
                taken(&mut slicer, &Members::new(), &right)
            }
        };
        for write in writes {
            carry_out(&mut server, write);
        }
        check(&server, &right)?;
        prop_assert_eq!(slicer.take_writes(), vec![]);
    }
}

/// A slicer of the first set, with these addresses.
fn with(addresses: impl Iterator<Item = u16>) -> (Slicer, Server, Members) {
    let [set, ..] = sets();
    let mut slicer = Slicer::new(CONTROLLER);
    let mut server = Server::new();
    let right = Members::from([(set.id(), addresses.map(address).collect())]);
    for write in taken(&mut slicer, &Members::new(), &right) {
        carry_out(&mut server, write);
    }
    (slicer, server, right)
}

#[test]
fn a_pod_that_comes_or_goes_is_one_write_to_one_slice() {
    let (mut slicer, server, mut right) = with(0..1000);
    assert!((10..25).contains(&server.len()), "{} slices", server.len());
    let id = sets()[0].id();
    for number in (0..1000).step_by(37) {
        let before = right.clone();
        right.get_mut(&id).unwrap().remove(&address(number));
        let writes = taken(&mut slicer, &before, &right);
        assert_eq!(writes.len(), 1, "{writes:?}");
        // Another one takes its room.
        let before = right.clone();
        right.get_mut(&id).unwrap().insert(address(2000 + number));
        let writes = taken(&mut slicer, &before, &right);
        let [SliceWrite::Put(_)] = &writes[..] else {
            panic!("{writes:?}");
        };
    }
    assert_eq!(slicer.slices(), server.len());
}

#[test]
fn what_comes_and_goes_at_once_is_in_the_same_slice() {
    let (mut slicer, _, mut right) = with(0..1000);
    let before = right.clone();
    let all = right.get_mut(&sets()[0].id()).unwrap();
    all.remove(&address(500));
    all.extend((2000..2001).map(address));
    assert_eq!(taken(&mut slicer, &before, &right).len(), 1);

    // What came and went in between is not written at all.
    slicer.change(changes(&right, &Members::new()));
    slicer.change(changes(&Members::new(), &right));
    let nothing = slicer.take_writes();
    assert_eq!(nothing, vec![]);
}

#[test]
fn sets_that_shrink_have_fewer_slices_soon() {
    let (mut slicer, mut server, mut right) = with(0..1000);
    let most = server.len();
    let id = sets()[0].id();
    // Those that stay are of the short ones.
    for number in (0..1000).filter(|number| number % 10 != 3) {
        let before = right.clone();
        right.get_mut(&id).unwrap().remove(&address(number));
        for write in taken(&mut slicer, &before, &right) {
            carry_out(&mut server, write);
        }
    }
    assert!(server.len() * 4 < most, "{} of {most}", server.len());
    check(&server, &right).unwrap();
}

#[test]
fn slices_of_sets_that_nobody_asks_for_go() {
    let (_, server, _) = with(0..100);
    let mut next = Slicer::new(CONTROLLER);
    server.values().cloned().for_each(|slice| next.found(slice));
    let writes = next.take_writes();
    let names: BTreeSet<ObjectName> = server.into_keys().collect();
    let deleted = writes.into_iter().map(|write| match write {
        SliceWrite::Delete(name) => name,
        SliceWrite::Put(slice) => panic!("{slice:?}"),
    });
    assert_eq!(deleted.collect::<BTreeSet<_>>(), names);
}

/// Whoever sees the head of a set may take the set for known.
#[test]
fn the_head_of_a_set_comes_last_and_stays_while_the_set_is_named() {
    let [set, ..] = sets();
    let id = set.id();
    let is_head = |name: &ObjectName| *name.name == head_name(id);
    let mut slicer = Slicer::new(CONTROLLER);
    let mut named = |named: bool, gone: Vec<IpAddr>, new: Vec<IpAddr>| {
        let set = set.clone();
        slicer.change(vec![PeerChange {
            id,
            set,
            named,
            gone,
            new,
        }]);
        let writes = slicer.take_writes().into_iter();
        let writes = writes.map(|write| match write {
            SliceWrite::Put(slice) => (is_head(&slice.name), Some(slice.addresses.len())),
            SliceWrite::Delete(name) => (is_head(&name), None),
        });
        writes.collect::<Vec<_>>()
    };
    let all: Vec<IpAddr> = (0..300).map(address).collect();
    let first = named(true, vec![], all.clone());
    assert!(first.len() > 2, "{first:?}");
    let (last, others) = first.split_last().unwrap();
    assert!(
        last.0 && others.iter().all(|(is_head, _)| !is_head),
        "{first:?}"
    );
    // Of a set that goes it goes first.
    let gone = named(false, all.clone(), vec![]);
    assert!(
        gone.len() == first.len() && gone[0] == (true, None),
        "{gone:?}"
    );
    assert_eq!(named(true, vec![], all.clone()).len(), first.len());
    // Nobody belongs to it any more, and it is known that nobody does.
    let emptied = named(true, all, vec![]);
    assert!(emptied.contains(&(true, Some(0))), "{emptied:?}");
    assert_eq!(named(true, vec![], vec![]), []);
    assert_eq!(named(false, vec![], vec![]), [(true, None)]);
    assert_eq!(named(false, vec![], vec![]), []);
    // Also of one that never had anybody.
    assert_eq!(named(true, vec![], vec![]), [(true, Some(0))]);
}
