//! The thread that adds to the list of `netqos-multinet` what the default network declares later, also where that network is
//! installed after the plugin.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use netqos_core::{ObjectRef, Problem, Reason};

use super::list::{ListError, install_command, update_list};
use crate::event::{Batch, Event, Said};
use crate::watch::{self, Watch};
use crate::{Error, Result};

/// The name of this source.
const SOURCE: &str = "multinet-list";

/// The time after which the directory is read although no file has changed: the default network may be in another one.
const RESCAN: Duration = Duration::from_secs(60);

/// The wait after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps the list of this path, in the runtime's directory, until the engine ends. Where no list of netqos is, nothing is
/// written.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub fn spawn(list: PathBuf, events: Sender<Event>) -> Result<()> {
    let directory = list.parent().unwrap_or(&list);
    let mut watches = [Watch::new(directory.to_owned())];
    let thread = thread::Builder::new().name(SOURCE.into());
    let run = move || {
        let mut said = Said::default();
        loop {
            let problem = update(&list);
            let is_failed = problem.is_some();
            let batch = Batch::of_problem(SOURCE, problem);
            if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
                return;
            }
            // A failed try may itself have changed the directory.
            let pause = match is_failed {
                true => {
                    thread::sleep(RETRY);
                    Duration::ZERO
                }
                false => RESCAN,
            };
            if let Err(error) = watch::wait(&mut watches, pause) {
                tracing::error!(error = %error, "the runtime's network configuration is no longer watched");
                return;
            }
            watches[0].aim();
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn update(path: &Path) -> Option<Problem> {
    match update_list(path) {
        Ok(Some(list)) if list.is_changed => {
            tracing::info!(list = %list.path.display(), "added capabilities of the default network");
            None
        }
        // A list that netqos has not written is its author's.
        Ok(_) | Err(ListError::Foreign(_)) => None,
        Err(error) => Some(Problem {
            object: ObjectRef::File(path.display().to_string()),
            reason: Reason::FileNotWritten,
            message: format!(
                "cannot declare what the default network takes: {error}; the runtime does not pass it; run {} on the \
                 node, or set multinet.updateList",
                install_command(path)
            ),
        }),
    }
}
