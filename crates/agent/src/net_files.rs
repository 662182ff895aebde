//! The two files by which another agent may say how the node's lines are shared: `node` and `pods` under
//! `/var/run/koordinator/net`, as Koordinator's proposal has them.
//!
//! ```text
//!   <folder>/node, pods ─► Reader ─► NetFiles ─► engine
//!   <run>/class-backend ─────┘ whose they are
//! ```
//!
//! The backend terway-qos writes the same files, and what it has written must not come back as another's
//! word. Before it writes the first of them, the agent writes down that it is in force
//! ([`backend_record`](crate::classes::backend_record)), and it takes that back after it has removed the
//! last one, also where another agent process wrote them. So a file that is there before and after a look
//! at that note, which does not name terway-qos, is not netqos' own.

mod reader;
mod run;

use std::path::PathBuf;

pub use run::spawn;

/// The name of this source.
const SOURCE: &str = "net-files";

/// Where the files are.
#[derive(Clone, Debug)]
pub struct NetFileOptions {
    /// The folder that they are in; it may come later.
    pub folder: PathBuf,
    /// The run folder of the agent, in which stands who divides the lines.
    pub run: PathBuf,
}
