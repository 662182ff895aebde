//! Leadership of a replica: an instant until which it leads.
//!
//! A process may be stopped for longer than its Lease lasts, at any instruction, and cannot be notified before it
//! goes on. Therefore leadership is an instant that the replica knows in advance, and each write compares the
//! clock with it: [`Leadership::fence`]. Notifications only say when to begin and when to stop trying.
//!
//! The instant is the time *before* the request that renewed the Lease was sent, plus [`Pace::renew`]
//! (see [`Pace`](crate::Pace)): other replicas see the Lease change later than that, and wait longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch::{self, error::RecvError};

/// A reading of `CLOCK_BOOTTIME` in nanoseconds. Unlike tokio's clock it advances while the machine is suspended;
/// unlike the wall clock it does not jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootTime(u64);

impl BootTime {
    /// Returns the time now.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or_default();
        Self(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    }

    fn plus(self, more: Duration) -> Self {
        let more = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(more))
    }
}

/// The leadership of this replica; clones share it.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: Instant,
    announced: watch::Receiver<bool>,
}

/// The election's end of a [`Leadership`].
#[derive(Debug)]
pub(crate) struct Term {
    until: Instant,
    announced: watch::Sender<bool>,
}

/// The instant until which a replica leads, in nanoseconds of [`BootTime`]; 0: it does not lead.
#[derive(Clone, Debug, Default)]
struct Instant(Arc<AtomicU64>);

/// The effect of a renewal of the Lease on a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The replica leads from now on.
    Began,
    /// It goes on leading.
    Continued,
    /// The answer came after the instant that it was for: the replica does not lead.
    TooLate,
}

impl Instant {
    fn set(&self, to: BootTime) {
        self.0.store(to.0, Ordering::SeqCst);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// The time until then; `None`: it has passed.
    fn left(&self) -> Option<Duration> {
        let until = self.0.load(Ordering::SeqCst);
        let left = until.checked_sub(BootTime::now().0).filter(|it| *it > 0);
        left.map(Duration::from_nanos)
    }
}

impl Leadership {
    /// Returns a leadership that has not begun, and the end by which the election changes it.
    pub(crate) fn new() -> (Term, Self) {
        let (sender, announced) = watch::channel(false);
        let until = Instant::default();
        let term = Term {
            until: until.clone(),
            announced: sender,
        };
        (term, Self { until, announced })
    }

    /// Returns true if this replica leads at this moment.
    pub fn holds(&self) -> bool {
        self.until.left().is_some()
    }

    /// Returns a client that writes only while this replica leads; other errors than
    /// [`NotLeading`](netqos_cluster::NotLeading) are those of `client`.
    pub fn fence(&self, client: Client) -> Client {
        let until = self.until.clone();
        netqos_cluster::fence(client, move || until.left().is_some())
    }

    /// Waits for a beginning or an end, and returns true if it is a beginning. What was refused before a beginning
    /// is to be looked at again.
    ///
    /// # Errors
    /// Returns an error if the election has ended.
    pub async fn changed(&mut self) -> Result<bool, RecvError> {
        self.announced.changed().await?;
        Ok(*self.announced.borrow_and_update())
    }

    /// Waits until this replica leads. Returns false if it never will, since the election has ended.
    pub async fn began(&mut self) -> bool {
        self.announced.wait_for(|leads| *leads).await.is_ok()
    }

    /// Waits until this replica leads no longer.
    pub async fn ended(&mut self) {
        // Without an election it does not lead.
        let _ = self.announced.wait_for(|leads| !*leads).await;
    }
}

impl Term {
    /// Returns true if the replica leads as far as was announced: the instant may have passed.
    pub(crate) fn is_announced(&self) -> bool {
        *self.announced.borrow()
    }

    /// The time for which the replica still leads; `None`: it does not.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.left()
    }

    /// Takes note that the Lease was renewed by a request that was sent at `sent`, and is good for `renew`.
    pub(crate) fn renew(&self, sent: BootTime, renew: Duration) -> Renewal {
        let continues = self.is_announced() && self.left().is_some();
        self.until.set(sent.plus(renew));
        if self.left().is_none() {
            self.until.clear();
            return Renewal::TooLate;
        }
        if continues {
            return Renewal::Continued;
        }
        // Also if it was announced before: writes may have been refused meanwhile.
        self.announced.send_replace(true);
        Renewal::Began
    }

    /// Ends the term at once.
    pub(crate) fn end(&self) {
        self.until.clear();
        self.announced.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEW: Duration = Duration::from_secs(7);

    fn ago(by: Duration) -> BootTime {
        let by = u64::try_from(by.as_nanos()).unwrap();
        BootTime(BootTime::now().0 - by)
    }

    #[test]
    fn leadership_lasts_from_the_request_not_from_its_answer() {
        let (term, leadership) = Leadership::new();
        assert!(!leadership.holds());
        let sent = ago(Duration::from_secs(2));
        assert_eq!(term.renew(sent, RENEW), Renewal::Began);
        assert!(leadership.holds());
        let left = term.left().unwrap();
        assert!(left <= Duration::from_secs(5), "{left:?}");
    }

    /// The process was stopped between the request and its answer.
    #[test]
    fn leadership_answer_after_its_instant_does_not_lead() {
        let (term, leadership) = Leadership::new();
        assert_eq!(term.renew(ago(RENEW), RENEW), Renewal::TooLate);
        assert!(!leadership.holds());
        assert!(!term.is_announced());
        // Neither does the rest of a term before.
        assert_eq!(term.renew(BootTime::now(), RENEW), Renewal::Began);
        assert_eq!(term.renew(ago(RENEW), RENEW), Renewal::TooLate);
        assert!(!leadership.holds());
    }

    #[test]
    fn leadership_renewed_after_a_lapse_begins_again() {
        let (term, mut leadership) = Leadership::new();
        assert_eq!(term.renew(BootTime::now(), RENEW), Renewal::Began);
        assert!(leadership.announced.has_changed().unwrap());
        leadership.announced.mark_unchanged();
        assert_eq!(term.renew(BootTime::now(), RENEW), Renewal::Continued);
        assert!(!leadership.announced.has_changed().unwrap());
        // Its instant passes, which nothing announces.
        term.until.set(ago(Duration::from_secs(1)));
        assert!(!leadership.holds());
        assert_eq!(term.renew(BootTime::now(), RENEW), Renewal::Began);
        assert!(leadership.announced.has_changed().unwrap());
    }

    #[test]
    fn leadership_ended_does_not_hold_and_is_announced() {
        let (term, leadership) = Leadership::new();
        term.renew(BootTime::now(), RENEW);
        term.end();
        assert!(!leadership.holds());
        assert!(!term.is_announced());
        assert_eq!(term.left(), None);
    }
}
