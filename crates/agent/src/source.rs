//! Where objects come from. A folder of manifests is one source; a cluster will be another.
//!
//! What is in force depends on what the folder holds and on nothing else: not on the order in which
//! files came, and not on what they said before. So a document that cannot be read is left out also
//! where an earlier one of the same object was good, and the same object in two files is that of
//! the first by name.

mod folder;
mod objects;
#[cfg(feature = "daemon")]
mod run;

pub use folder::Folder;
#[cfg(feature = "daemon")]
pub use run::spawn;
