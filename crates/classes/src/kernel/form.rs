//! What a tree becomes in numbers: the classes of an HTB, their queues, and how flows are told apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_bpf::classes::{Leaf, Slot};
use netqos_core::classes::{PartId, Share, TrafficClass, Tree};
use netqos_netlink::class::HtbClass;

use super::queue::{Leaves, Queue, UNCUT};
use crate::rate::{self, FLOOR, class, passing};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// The part of a slot's guarantee that is kept for flows that take little.
const QUICK_PART: u64 = 4;
/// How long bulk waits when its class has the whole line.
const BULK_NANOS: u64 = 25 * MILLISECOND;
/// TCP needs room for some GSO packets, however long they take.
const LEAST_BULK: u64 = 192 * 1024;
const QUICK_BYTES: u32 = 128 * 1024;
/// The quantum of HTB's deficit round robin in bytes: no less than the largest packet. HTB sends a packet whenever it is a
/// leaf's turn, whatever its deficit, which has 32 bits: after some GB of larger packets it wraps, and the leaf sends 2 GB
/// in one turn.
const QUANTUM: u32 = 262_144;
/// The quantum of leaves whose queues segment GSO packets.
const SEGMENTED_QUANTUM: u32 = UNCUT;
/// What a flow may owe, at a sixteenth of what its slot is guaranteed, and still take little.
const ALLOWANCE: u64 = MILLISECOND * 16;
/// The longest that a flow is held to be bulk after its last bulk packet.
pub(super) const LONGEST_HOLD: u64 = SECOND / 2;
/// A slot that is guaranteed little tells its flows apart as if it were this part of the line.
const LEAST_PART: u64 = 20;

/// One slot of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) slot: Slot,
    /// What is above it: a class, or the pod that a flow is of, or for a class the line as a whole.
    pub(super) above: u16,
    pub(super) inner: HtbClass,
    pub(super) quick: HtbClass,
    pub(super) bulk: HtbClass,
    pub(super) quick_queue: Queue,
    pub(super) bulk_queue: Queue,
    pub(super) leaf: Leaf,
}

/// The whole of a tree: the line, then its slots, those above before those below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forms {
    pub(super) line: HtbClass,
    /// Bytes per second that the line carries, where that is known.
    pub(super) carries: Option<u64>,
    pub(super) slots: Vec<Form>,
}

/// The minor number of the line as a whole.
pub(super) const LINE: u16 = 1;

/// A slot with this share, of which `given` bytes per second are guaranteed to parts below it.
fn form(
    slot: Slot,
    above: u16,
    of: TrafficClass,
    share: Share,
    given: u64,
    line: u64,
    leaves: Leaves,
) -> Form {
    let min = share.min.bytes_per_second();
    let max = share.max.bytes_per_second();
    let own = min.saturating_sub(given);
    let quick_rate = own / QUICK_PART;
    // All of what one class borrows goes before anything that the next one does.
    let priority = 2 * of.priority();
    let room = passing(rate::reckoned(max), BULK_NANOS, LEAST_BULK);
    let reference = min.max(line / LEAST_PART).max(FLOOR);
    let bulk_queue = Queue::of_bulk(leaves, line, room, reference.min(max).max(FLOOR));
    let hold = (u64::from(bulk_queue.limit()) * SECOND / reference).min(LONGEST_HOLD);
    let (longest, quantum) = match bulk_queue.cuts() {
        true => (UNCUT, SEGMENTED_QUANTUM),
        false => (0, QUANTUM),
    };
    Form {
        slot,
        above,
        inner: class(min, max, QUANTUM, 0),
        quick: class(quick_rate, max, quantum, priority),
        bulk: class(own - quick_rate, max, quantum, priority + 1),
        quick_queue: Queue::fifo(QUICK_BYTES),
        bulk_queue,
        leaf: Leaf::new(of, reference, ALLOWANCE, hold).up_to(longest),
    }
}

/// What a tree becomes. Parts without a slot are left out.
pub(super) fn forms(tree: &Tree, slots: &BTreeMap<PartId, Slot>, leaves: Leaves) -> Forms {
    let total = tree.shares.total.bytes_per_second();
    let line = rate::reckoned(total);
    let mut given = BTreeMap::<TrafficClass, u64>::new();
    let mut given_by_pods = BTreeMap::<&Arc<str>, u64>::new();
    for (id, part) in &tree.parts {
        *match part.is_inside_pod {
            true => given_by_pods.entry(&id.pod).or_default(),
            false => given.entry(part.class).or_default(),
        } += part.share.min.bytes_per_second();
    }
    let classes = TrafficClass::ALL.map(|of| {
        let given = given.get(&of).copied().unwrap_or_default();
        form(
            Slot::of(of),
            LINE,
            of,
            tree.shares.of(of),
            given,
            line,
            leaves,
        )
    });
    let parts = tree.parts.iter().filter_map(|(id, part)| {
        let slot = *slots.get(id)?;
        let pod = PartId {
            flow: None,
            ..id.clone()
        };
        let pod = slots.get(&pod).filter(|_| part.is_inside_pod);
        let above = pod.copied().unwrap_or(Slot::of(part.class)).inner();
        let given = given_by_pods.get(&id.pod).filter(|_| id.flow.is_none());
        let given = given.copied().unwrap_or_default();
        Some(form(
            slot, above, part.class, part.share, given, line, leaves,
        ))
    });
    let mut slots: Vec<Form> = classes.into_iter().chain(parts).collect();
    let held = held_back(&slots, total);
    for form in &mut slots {
        form.leaf = form.leaf.passing(!held.contains(&form.slot.inner()));
    }
    Forms {
        line: class(total, total, QUANTUM, 0),
        carries: (total <= line).then_some(total),
        slots,
    }
}

/// Those that have a limit below the line's, of their own or above them.
fn held_back(slots: &[Form], total: u64) -> BTreeSet<u16> {
    let most = class(total, total, QUANTUM, 0).ceil;
    let mut held = BTreeSet::new();
    // Three levels: a class, a pod, flows of it.
    for _ in 0..3 {
        let of_these = slots.iter();
        let of_these = of_these.filter(|it| it.inner.ceil < most || held.contains(&it.above));
        let of_these: Vec<u16> = of_these.map(|it| it.slot.inner()).collect();
        held.extend(of_these);
    }
    held
}

#[cfg(test)]
mod tests {
    use netqos_core::BitRate;
    use netqos_core::classes::{Part, Shares};
    use proptest::prelude::*;

    use super::*;

    const fn bits(bits: u64) -> BitRate {
        BitRate::from_bits_per_second(bits)
    }

    fn share(min: u64, max: u64) -> Share {
        Share {
            min: bits(min),
            max: bits(max),
        }
    }

    fn part(number: u16) -> PartId {
        PartId {
            pod: format!("uid-{number}").into(),
            flow: None,
        }
    }

    /// A tree of three parts, whatever it is divided into.
    fn trees() -> impl Strategy<Value = Tree> {
        let rates = (
            1_000_u64..100_000_000_000,
            0_u64..=100,
            0_u64..=100,
            0_u64..=100,
        );
        (rates, 0_u8..3).prop_map(|((total, l1, l2, of_class), class)| {
            let l1 = total / 100 * l1.min(100 - l2);
            let l2 = total / 100 * l2;
            let shares = Shares::try_new(bits(total), share(l1, total), share(l2, total)).unwrap();
            let class = TrafficClass::ALL[usize::from(class)];
            let min = shares.of(class).min.bits_per_second() / 300 * of_class;
            let one = Part {
                class,
                share: share(min, total),
                is_inside_pod: false,
                asked: None,
            };
            Tree {
                shares,
                parts: (0..3).map(|number| (part(number), one)).collect(),
            }
        })
    }

    fn slots() -> BTreeMap<PartId, Slot> {
        (0..3)
            .map(|number| (part(number), Slot(number + 3)))
            .collect()
    }

    proptest! {
        /// HTB caps nobody who stays within its rate: were the leaves' together more than the line,
        /// so would be what is sent.
        #[test]
        fn leaves_together_are_guaranteed_no_more_than_the_line(tree in trees()) {
            let forms = forms(&tree, &slots(), Leaves::Fifo);
            let floors = FLOOR * 2 * forms.slots.len() as u64;
            let sum: u64 = forms.slots.iter().map(|form| form.quick.rate + form.bulk.rate).sum();
            prop_assert!(sum <= forms.line.rate + floors, "{sum} of {}", forms.line.rate);
        }

        #[test]
        fn nobody_may_have_more_than_what_is_above(tree in trees()) {
            let forms = forms(&tree, &slots(), Leaves::Fifo);
            for form in &forms.slots {
                prop_assert!(form.inner.rate <= form.inner.ceil);
                prop_assert!(form.quick.ceil <= form.inner.ceil.max(FLOOR));
                prop_assert!(form.bulk.ceil <= form.inner.ceil.max(FLOOR));
                prop_assert!(form.slot.is_class() == (form.above == LINE));
            }
        }
    }

    #[test]
    fn only_a_slow_line_has_what_fills_it_cut() {
        let cuts = |megabits: u64| {
            let shares = share(megabits * 300_000, megabits * 1_000_000);
            let shares = Shares::try_new(bits(megabits * 1_000_000), shares, shares).unwrap();
            let tree = Tree {
                shares,
                parts: BTreeMap::new(),
            };
            let slots = forms(&tree, &BTreeMap::new(), Leaves::Fifo).slots;
            let is_cut = |queue: Queue| queue.cuts();
            assert!(slots.iter().all(|form| !is_cut(form.quick_queue)));
            slots.iter().all(|form| is_cut(form.bulk_queue))
        };
        assert_eq!(
            [10, 100, 499, 500, 1000].map(cuts),
            [true, true, true, false, false]
        );
    }

    /// Else CoDel would drop packets of a flow that has what it may have.
    #[test]
    fn target_is_by_the_limit_of_a_part_that_is_held_to_less_than_its_share() {
        let total = 100_000_000;
        let tree = Tree {
            shares: Shares::try_new(bits(total), share(0, total), share(0, total)).unwrap(),
            parts: [(
                part(0),
                Part {
                    class: TrafficClass::BestEffort,
                    share: share(0, 1_000_000),
                    is_inside_pod: false,
                    asked: None,
                },
            )]
            .into(),
        };
        let forms = forms(&tree, &slots(), Leaves::Fair);
        let target = forms.slots.last().unwrap().bulk_queue.target();
        // Two frames at 1 Mbit/s.
        assert_eq!(target, Some(24_224));
    }

    /// Else a flow that pauses would overtake its own packets.
    #[test]
    fn flow_stays_bulk_until_its_queue_must_be_empty() {
        let total = 400_000_000;
        let shares = Shares::try_new(bits(total), share(0, total), share(0, total));
        let tree = Tree {
            shares: shares.unwrap(),
            parts: [(
                part(0),
                Part {
                    class: TrafficClass::LatencySensitive,
                    share: share(20_000_000, 40_000_000),
                    is_inside_pod: false,
                    asked: None,
                },
            )]
            .into(),
        };
        for leaves in [Leaves::Fifo, Leaves::Fair] {
            let forms = forms(&tree, &slots(), leaves);
            let form = forms.slots.last().unwrap();
            let longest = u64::from(form.bulk_queue.limit()) * SECOND / 2_500_000;
            assert!(form.leaf.hold() >= longest.min(LONGEST_HOLD), "{leaves:?}");
        }
    }

    #[test]
    fn what_a_line_of_unknown_speed_carries_is_not_known() {
        let carries = |gigabits: u64| {
            let total = gigabits * 1_000_000_000;
            let shares = Shares::try_new(bits(total), share(0, total), share(0, total));
            let tree = Tree {
                shares: shares.unwrap(),
                parts: BTreeMap::new(),
            };
            forms(&tree, &BTreeMap::new(), Leaves::Fifo).carries
        };
        assert_eq!(carries(100), Some(12_500_000_000));
        // What is above all lines.
        assert_eq!(carries(10_000), None);
    }

    #[test]
    fn flows_inside_of_their_pod_are_below_it_and_of_its_guarantee() {
        let total = 100_000_000;
        let shares = Shares::try_new(bits(total), share(30_000_000, total), share(0, total));
        let of = TrafficClass::LatencySensitive;
        let one = |min: u64, is_inside_pod| Part {
            class: of,
            share: share(min, if is_inside_pod { total } else { 20_000_000 }),
            is_inside_pod,
            asked: None,
        };
        let flow = PartId {
            flow: Some(0),
            ..part(0)
        };
        let tree = Tree {
            shares: shares.unwrap(),
            parts: [
                (part(0), one(16_000_000, false)),
                (flow.clone(), one(12_000_000, true)),
            ]
            .into(),
        };
        // The flow has the lower number.
        let slots = BTreeMap::from([(part(0), Slot(7)), (flow, Slot(5))]);
        let forms = forms(&tree, &slots, Leaves::Fifo);
        let [.., pod, flow] = &forms.slots[..] else {
            panic!("{forms:?}")
        };
        assert_eq!((pod.slot, flow.slot), (Slot(7), Slot(5)));
        assert_eq!(
            (pod.above, flow.above),
            (Slot::of(of).inner(), Slot(7).inner())
        );
        let own = |form: &Form| (form.quick.rate + form.bulk.rate) * 8;
        assert_eq!((own(pod), own(flow)), (4_000_000, 12_000_000));
        assert_eq!(own(&forms.slots[1]), 14_000_000);
        // The pod's limit is the flow's, too; nobody else has one.
        let pass = forms.slots.iter().map(|form| form.leaf.may_pass());
        assert_eq!(pass.collect::<Vec<_>>(), [true, true, true, false, false]);
    }

    #[test]
    fn a_higher_class_borrows_before_a_lower_one() {
        let shares = Shares::try_new(
            bits(100_000_000),
            share(30_000_000, 100_000_000),
            share(30_000_000, 50_000_000),
        );
        let tree = Tree {
            shares: shares.unwrap(),
            parts: BTreeMap::new(),
        };
        let forms = forms(&tree, &BTreeMap::new(), Leaves::Fifo);
        let numbers: Vec<_> = forms
            .slots
            .iter()
            .map(|form| (form.quick.priority, form.bulk.priority, form.inner.rate * 8))
            .collect();
        assert_eq!(
            numbers,
            [(0, 1, 40_000_000), (2, 3, 30_000_000), (4, 5, 30_000_000)]
        );
        assert_eq!(forms.slots[2].inner.ceil * 8, 50_000_000);
    }
}
