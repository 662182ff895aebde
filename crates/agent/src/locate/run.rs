//! The locator's thread.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::Locator;
use crate::event::{Event, Said};
use crate::watch::{self, Watch};
use crate::{Error, Result};

/// How often all is looked over although nothing was heard.
const RESCAN: Duration = Duration::from_secs(15);
/// At every so many of those all is read, and every interface found again.
const THOROUGH: u32 = 8;

/// Sends where pods are, from now on, until nobody listens.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(caches: Vec<PathBuf>, events: Sender<Event>) -> Result<()> {
    let results: Vec<PathBuf> = caches.iter().map(|cache| cache.join("results")).collect();
    let watches: Vec<Watch> = results.iter().cloned().map(Watch::new).collect();
    let thread = thread::Builder::new().name("locator".into());
    let run = move || {
        if let Err(why) = run(Locator::new(caches), &results, watches, &events) {
            tracing::error!("attachments are not watched any more: {why}");
            let _ = events.send(Event::Stop);
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(
    mut locator: Locator,
    results: &[PathBuf],
    mut watches: Vec<Watch>,
    events: &Sender<Event>,
) -> Result<()> {
    let mut batch = locator.look();
    let mut said = Said::default();
    let mut rescans = 0_u32;
    loop {
        batch.problems.extend(watch::deafness(&watches));
        if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
            return Ok(());
        }
        let heard = watch::wait(&mut watches, RESCAN)?;
        if heard.is_empty() {
            rescans += 1;
            batch = match rescans % THOROUGH {
                0 => locator.look(),
                _ => locator.look_over(),
            };
        } else if heard.values().any(|heard| heard.everything) {
            batch = locator.look();
        } else {
            for (index, heard) in heard {
                let folder = results.get(index);
                for (folder, name) in folder
                    .into_iter()
                    .flat_map(|folder| heard.files.iter().map(move |name| (folder, name)))
                {
                    locator.look_at(&folder.join(name));
                }
            }
            batch = locator.batch();
        }
        for watch in &mut watches {
            watch.aim();
        }
    }
}
