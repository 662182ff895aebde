//! Network namespaces that have a name, so that `ip netns` sees them.

use std::fs;
use std::path::Path;
use std::thread;

use netqos_netlink::{Namespace, Socket};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::LabError;
use crate::record::netns_path;

/// Makes a namespace of this name, which must not be taken; its loopback is up.
pub(crate) fn create(name: &str) -> Result<Namespace, LabError> {
    let namespace = Namespace::create(netns_path(name))?;
    inside(&namespace, "set up a namespace", || {
        // Nobody else has its addresses: IPv6 need not wait a second or two to find that out. Where
        // this cannot be set, it waits.
        for which in ["all", "default"] {
            let setting = format!("/proc/sys/net/ipv6/conf/{which}/accept_dad");
            let _ = fs::write(setting, "0");
        }
    })?;
    let mut socket = Socket::open_in(&namespace)?;
    let loopback = socket.link_by_name("lo")?;
    socket.set_link_up(&loopback, true)?;
    Ok(namespace)
}

/// Takes the name away, and with it the namespace, unless something still runs or is open in it.
/// Succeeds when there is nothing of this name.
pub(crate) fn remove(name: &str) -> Result<(), LabError> {
    Ok(Namespace::remove(netns_path(name))?)
}

/// Takes away what is mounted at a path; succeeds when nothing is.
pub(crate) fn unmount_all(path: &Path) -> Result<(), LabError> {
    loop {
        match unmount(path, UnmountFlags::DETACH) {
            // There may be another below it.
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(LabError::io("unmount", path)(errno.into())),
        }
    }
}

/// Does something inside of a namespace, on a thread of its own: threads and processes that it
/// starts are inside, too, and whoever calls never is.
pub(crate) fn inside<T: Send>(
    namespace: &Namespace,
    what: &'static str,
    act: impl FnOnce() -> T + Send,
) -> Result<T, LabError> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<T, LabError> {
            let _inside = namespace.enter()?;
            Ok(act())
        });
        thread.join().map_err(|_| LabError::Panicked(what))?
    })
}
