//! The links of a pod's interface.

use std::path::Path;

use netqos_core::plan::Ends;
use netqos_netlink::{Namespace, Socket};

/// The links of the interface of this name, which the plugins before have just made. `None` where they are not found; the
/// agent looks for them then.
pub(crate) fn ends(netns: &Path, name: &str) -> Option<Ends> {
    let namespace = Namespace::open(netns).ok()?;
    let link = Socket::open_in(&namespace).ok()?.link_by_name(name).ok()?;
    let host = Socket::open().ok()?.other_end(&link, &namespace).ok()?;
    (host.is_some() || !link.is_pair_end()).then(|| Ends {
        pod: link.index,
        host: host.map(|end| end.index),
    })
}
