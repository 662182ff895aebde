//! The thread that looks for pods by their cgroups.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::listen::{Ears, Heard};
use super::sandboxes::{Found, Sandboxes};
use super::{CgroupOptions, SOURCE};
use crate::event::{Batch, Event, Said};
use crate::{Error, Result};

/// How often all is looked at although nothing was heard.
const RESCAN: Duration = Duration::from_secs(15);

/// Sends where pods are, from now on, until nobody listens.
///
/// # Errors
/// The thread cannot be started. That there are no cgroups of pods is none: they may come.
pub fn spawn(options: CgroupOptions, events: Sender<Event>) -> Result<()> {
    let ears = Ears::new();
    let thread = thread::Builder::new().name("cgroups".into());
    let run = move || {
        if let Err(why) = run(&options, ears, &events) {
            tracing::error!("cgroups are not watched any more: {why}");
            let _ = events.send(Event::Stop);
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(options: &CgroupOptions, mut ears: Ears, events: &Sender<Event>) -> Result<()> {
    let mut sandboxes = Sandboxes::new(options);
    sandboxes.put(&ears.find(&options.root).pods);
    let mut found_before: Option<Found> = None;
    let mut folders_before = BTreeMap::new();
    let mut said = Said::default();
    loop {
        let found = sandboxes.found();
        if found_before.as_ref() != Some(&found) {
            if events.send(Event::InCgroups(found.clone())).is_err() {
                return Ok(());
            }
            found_before = Some(found);
        }
        let folders = sandboxes.folders();
        if folders_before != folders {
            if events.send(Event::Cgroups(folders.clone())).is_err() {
                return Ok(());
            }
            folders_before = folders;
        }
        // The first says that all was looked at.
        let batch = Batch::of_problem(SOURCE, ears.deafness(&options.root));
        if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
            return Ok(());
        }
        let due = sandboxes.due();
        let due = due.map(|at| at.saturating_duration_since(Instant::now()));
        let heard = ears.wait(due.map_or(RESCAN, |due| due.min(RESCAN)))?;
        let is_rescan = ears.are_deaf() || (due.is_none() && heard == Heard::default());
        if heard.tree || is_rescan {
            sandboxes.put(&ears.find(&options.root).pods);
        }
        match is_rescan {
            true => sandboxes.look(),
            false => sandboxes.hear(&heard.pods),
        }
        sandboxes.look_again();
    }
}
