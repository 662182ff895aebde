//! Locks by files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A lock that excludes others with the same path, until it is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Waits until no one else has the lock.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn wait(path: &Path) -> io::Result<Self> {
        Self::lock(path, FlockOperation::LockExclusive)
    }

    /// Returns an error of the kind `WouldBlock` if another process has the lock.
    ///
    /// # Errors
    /// Returns an error also if the file cannot be opened.
    pub fn attempt(path: &Path) -> io::Result<Self> {
        Self::lock(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for the lock, at most this long; then the error is of the kind `WouldBlock`.
    ///
    /// # Errors
    /// Returns an error also if the file cannot be opened.
    pub fn wait_at_most(path: &Path, patience: Duration) -> io::Result<Self> {
        let end = Instant::now() + patience;
        loop {
            match Self::attempt(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    thread::sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    fn lock(path: &Path, how: FlockOperation) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(path)?;
            flock(&file, how)?;
            // The process that had the lock may have removed the file; then it excludes no one any more.
            let inode = file.metadata()?.ino();
            if fs::metadata(path).is_ok_and(|observed| observed.ino() == inode) {
                let path = path.to_owned();
                return Ok(Self { file, path });
            }
        }
    }

    /// Has processes that this one starts keep the lock if this one is killed.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses it.
    pub fn pass_on(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.file, FdFlags::empty())?)
    }

    /// Removes the file and releases the lock.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Releases the lock also for processes that have inherited it.
impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lock_is_passed_on_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.lock");
        let lock = FileLock::wait(&path).unwrap();
        assert_eq!(
            FileLock::attempt(&path).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        lock.pass_on().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        let lock = FileLock::attempt(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        lock.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn child_of_killed_process_keeps_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        // A shell is killed while its child has the descriptor.
        let mut shell = Command::new("sh")
            .args(["-c", "exec 9>\"$0\"; flock 9; sleep 60 & echo $!; wait"])
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pid = String::new();
        let stdout = shell.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut pid).unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        let late = FileLock::wait_at_most(&path, Duration::from_millis(50));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
        assert!(killed.success());
        FileLock::wait_at_most(&path, Duration::from_secs(10)).unwrap();
    }
}
