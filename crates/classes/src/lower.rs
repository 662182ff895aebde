//! The order in which HTB classes are lowered.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::successors;

use netqos_netlink::class::{HtbClass, InstalledClass};
use netqos_netlink::link::Link;
use netqos_netlink::{Handle, Socket};

use crate::rate::{self, FLOOR};

/// Lowers the rates and ceilings of classes to the desired ones, children before their parents. A class that is to be
/// removed is guaranteed nothing: what waits in it borrows up to the desired ceiling of the class above it.
///
/// HTB lets a class send at its own rate whatever its parents owe. A parent that is lowered first owes for all that its
/// children send until they are lowered, too, and pauses for it: at a hundredth of the rate, ten seconds for 100 ms.
pub(crate) fn lower(
    socket: &mut Socket,
    link: &Link,
    observed: &BTreeMap<Handle, InstalledClass>,
    desired: &BTreeMap<Handle, HtbClass>,
) -> netqos_netlink::Result<usize> {
    let above = |class: Handle| successors(Some(class), |it| Some(observed.get(it)?.parent));
    let mut lowest_first: Vec<&InstalledClass> = observed.values().collect();
    lowest_first.sort_by_key(|class| Reverse(above(class.handle).count()));
    let mut changes = 0;
    for found in lowest_first {
        let Some(most) = above(found.handle).find_map(|class| desired.get(&class)) else {
            continue;
        };
        let is_removed = !desired.contains_key(&found.handle);
        let least = if is_removed { FLOOR } else { most.rate };
        if least < found.rate() || most.ceil < found.ceil() {
            let class = rate::class(
                found.rate().min(least),
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
