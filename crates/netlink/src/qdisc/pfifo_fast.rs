//! `pfifo_fast`: three bands by `skb->priority`, the first always before the next.

use super::Qdisc;

/// The kernel's classic default qdisc (`net/sched/sch_generic.c`), which is always built in.
///
/// It has no settings of its own: each band holds as many **packets** (not bytes) as the link's
/// transmit queue length says at the moment at which the qdisc is made, and making it with a
/// length of zero fails with `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfifoFast;

impl Qdisc for PfifoFast {
    const KIND: &'static str = "pfifo_fast";
}
