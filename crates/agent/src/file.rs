//! Files that others write while they are read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A larger file is none that is meant for the agent.
const MOST_BYTES: u64 = 64 << 20;
/// What was written to so short a time ago may still be.
pub(crate) const SETTLED: Duration = Duration::from_millis(50);

/// By which a file is known to be the same: device, inode, size, and times of change in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i64; 7]);

impl Stamp {
    /// Of the file that this is said of.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self([
            metadata.dev() as i64,
            metadata.ino() as i64,
            metadata.size() as i64,
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ])
    }

    /// Of the file that is there now. `None`: none is, or nothing can be said of it.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|it| Self::of(&it))
    }
}

/// True where somebody may be writing to it still, of whom was not heard. By the clock that files are
/// dated with: one that jumps lets it be read too soon, and then once more when it is closed.
#[allow(
    clippy::disallowed_methods,
    reason = "files are dated by no other clock"
)]
pub(crate) fn is_young(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.map(|time| SystemTime::now().duration_since(time).unwrap_or(SETTLED));
    age.is_ok_and(|age| age < SETTLED)
}

/// True where there is no such file.
pub(crate) fn is_none(why: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(why.kind(), NotFound | NotADirectory)
}

/// The text of a file, or what is wrong with the text, with the stamp that the file had before.
///
/// # Errors
/// It is not there, or the disk does not answer.
pub(crate) fn read_text(path: &Path) -> io::Result<(Result<String, String>, Stamp)> {
    // Before it is opened: a pipe would not answer.
    let metadata = fs::metadata(path)?;
    let stamp = Stamp::of(&metadata);
    if !metadata.is_file() {
        return Ok((Err("it is not a file".to_owned()), stamp));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        return Ok((Err(format!("it is larger than {most} MiB")), stamp));
    }
    let text = String::from_utf8(bytes).map_err(|why| format!("it is not UTF-8: {why}"));
    Ok((text, stamp))
}
