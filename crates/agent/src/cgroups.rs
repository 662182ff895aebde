//! Where the pods of this node are, from their cgroups: for nodes on which no runtime's cache says
//! it.
//!
//! ```text
//!   /sys/fs/cgroup/…/kubepods/…/pod<uid>/<container>/cgroup.procs
//!     └─► a process ─► /proc/PID/ns/net ─► eth0 in it ─► the veth's other end on the host
//! ```
//!
//! What is found is known by the pod's uid, as the cgroup is; whose uid that is, the engine knows.
//! Of a pod that a cache tells of, it is passed over there.
//!
//! It is heard of by inotify: folders come and go, and on cgroup v2 their first process does, too.
//! On v1 nothing tells that a process has come, so a folder that has just come is looked at a few
//! times more.

mod listen;
mod names;
mod processes;
mod run;
mod sandboxes;
mod tree;

use std::path::PathBuf;

pub use run::spawn;

/// The name of this source.
const SOURCE: &str = "cgroups";

/// Where cgroups and processes are.
#[derive(Clone, Debug)]
pub struct CgroupOptions {
    /// The folder that the cgroup file systems are mounted at, or below; or one inside of them that
    /// has the folder `kubepods`.
    pub root: PathBuf,
    /// Where the host's processes are to be seen.
    pub proc: PathBuf,
    /// The folders that the plugins' records are in.
    pub paths: netqos_datapath::Paths,
}
