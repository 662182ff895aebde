//! The thread that hears of links, of what is at them, and of default routes, by which the engine knows at
//! once that a line is another link than before, gone or new, and that somebody took away or changed what
//! enforces a limit.
//!
//! Who listens to links hears of every pod that comes, twice. What comes together is told together, and
//! the engine only looks which of it is of a line.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use netqos_netlink::Listener;

use crate::event::Event;
use crate::{Error, Result};

/// How long what comes with something else is waited for.
const GATHERING: Duration = Duration::from_millis(50);

/// Sends what becomes of links, from now on, until nobody listens. Where that cannot be heard, lines are
/// still looked at from time to time.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(events: Sender<Event>) -> Result<()> {
    let thread = thread::Builder::new().name("links".into());
    let run = move || {
        if let Err(why) = run(&events) {
            tracing::warn!(
                "links are not heard of any more, and looked at from time to time: {why}"
            );
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

fn run(events: &Sender<Event>) -> netqos_netlink::Result<()> {
    let mut listener = Listener::open()?;
    while events.send(Event::Links(listener.wait(GATHERING)?)).is_ok() {}
    Ok(())
}
