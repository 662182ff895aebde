//! The CRD of a kind that the API server does not serve.
//!
//! While a kind is missing, the metadata of its CRD is watched by name, which costs no request but the renewal
//! of the watch. The kind is listed again when its CRD appears or changes:
//!
//! ```text
//!              ┌── CRD watched ──► Absent ◄──► Present ── list, less and less often ──► kind served
//!   Unknown ───┤
//!              └── 403 ──────────► Forbidden ── list every five to ten minutes ──► kind served
//! ```

use std::mem;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use netqos_core::with_causes;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep_until};

use super::bounded::bounded;
use super::{Listing, WatchLimits, refusal};
use crate::Kind;
use crate::random::between;

/// The longest time from a change of the CRD to the first list. Thousands of clients see the same change.
const SPREAD: Duration = Duration::from_secs(2);
/// The first pause between lists once the CRD exists; it doubles each time.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two reports that the kind is missing.
const REPEAT: Duration = Duration::from_secs(30);
/// A time that is not waited for.
const FAR: Duration = Duration::from_secs(86_400);

type Crd = PartialObjectMeta<CustomResourceDefinition>;

/// A step of waiting for a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CrdEvent {
    /// The server may serve the kind now: list it.
    List,
    /// The CRD is still absent.
    Absent,
    /// The CRD cannot be watched at present, for this reason.
    Unavailable(String),
}

/// The watch of a CRD while its kind is missing.
pub(super) struct CrdWatch {
    kind: Kind,
    client: Client,
    listing: Listing,
    limits: WatchLimits,
    events: BoxStream<'static, watcher::Result<Event<Crd>>>,
    /// A message for each request that succeeded.
    answers: UnboundedReceiver<()>,
    state: State,
    /// The time at which something is to be done in this state.
    due: Instant,
    /// The number of lists since the CRD changed.
    attempts: u32,
    /// The list in progress has the CRD.
    is_listed: bool,
    /// The last request failed.
    is_unavailable: bool,
    has_warned: bool,
}

/// The last known state of the CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Absent,
    Present,
    /// The CRD may not be watched.
    Forbidden,
}

impl CrdWatch {
    /// Begins to watch the CRD of a kind.
    pub(super) fn new(client: Client, kind: Kind, listing: Listing, limits: WatchLimits) -> Self {
        let mut watch = Self {
            kind,
            client,
            listing,
            limits,
            events: stream::pending().boxed(),
            answers: mpsc::unbounded_channel().1,
            state: State::Unknown,
            due: Instant::now() + FAR,
            attempts: 0,
            is_listed: false,
            is_unavailable: false,
            has_warned: false,
        };
        watch.start();
        watch
    }

    fn start(&mut self) {
        let (client, answers) = bounded(&self.client, self.limits);
        let crds: Api<Crd> = Api::all(client);
        let fields = format!("metadata.name={}", self.kind.crd_name());
        let config = self.listing.config(None, Some(fields));
        self.events = watcher::watcher(crds, config).default_backoff().boxed();
        self.answers = answers;
        self.enter(State::Unknown, FAR);
    }

    fn enter(&mut self, state: State, pause: Duration) {
        self.state = state;
        self.due = Instant::now() + pause;
    }

    /// The next step. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> CrdEvent {
        loop {
            let step = tokio::select! {
                biased;
                Some(()) = self.answers.recv() => self.answered(),
                Some(event) = self.events.next() => self.handle(event),
                () = sleep_until(self.due) => self.elapsed(),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// The server answers: an earlier failure is over.
    fn answered(&mut self) -> Option<CrdEvent> {
        let is_over = self.state == State::Absent && mem::take(&mut self.is_unavailable);
        is_over.then_some(CrdEvent::Absent)
    }

    fn handle(&mut self, event: watcher::Result<Event<Crd>>) -> Option<CrdEvent> {
        match event {
            Ok(Event::Init) => self.is_listed = false,
            Ok(Event::InitApply(_)) => {
                self.is_listed = true;
                self.present();
            }
            Ok(Event::Apply(_)) => self.present(),
            Ok(Event::InitDone) if self.is_listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                self.enter(State::Absent, REPEAT);
                return self.answered();
            }
            Err(error) => return self.failed(&error),
        }
        None
    }

    /// The CRD exists, or has changed: a moment later the server serves what it says.
    fn present(&mut self) {
        self.attempts = 0;
        self.is_unavailable = false;
        self.enter(State::Present, between(Duration::ZERO, SPREAD));
    }

    fn failed(&mut self, error: &watcher::Error) -> Option<CrdEvent> {
        match refusal(error) {
            // The CRD is listed again by itself.
            Some(status) if status.code == 410 => None,
            Some(status) if [403, 404].contains(&status.code) => {
                if !mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(
                        kind = %self.kind,
                        crd = self.kind.crd_name(),
                        error = status.message,
                        "cannot watch a CRD, so that its kind is polled; give the ClusterRole list and watch \
                         for customresourcedefinitions of this name"
                    );
                }
                self.events = stream::pending().boxed();
                self.is_unavailable = false;
                self.enter(State::Forbidden, self.limits.next_poll());
                None
            }
            Some(status) => Some(self.unavailable(format!("{}: {}", status.code, status.message))),
            None => Some(self.unavailable(with_causes(error))),
        }
    }

    fn unavailable(&mut self, why: String) -> CrdEvent {
        self.is_unavailable = true;
        CrdEvent::Unavailable(why)
    }

    fn elapsed(&mut self) -> Option<CrdEvent> {
        match self.state {
            State::Unknown => {
                self.enter(State::Unknown, FAR);
                None
            }
            State::Absent => {
                self.enter(State::Absent, REPEAT);
                (!self.is_unavailable).then_some(CrdEvent::Absent)
            }
            State::Present => {
                let (_, most) = self.limits.poll;
                let pause = RETRY.saturating_mul(1 << self.attempts.min(16)).min(most);
                self.attempts += 1;
                self.enter(State::Present, between(pause / 2, pause));
                Some(CrdEvent::List)
            }
            State::Forbidden => {
                // The role may have changed.
                self.start();
                Some(CrdEvent::List)
            }
        }
    }
}
