//! The folder's thread.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::Folder;
use super::folder::Which;
use crate::event::{Event, Said};
use crate::file::SETTLED;
use crate::watch::{self, Heard, Watch};
use crate::{Error, NetworkCatalog, Result};

/// How often the folder is looked through although nothing was heard of it.
const RESCAN: Duration = Duration::from_secs(10);
/// How long all others wait for a file that somebody is writing to when the agent starts.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends what the folder says, from now on, until nobody listens.
///
/// # Errors
/// The folder is not there.
pub fn spawn(
    folder: std::path::PathBuf,
    networks: NetworkCatalog,
    events: Sender<Event>,
) -> Result<()> {
    let watch = Watch::new(folder.clone());
    let folder = Folder::open(folder)?.in_catalog(networks);
    let thread = thread::Builder::new().name("manifests".into());
    let run = move || {
        if let Err(why) = run(folder, watch, &events) {
            tracing::error!("manifests are not watched any more: {why}");
            let _ = events.send(Event::Stop);
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(mut folder: Folder, watch: Watch, events: &Sender<Event>) -> Result<()> {
    let mut watches = [watch];
    let mut heard = Heard {
        files: BTreeSet::new(),
        everything: true,
    };
    let mut said = Said::default();
    let mut changes = Vec::new();
    let began = Instant::now();
    loop {
        let mut put_off = false;
        // The folder of a ConfigMap changes by one link that its files go through.
        if heard.everything || heard.files.iter().any(|name| name.starts_with("..")) {
            let is_being_written = |name: &str| watches[0].is_being_written(name);
            let (found, later) = folder.read_which(Which::Settled(&is_being_written));
            changes.extend(found);
            put_off = later;
        }
        for name in &heard.files {
            changes.extend(folder.read_file(name));
        }
        // The first says all, but does not wait for long.
        if said.anything() || !put_off || began.elapsed() > PATIENCE {
            let mut batch = folder.batch(std::mem::take(&mut changes));
            batch.problems.extend(watch::deafness(&watches));
            if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
                return Ok(());
            }
        }
        let timeout = if put_off { SETTLED } else { RESCAN };
        heard = watch::wait(&mut watches, timeout)?
            .remove(&0)
            .unwrap_or(Heard {
                files: BTreeSet::new(),
                everything: true,
            });
        watches[0].aim();
    }
}
