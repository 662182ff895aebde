//! Where objects come from: a folder of manifests, or a cluster.
//!
//! What is in force depends on what the source holds now and on nothing else: not on the order in
//! which objects came, and not on what they said before. So one that cannot be read is left out also
//! where it was good before, and the same object in two files is that of the first by name. The
//! engine keeps the limits of a running pod whose annotations cannot be parsed any longer.

#[cfg(feature = "daemon")]
mod cluster;
mod folder;
mod objects;
#[cfg(feature = "daemon")]
mod run;

pub use folder::Folder;
#[cfg(feature = "daemon")]
pub use {
    cluster::{ClusterOptions, spawn as spawn_cluster},
    run::spawn,
};
