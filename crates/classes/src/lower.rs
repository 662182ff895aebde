//! The order in which HTB classes are lowered.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::successors;

use netqos_netlink::class::{HtbClass, InstalledClass};
use netqos_netlink::link::Link;
use netqos_netlink::{Handle, Socket};

use crate::rate;

/// Lowers the rates and ceilings of classes that are above the wanted ones, the lowest classes first. A class that is not
/// wanted may have what the wanted one above it has.
///
/// HTB lets a class send at its own rate whatever those above it owe. Were those lowered first, they would owe for all
/// that is sent until its turn comes, and pause for it: at a hundredth of the rate, ten seconds for 100 ms.
pub(crate) fn lower(
    socket: &mut Socket,
    link: &Link,
    there: &BTreeMap<Handle, InstalledClass>,
    wanted: &BTreeMap<Handle, HtbClass>,
) -> netqos_netlink::Result<usize> {
    let above = |class: Handle| successors(Some(class), |it| Some(there.get(it)?.parent));
    let mut lowest_first: Vec<&InstalledClass> = there.values().collect();
    lowest_first.sort_by_key(|class| Reverse(above(class.handle).count()));
    let mut changes = 0;
    for found in lowest_first {
        let Some(most) = above(found.handle).find_map(|class| wanted.get(&class)) else {
            continue;
        };
        if most.rate < found.rate() || most.ceil < found.ceil() {
            let class = rate::class(
                found.rate().min(most.rate),
                found.ceil().min(most.ceil),
                found.quantum(),
                found.priority(),
            );
            socket.put_class(link, found.parent, found.handle, &class)?;
            changes += 1;
        }
    }
    Ok(changes)
}
