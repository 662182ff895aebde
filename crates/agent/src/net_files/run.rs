//! The files' thread.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::reader::Reader;
use super::{NetFileOptions, SOURCE};
use crate::classes::{NetFiles, backend_record};
use crate::event::{Batch, Event, Said};
use crate::file::SETTLED;
use crate::watch::{self, Watch};
use crate::{Error, Result};

/// How often the files are looked at although nothing was heard of them.
const RESCAN: Duration = Duration::from_secs(10);
/// How long all others wait for a file that somebody is writing to when the agent starts.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends what the files say, from now on, until nobody listens.
///
/// # Errors
/// The thread cannot be started. That there is no such folder is none: it may come.
pub fn spawn(options: NetFileOptions, events: Sender<Event>) -> Result<()> {
    let watches = [&options.folder, &options.run].map(|folder| Watch::new(folder.clone()));
    let thread = thread::Builder::new().name(SOURCE.into());
    let run = move || {
        if let Err(why) = run(options, watches, &events) {
            tracing::error!("the files of another agent are not watched any more: {why}");
            let _ = events.send(Event::Stop);
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(options: NetFileOptions, mut watches: [Watch; 2], events: &Sender<Event>) -> Result<()> {
    let record = backend_record(&options.run);
    let record = record.file_name().and_then(|name| name.to_str());
    let mut reader = Reader::new(options.clone());
    let mut told: Option<Arc<NetFiles>> = None;
    let mut said = Said::default();
    let mut whole = BTreeSet::new();
    let began = Instant::now();
    loop {
        let later = reader.look(&whole, |name| watches[0].is_being_written(name));
        let looked = Instant::now();
        // The first says all, but does not wait for long.
        if said.anything() || !later || began.elapsed() > PATIENCE {
            if told.as_deref() != Some(reader.files()) {
                let files = Arc::new(reader.files().clone());
                if events.send(Event::NetFiles(files.clone())).is_err() {
                    return Ok(());
                }
                told = Some(files);
            }
            let batch = Batch {
                source: SOURCE,
                problems: watch::deafness(&watches).into_iter().collect(),
                ..Batch::default()
            };
            if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
                return Ok(());
            }
        }
        let pause = if later { SETTLED } else { RESCAN };
        whole = loop {
            let left = pause.saturating_sub(looked.elapsed());
            let mut heard = watch::wait(&mut watches, left)?;
            let mut aimed_anew = false;
            for watch in &mut watches {
                aimed_anew |= watch.aim();
            }
            let is_due = looked.elapsed() >= pause;
            let files = heard.remove(&0);
            // Much else is written to the run folder.
            let is_other_backend = heard.remove(&1).is_some_and(|heard| {
                heard.everything || record.is_some_and(|record| heard.files.contains(record))
            });
            if files.is_some() || is_other_backend || is_due || aimed_anew {
                break files.map(|heard| heard.files).unwrap_or_default();
            }
        };
    }
}
