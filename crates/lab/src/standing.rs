//! A lab that stands: its record under a lock, and the promise that it is taken away.

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::process::Process;
use crate::record::Record;
use crate::teardown::tear_down;
use crate::{LabError, Progress};

/// A lab from its first file to its last. Dropped, it is taken away, unless it was
/// [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct Standing {
    /// `None` when it has been taken away or kept.
    record: Mutex<Option<Record>>,
    run: String,
}

impl Standing {
    pub(crate) fn new(record: Record) -> Self {
        let run = record.run.clone();
        if cfg!(panic = "abort") {
            take_away_when_panicking(run.clone());
        }
        Self {
            record: Mutex::new(Some(record)),
            run,
        }
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Changes the lab: first its record, which is written, and then what it records. Nobody takes
    /// the lab away meanwhile.
    pub(crate) fn change<T>(
        &self,
        plan: impl FnOnce(&mut Record),
        make: impl FnOnce(&Record) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let mut guard = self.lock();
        let Some(record) = guard.as_mut() else {
            return Err(LabError::NoSuchLab(self.run.clone()));
        };
        plan(record);
        record.write()?;
        make(record)
    }

    /// Takes it away; does nothing when it has been, or is kept.
    pub(crate) fn tear_down(&self) -> Result<(), LabError> {
        let mut guard = self.lock();
        let Some(record) = guard.as_ref() else {
            return Ok(());
        };
        tear_down(record)?;
        *guard = None;
        Ok(())
    }

    /// Leaves it up, and says what it is; from now on it is nobody's.
    pub(crate) fn keep(&self) -> Result<Option<Record>, LabError> {
        let mut guard = self.lock();
        if let Some(record) = guard.as_mut() {
            record.owner = None;
            record.write()?;
        }
        Ok(guard.take())
    }

    /// Takes it away when this process is told to end, and ends it then.
    pub(crate) fn until_told_to_end<T>(
        &self,
        progress: &Progress,
        act: impl FnOnce() -> T,
    ) -> Result<T, LabError> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(LabError::io("watch for signals", "/proc/self"))?;
        let handle = signals.handle();
        Ok(thread::scope(|scope| {
            scope.spawn(move || {
                let Some(signal) = signals.forever().next() else {
                    return;
                };
                progress.note("interrupted: taking the lab away");
                // Held until the process ends, so that nothing more is made.
                let guard = self.lock();
                if let Some(Err(error)) = guard.as_ref().map(tear_down) {
                    progress.note(&error.to_string());
                }
                std::process::exit(128 + signal);
            });
            let _close = CloseOnDrop(handle);
            act()
        }))
    }

    /// A panic with the lock held leaves a record that names at least what was made.
    fn lock(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Err(error) = self.tear_down() {
            // No caller is left to return it to.
            let _ = writeln!(io::stderr(), "{error}");
        }
    }
}

/// Ends the thread that waits for signals.
struct CloseOnDrop(Handle);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Where a panic ends the process without dropping anything, the lab is taken away before.
fn take_away_when_panicking(run: String) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // From the file: the lock may be held by the thread that panics.
        if let Ok(record) = Record::read(&run)
            && record.owner == Some(Process::this())
            && let Err(error) = tear_down(&record)
        {
            let _ = writeln!(io::stderr(), "{error}");
        }
    }));
}
