//! The locator's thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use netqos_api::multinet::PodName;

use super::{Age, Locator, Source};
use crate::event::{Event, Said};
use crate::multinet::{StatusAnnotation, StatusAnnotations};
use crate::watch::{self, Watch};
use crate::{Error, Result};

/// Where the annotations are told.
type Statuses = tokio::sync::watch::Sender<StatusAnnotations>;

/// How often all is looked over although nothing was heard.
const RESCAN: Duration = Duration::from_secs(15);
/// At every so many of those all is read, and every interface found again.
const THOROUGH: u32 = 8;

/// Sends where pods are, and what their annotations `network-status` should be, from now on, until the engine ends.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(locator: Locator, statuses: Statuses, events: Sender<Event>) -> Result<()> {
    // What is above the plugin's folder changes for many reasons: where it is not there yet, all would be
    // looked at for each of them.
    if let Some(attached) = &locator.attached
        && let Err(why) = std::fs::create_dir_all(attached)
    {
        tracing::debug!(folder = %attached.display(), "make it: {why}");
    }
    let folders = locator.folders();
    // Runtimes write their results in place.
    let watches = folders
        .iter()
        .map(|folder| match locator.source(&folder.join("a")) {
            Source::Cache => Watch::new(folder.clone()),
            Source::Record | Source::Plugin => Watch::of_renamed(folder.clone()),
        });
    let watches: Vec<Watch> = watches.collect();
    let thread = thread::Builder::new().name("locator".into());
    let run = move || {
        if let Err(why) = run(locator, &folders, watches, &statuses, &events) {
            tracing::error!("attachments are not watched any more: {why}");
            let _ = events.send(Event::Stop);
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(
    mut locator: Locator,
    folders: &[PathBuf],
    mut watches: Vec<Watch>,
    statuses: &Statuses,
    events: &Sender<Event>,
) -> Result<()> {
    let mut batch = locator.look();
    let mut said = Said::default();
    let mut rescans = 0_u32;
    loop {
        statuses.send_if_modified(|known| {
            let found = statuses_of(&locator);
            let is_new = *known != found;
            *known = found;
            is_new
        });
        batch.problems.extend(watch::deafness(&watches));
        if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
            return Ok(());
        }
        let heard = watch::wait(&mut watches, RESCAN)?;
        // Before the look: what comes after it is heard of.
        let mut is_moved = false;
        for watch in &mut watches {
            is_moved |= watch.aim();
        }
        if heard.is_empty() {
            rescans += 1;
            batch = match rescans % THOROUGH {
                0 => locator.look(),
                _ => locator.look_over(),
            };
        } else if is_moved || heard.values().any(|heard| heard.everything) {
            batch = locator.look();
        } else {
            let paths = heard.iter().flat_map(|(index, heard)| {
                let folder = folders.get(*index).into_iter();
                folder.flat_map(|folder| heard.files.iter().map(|name| folder.join(name)))
            });
            locator.look_at(paths);
            batch = locator.batch();
        }
    }
}

/// The annotations `network-status` by records. Of several sandboxes of a pod, the youngest counts.
pub(super) fn statuses_of(locator: &Locator) -> StatusAnnotations {
    let mut youngest: BTreeMap<&PodName, (Age, &StatusAnnotation)> = BTreeMap::new();
    for file in locator.files.values() {
        if let Some((pod, status)) = &file.status {
            let known = youngest.entry(pod).or_insert((file.age, status));
            if known.0 < file.age {
                *known = (file.age, status);
            }
        }
    }
    let all = youngest.into_iter();
    all.map(|(pod, (_, status))| (pod.clone(), status.clone()))
        .collect()
}
