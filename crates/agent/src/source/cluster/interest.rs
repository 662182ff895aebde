//! What of a cluster is watched, by what is asked for.
//!
//! Policies are watched by namespace: each with pods of this node has a watch of its own, and where
//! there are more than [`NAMESPACES`] of them, one watch is of all. So are Services and EndpointSlices:
//! those of each namespace that rules name pods of, and all where rules are compared with addresses or
//! ports, which may stand behind a Service of any namespace.
//!
//! Slices are watched by the namespace that they are in, and by the sets that they are of:
//! `netqos.io/peer-set in (…)`. A watch for each set would be simplest, and cost the API server one
//! stream and one place in its fan-out for each set of each node; one that is made anew for each
//! set that comes would list again what is known. So sets that come at once share a watch of their
//! own, at most [`SETS`] of them, one list and one watch, and begin without delay; when a namespace
//! has [`SPARE`] watches more than its sets need, or most sets of its watches are not asked for any
//! more, they are made anew, as few as there can be. What was watched before is watched until what
//! takes its place has been listed, and had time to catch up: each group of sets waits for those that
//! have its own sets, since others may come without end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_cluster::{Kind, Selection};
use netqos_core::plan::SetId;
use netqos_index::Served;
use netqos_k8s::PEER_SET_LABEL;

use super::gate::Wanted;

/// What tells what stands behind virtual addresses.
const SERVED: [Kind; 2] = [Kind::Service, Kind::EndpointSlice];
/// The most namespaces that have watches of their own. With pods of fewer than half as many they
/// have them again.
pub(super) const NAMESPACES: usize = 64;
/// The most sets of a watch: 17 letters each in the address of the request.
const SETS: usize = 128;
/// How many watches a namespace may have beyond those that its sets need.
const SPARE: usize = 3;

/// The watches that depend on what is asked for.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// Of each kind that is watched by namespace.
    spread: BTreeMap<Kind, BTreeSet<Selection>>,
    groups: Vec<Group>,
}

/// Some sets of a namespace, with one watch.
#[derive(Debug)]
struct Group {
    namespace: Arc<str>,
    sets: BTreeSet<SetId>,
    selection: Selection,
    /// Others take its place.
    retiring: bool,
}

/// Watches that are to begin and to end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) begin: Vec<Selection>,
    pub(super) end: Vec<Selection>,
}

impl Interest {
    /// What is to be done so that this is watched. `may_replace` says which watches have told
    /// all that those had told whose place they take.
    pub(super) fn turn(
        &mut self,
        wanted: &Wanted,
        may_replace: impl Fn(&Selection) -> bool,
    ) -> Turn {
        let mut turn = Turn::default();
        let namespaces = Some(&wanted.namespaces);
        self.turn_to_kind(Kind::NetworkQoS, namespaces, &may_replace, &mut turn);
        let namespaces = match &wanted.served {
            Served::In(namespaces) => Some(namespaces),
            Served::All => None,
        };
        for kind in SERVED {
            self.turn_to_kind(kind, namespaces, &may_replace, &mut turn);
        }
        let of_groups = self.groups.iter().map(|group| group.namespace.clone());
        let homes: BTreeSet<Arc<str>> = of_groups.chain(wanted.sets.keys().cloned()).collect();
        let none = BTreeSet::new();
        for home in homes {
            let wanted = wanted.sets.get(&home).unwrap_or(&none);
            self.turn_to_sets(&home, wanted, &may_replace, &mut turn);
        }
        turn
    }

    /// `namespaces`: `None` means all of them.
    fn turn_to_kind(
        &mut self,
        kind: Kind,
        namespaces: Option<&BTreeSet<Arc<str>>>,
        may_replace: impl Fn(&Selection) -> bool,
        turn: &mut Turn,
    ) {
        let watched = self.spread.entry(kind).or_default();
        let all = Selection::all(kind);
        let most = match watched.contains(&all) {
            true => NAMESPACES / 2,
            false => NAMESPACES,
        };
        let wanted: BTreeSet<Selection> = match namespaces.filter(|it| it.len() <= most) {
            None => [all].into(),
            Some(each) => {
                let each = each.iter();
                each.map(|name| all.clone().in_namespace(name)).collect()
            }
        };
        turn.begin.extend(wanted.difference(watched).cloned());
        watched.extend(wanted.iter().cloned());
        // A namespace that is not asked for any more needs no successor but the watch of all. That one
        // goes when all have caught up that take its place.
        let is_succeeded = wanted.iter().all(may_replace);
        let is_of_all = wanted.iter().any(|it| it.namespace.is_none());
        let is_over = |it: &&Selection| {
            !wanted.contains(*it) && (is_succeeded || it.namespace.is_some() && !is_of_all)
        };
        let over: Vec<Selection> = watched.iter().filter(is_over).cloned().collect();
        watched.retain(|it| !over.contains(it));
        turn.end.extend(over);
    }

    fn turn_to_sets(
        &mut self,
        home: &Arc<str>,
        wanted: &BTreeSet<SetId>,
        may_replace: impl Fn(&Selection) -> bool,
        turn: &mut Turn,
    ) {
        let here = |group: &&mut Group| group.namespace == *home;
        let others = self.groups.iter_mut().filter(here);
        let (old, others): (Vec<_>, Vec<_>) = others.partition(|group| group.retiring);
        // Not all others: some set may always be new.
        let caught_up = others.iter().filter(|it| may_replace(&it.selection));
        let caught_up: BTreeSet<SetId> = caught_up.flat_map(|it| &it.sets).copied().collect();
        let may_go = |old: &Group| {
            old.sets
                .intersection(wanted)
                .all(|it| caught_up.contains(it))
        };
        let is_idle = |group: &Group| group.sets.is_disjoint(wanted);
        let over: BTreeSet<Selection> = (old.iter().filter(|group| may_go(group)))
            .chain(others.iter().filter(|group| is_idle(group)))
            .map(|group| group.selection.clone())
            .collect();
        self.groups.retain(|group| !over.contains(&group.selection));
        turn.end.extend(over);

        let groups = self.groups.iter().filter(|group| group.namespace == *home);
        let is_busy = groups.clone().any(|group| group.retiring);
        let watched: BTreeSet<SetId> = groups.clone().flat_map(|it| &it.sets).copied().collect();
        let need = wanted.len().div_ceil(SETS);
        let wasted = watched.difference(wanted).count();
        if !is_busy && (groups.count() > need + SPARE || wasted > wanted.len() + SETS / 8) {
            for group in &mut self.groups {
                group.retiring |= group.namespace == *home;
            }
            self.begin(home, wanted, turn);
            return;
        }
        let current = |group: &&Group| group.namespace == *home && !group.retiring;
        let current = self.groups.iter().filter(current);
        let known: BTreeSet<SetId> = current.flat_map(|group| &group.sets).copied().collect();
        let new: BTreeSet<SetId> = wanted.difference(&known).copied().collect();
        self.begin(home, &new, turn);
    }

    fn begin(&mut self, home: &Arc<str>, sets: &BTreeSet<SetId>, turn: &mut Turn) {
        let sets: Vec<SetId> = sets.iter().copied().collect();
        for sets in sets.chunks(SETS) {
            let selection = Selection::all(Kind::NetworkQoSPeerSlice)
                .in_namespace(home)
                .with_label_in(PEER_SET_LABEL, sets.iter().map(|set| set.0));
            // Among those that are to be replaced one may be as it is to be.
            let mut same = self.groups.iter_mut();
            if let Some(same) = same.find(|group| group.selection == selection) {
                same.retiring = false;
                continue;
            }
            self.groups.push(Group {
                namespace: home.clone(),
                sets: sets.iter().copied().collect(),
                selection: selection.clone(),
                retiring: false,
            });
            turn.begin.push(selection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use netqos_core::Digest;

    use super::*;

    /// Watches in a test.
    #[derive(Default)]
    struct Watches {
        interest: Interest,
        live: BTreeSet<Selection>,
        spoken: BTreeSet<Selection>,
        begun: usize,
    }

    impl Watches {
        fn want(&mut self, namespaces: usize, sets: impl IntoIterator<Item = u32>) {
            let namespaces = (0..namespaces).map(|it| Arc::from(format!("n{it}")));
            let namespaces = namespaces.collect();
            let sets: BTreeSet<SetId> = sets.into_iter().map(set).collect();
            let mut sets = BTreeMap::from([("home".into(), sets)]);
            sets.retain(|_, sets| !sets.is_empty());
            self.turn(&Wanted {
                namespaces,
                sets,
                served: Served::default(),
            });
        }

        /// Services of so many namespaces, or of all.
        fn serve(&mut self, namespaces: Option<usize>) {
            let names = |many| (0..many).map(|it| Arc::from(format!("n{it}"))).collect();
            self.turn(&Wanted {
                served: namespaces.map_or(Served::All, |many| Served::In(names(many))),
                ..Wanted::default()
            });
        }

        fn turn(&mut self, wanted: &Wanted) {
            let spoken = &self.spoken;
            let turn = { &mut self.interest }.turn(wanted, |it| spoken.contains(it));
            self.begun += turn.begin.len();
            for selection in turn.begin {
                assert!(self.live.insert(selection), "it is watched already");
            }
            for selection in turn.end {
                assert!(self.live.remove(&selection), "it is not watched");
                self.spoken.remove(&selection);
            }
        }

        /// All that is watched is listed.
        fn speak(&mut self) {
            self.spoken = self.live.clone();
        }

        fn count(&self, kind: Kind) -> usize {
            self.live.iter().filter(|it| it.kind == kind).count()
        }

        fn covers(&self, sets: impl IntoIterator<Item = u32>) -> bool {
            sets.into_iter().all(|number| {
                let name = set(number).0.to_string();
                let mut labels = self.live.iter().filter_map(|it| it.labels.as_deref());
                labels.any(|labels| labels.contains(&name))
            })
        }
    }

    fn set(number: u32) -> SetId {
        SetId(Digest::of(&number))
    }

    const SLICES: Kind = Kind::NetworkQoSPeerSlice;

    #[test]
    fn policies_are_watched_by_namespace_up_to_a_bound_and_without_a_gap() {
        let mut watches = Watches::default();
        for (namespaces, count) in [(3, 3), (5, 5), (NAMESPACES, NAMESPACES)] {
            watches.want(namespaces, []);
            watches.speak();
            watches.want(namespaces, []);
            assert_eq!(watches.count(Kind::NetworkQoS), count);
        }
        // Too many: what was watched is, until all was listed.
        watches.want(NAMESPACES + 1, []);
        assert_eq!(watches.count(Kind::NetworkQoS), NAMESPACES + 1);
        watches.speak();
        watches.want(NAMESPACES + 1, []);
        assert_eq!(watches.live, [Selection::all(Kind::NetworkQoS)].into());
        // It does not go to and fro.
        watches.want(NAMESPACES - 1, []);
        assert_eq!(watches.live.len(), 1);
        watches.want(2, []);
        assert_eq!(watches.live.len(), 3);
        watches.speak();
        watches.want(2, []);
        assert_eq!(watches.live.len(), 2);
    }

    #[test]
    fn services_are_watched_where_rules_name_pods_and_everywhere_for_addresses() {
        let mut watches = Watches::default();
        let each = |watches: &Watches| SERVED.map(|kind| watches.count(kind));
        watches.serve(Some(0));
        assert_eq!(watches.live, BTreeSet::new());
        watches.serve(Some(2));
        watches.speak();
        assert_eq!(each(&watches), [2, 2]);
        // What was watched is, until all was listed.
        watches.serve(None);
        assert_eq!(each(&watches), [3, 3]);
        watches.speak();
        watches.serve(None);
        assert_eq!(watches.live, SERVED.map(Selection::all).into());
        watches.serve(Some(1));
        watches.speak();
        watches.serve(Some(1));
        assert_eq!(each(&watches), [1, 1]);
        watches.serve(Some(0));
        assert_eq!(watches.live, BTreeSet::new());
    }

    #[test]
    fn sets_that_come_have_a_watch_of_their_own_until_there_are_too_many() {
        let mut watches = Watches::default();
        watches.want(0, 0..10);
        watches.speak();
        assert_eq!(watches.count(SLICES), 1);
        for more in 1..=SPARE as u32 {
            watches.want(0, 0..10 + more);
            watches.speak();
            assert_eq!(watches.count(SLICES), 1 + more as usize);
        }
        let before = watches.begun;
        watches.want(0, 0..20);
        watches.want(0, 0..20);
        watches.speak();
        watches.want(0, 0..20);
        watches.want(0, 0..20);
        watches.speak();
        watches.want(0, 0..20);
        assert!(watches.covers(0..20));
        assert_eq!((watches.count(SLICES), watches.begun), (1, before + 2));
        // Those that are not asked for any more are let go together.
        watches.want(0, 0..15);
        assert_eq!(watches.begun, before + 2);
        watches.want(0, []);
        assert_eq!(watches.live, BTreeSet::new());
    }

    #[test]
    fn what_is_made_anew_leaves_no_gap_and_many_sets_have_as_many_watches_as_they_need() {
        let mut watches = Watches::default();
        let many = 10 * SETS as u32;
        watches.want(0, 0..many);
        watches.speak();
        watches.want(0, 0..many);
        assert_eq!((watches.count(SLICES), watches.begun), (10, 10));
        // Most of them go, of each watch some stay: until those are listed anew, all are watched.
        let few = || (0..many).step_by(40);
        watches.want(0, few());
        assert!(watches.covers(few()));
        assert_eq!(watches.count(SLICES), 11);
        watches.want(0, few());
        assert_eq!(watches.count(SLICES), 11);
        watches.speak();
        watches.want(0, few());
        assert!(watches.covers(few()));
        assert_eq!((watches.count(SLICES), watches.begun), (1, 11));
    }
    /// As pods of batch jobs do, each in a namespace of its own.
    #[test]
    fn namespaces_that_come_one_after_the_other_leave_no_watches_behind() {
        let mut watches = Watches::default();
        for turn in 0..100 {
            // Those before have caught up, and this one has not.
            watches.speak();
            let namespaces: BTreeSet<Arc<str>> = [format!("n{turn}").into()].into();
            watches.turn(&Wanted {
                namespaces: namespaces.clone(),
                served: Served::In(namespaces),
                ..Wanted::default()
            });
            assert_eq!(watches.live.len(), 3, "{:?}", watches.live);
        }
        // That of all is one.
        watches.want(NAMESPACES + 1, []);
        watches.speak();
        for namespaces in 1..NAMESPACES / 2 {
            watches.want(namespaces, []);
            assert_eq!(watches.count(Kind::NetworkQoS), namespaces + 1);
        }
    }

    #[test]
    fn sets_that_come_one_after_the_other_are_watched_by_few_watches_all_the_same() {
        let mut watches = Watches::default();
        // What was begun two turns ago has caught up.
        let mut begun = VecDeque::from([BTreeSet::new(), BTreeSet::new()]);
        for turn in 0..SETS as u32 - 1 {
            watches.spoken = begun.pop_front().unwrap_or_default();
            watches.want(0, 0..=turn);
            begun.push_back(watches.live.clone());
            assert!(watches.covers(0..=turn));
            let count = watches.count(SLICES);
            assert!(count <= 2 * (1 + SPARE) + 2, "{count} after {turn}");
        }
    }
}
