//! What can be wrong with what is to be built.

use std::io;
use std::path::PathBuf;

use netqos_cni::runtime::RuntimeError;

/// Why a folder can't be understood.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or folder that can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is not YAML.
    #[error("{}: {problem}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Where and what.
        problem: String,
    },
    /// A field that is unknown, missing, or can't have its value.
    #[error("{}: {path}: {problem}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The field, from the top of its document.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// Something that has to be there and isn't.
    #[error("{}: there is no {what} in it", folder.display())]
    Missing {
        /// Where it should be.
        folder: PathBuf,
        /// What should be there.
        what: &'static str,
    },
    /// Something that may be there only once.
    #[error("{}: there are {count} {what}s in it, and one is used: move the others away", folder.display())]
    TooMany {
        /// Where they are.
        folder: PathBuf,
        /// What there may be one of.
        what: &'static str,
        /// How many there are.
        count: usize,
    },
    /// A network configuration list that can't be read.
    #[error(transparent)]
    Network(#[from] RuntimeError),
}
