//! The cluster's thread.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use netqos_cluster::Client;
use tokio::time::{Instant, sleep_until};

use super::leader::Leader;
use super::source::Source;
use super::watches::Watches;
use super::{ClusterOptions, SOURCE};
use crate::event::{Event, Said};
use crate::multinet::write_statuses;
use crate::{Error, Result, node_report};

/// How long the server may take to tell everything before what was seen last counts.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long what was seen is only in memory.
const SAVE_AFTER: Duration = Duration::from_secs(5);
/// How much that comes together is one batch.
const MOST: usize = 1_000;

/// Sends what the cluster says, from now on, until nobody listens.
///
/// # Errors
/// Nothing says where its API server is, or with what to prove who one is. A server that does not
/// answer is none: it is waited for.
pub fn spawn(options: ClusterOptions, events: Sender<Event>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Thread)?;
    let client = runtime.block_on(options.connect.client())?;
    let thread = thread::Builder::new().name("cluster".into());
    let run = move || {
        runtime.block_on(async {
            // It ends by itself when nobody reports any more.
            if let Some(reports) = options.reports.clone() {
                tokio::spawn(node_report::write(
                    client.clone(),
                    reports,
                    options.report_refresh,
                ));
            }
            options.networks.confirm_with(client.clone());
            if let Some(statuses) = options.statuses.clone() {
                tokio::spawn(write_statuses(
                    client.clone(),
                    statuses,
                    options.networks.clone(),
                ));
            }
            run(&options, client, &events).await;
        });
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

async fn run(options: &ClusterOptions, client: Client, events: &Sender<Event>) {
    let mut leader = Leader::new(client.clone(), &options.controller);
    let watches = Watches::new(client, options.homes.clone());
    let mut source = Source::new(options, watches);
    let mut said = Said::default();
    let mut patience = Some(Instant::now() + PATIENCE);
    let mut save_at: Option<Instant> = None;
    loop {
        let far = Instant::now() + Duration::from_secs(3600);
        let due = source.due().map(Instant::from_std);
        let ask = source
            .waits()
            .map(|since| Instant::from_std(leader.due(since)));
        tokio::select! {
            Some((selection, told)) = source.watches.next() => {
                source.hear(&selection, told);
                for _ in 0..MOST {
                    let Some(Some((selection, told))) = source.watches.next().now_or_never() else {
                        break;
                    };
                    source.hear(&selection, told);
                }
                source.advance(Instant::now().into_std());
            }
            () = sleep_until(patience.unwrap_or(far)), if patience.is_some() => {
                patience = Some(Instant::now() + PATIENCE);
                source.remember();
            }
            () = sleep_until(due.unwrap_or(far)), if due.is_some() => source.advance(Instant::now().into_std()),
            () = sleep_until(ask.unwrap_or(far)), if ask.is_some() => {
                leader.ask();
                continue;
            }
            Some(said) = leader.answer() => source.tell_of_leader(said),
            () = sleep_until(save_at.unwrap_or(far)), if save_at.is_some() => {
                save_at = None;
                if let Err(why) = source.save() {
                    tracing::warn!("what the cluster says cannot be written down for after a reboot: {why}");
                    save_at = Some(Instant::now() + 12 * SAVE_AFTER);
                }
                continue;
            }
        }
        if source.is_known() {
            patience = None;
        }
        let event = if patience.is_none() || said.anything() {
            let batch = source.batch();
            if source.is_to_be_saved() {
                save_at = save_at.or(Some(Instant::now() + SAVE_AFTER));
            }
            if !said.is_news(&batch) {
                continue;
            }
            Event::Batch(batch)
        } else {
            Event::Waiting {
                source: SOURCE,
                why: source.waiting(),
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}
