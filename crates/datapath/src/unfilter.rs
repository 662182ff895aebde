//! Removing filters of a hook, without a trace.

use netqos_netlink::filter::{Installed, Place};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::{Handle, Socket};

use crate::Result;
use crate::error::Doing;

/// The handle that stands for all filters of a preference.
const ALL: u32 = 0;

/// Removes the filters of this hook that are meant. A preference at which nobody has any other goes
/// as a whole: u32 leaves an empty list at its own, where others of its kind are on the link.
pub(crate) fn remove(
    socket: &mut Socket,
    link: &Link,
    hook: Handle,
    is_meant: impl Fn(&Installed) -> bool,
) -> Result<()> {
    let there = socket.filters(link, hook).doing("list filters")?;
    let (meant, others): (Vec<_>, Vec<_>) = there.iter().partition(|filter| is_meant(filter));
    for filter in meant {
        let is_shared = others
            .iter()
            .any(|other| other.place.preference == filter.place.preference);
        let place = match is_shared {
            true => filter.place,
            false => Place {
                handle: ALL,
                ..filter.place
            },
        };
        gone(socket.delete_filter(link, &filter.kind, place)).doing("delete filter")?;
    }
    Ok(())
}
