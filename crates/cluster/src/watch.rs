//! A watch of some objects.

mod bounded;
mod crd;
mod limits;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::mem;
use std::pin::pin;
use std::task::Poll;

use futures_util::stream::{self, Stream, StreamExt as _};
use kube::core::Status;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use netqos_core::{ObjectName, with_causes};
use serde_json::Value;
use tokio::sync::mpsc::{self, Sender};

use crate::{Kind, Raw};
use bounded::bounded;
use crd::{CrdEvent, CrdWatch};
pub use limits::WatchLimits;

/// The number of events that may wait to be taken.
const EVENTS: usize = 16;

/// Which objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// Of which kind.
    pub kind: Kind,
    /// In which namespace; `None`: in all of them.
    pub namespace: Option<String>,
    /// A label selector in Kubernetes' syntax.
    pub labels: Option<String>,
    /// A field selector, of fields by which the server can select.
    pub fields: Option<String>,
}

/// How a server is asked for all of them, before they are watched, and again where it does not know any
/// more what was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// As its watch cache has them (`resourceVersion=0`): in one answer, since the cache knows no pages.
    /// For many who ask for little each: thousands of agents that ask at once must not reach its
    /// database.
    Cached,
    /// As they are, page by page: of a large cluster only a page is held as it came. For few who ask for
    /// much. Servers before 1.31 read them from their database for that.
    Paged,
}

/// What is told of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Told<T> {
    /// All that there are, in place of what was told before.
    All(BTreeMap<ObjectName, T>),
    /// One is there, new or changed.
    There(ObjectName, T),
    /// One is gone.
    Gone(ObjectName),
    /// The server does not know the kind: there are none, until it does. Repeated every half a minute.
    Unknown,
    /// The server does not answer, or not so. What was told before still counts.
    Silent(String),
    /// The server answers. After silence that means that nothing was missed, or that it is on its
    /// way.
    Answers,
}

impl Selection {
    /// All objects of a kind.
    pub const fn all(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            labels: None,
            fields: None,
        }
    }

    /// Those in one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Those of which a label has any of these values.
    #[must_use]
    pub fn with_label_in<V: fmt::Display>(
        mut self,
        label: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values: Vec<String> = values.into_iter().map(|it| it.to_string()).collect();
        self.labels = Some(format!("{label} in ({})", values.join(",")));
        self
    }

    /// Those of which a field has this value.
    #[must_use]
    pub fn with_field(mut self, field: &str, value: &str) -> Self {
        self.fields = Some(format!("{field}={value}"));
        self
    }
}

impl Listing {
    fn config(self, labels: Option<String>, fields: Option<String>) -> watcher::Config {
        let all = watcher::Config {
            label_selector: labels,
            field_selector: fields,
            // Stated for each request, which is also bounded: see `bounded`.
            timeout: Some(0),
            ..watcher::Config::default()
        };
        match self {
            // With pages, the client would not ask for any state.
            Self::Cached => watcher::Config {
                page_size: None,
                ..all.any_semantic()
            },
            Self::Paged => all,
        }
    }
}

/// Watches these objects, each made into what `read` makes of it as soon as it comes: what an answer
/// holds is held as it came no longer than that. It never ends.
pub fn watch<T, F>(
    client: Client,
    selection: &Selection,
    listing: Listing,
    read: F,
) -> impl Stream<Item = Told<T>> + use<T, F>
where
    F: FnMut(&ObjectName, Value) -> T,
{
    watch_within(WatchLimits::default(), client, selection, listing, read)
}

/// Watches as [`watch`] does, with these limits.
pub fn watch_within<T, F>(
    limits: WatchLimits,
    client: Client,
    selection: &Selection,
    listing: Listing,
    read: F,
) -> impl Stream<Item = Told<T>> + use<T, F>
where
    F: FnMut(&ObjectName, Value) -> T,
{
    let (bounded, mut answers) = bounded(&client, limits);
    let (out, mut events) = mpsc::channel(EVENTS);
    let watch = Watch {
        client,
        bounded,
        selection: selection.clone(),
        listing,
        limits,
        out,
    };
    let mut work = Box::pin(watch.run(read));
    stream::poll_fn(move |context| {
        if let Poll::Ready(Some(())) = answers.poll_recv(context) {
            return Poll::Ready(Some(Told::Answers));
        }
        // First what produces events: those that come together are taken together.
        let Poll::Pending = work.as_mut().poll(context);
        events.poll_recv(context)
    })
}

/// The parts of a watch.
struct Watch<T> {
    client: Client,
    /// The same, for requests about the objects.
    bounded: Client,
    selection: Selection,
    listing: Listing,
    limits: WatchLimits,
    out: Sender<Told<T>>,
}

impl<T> Watch<T> {
    /// Lists and watches the objects. While the server does not know their kind, watches its CRD instead.
    async fn run(self, mut read: impl FnMut(&ObjectName, Value) -> T) -> Infallible {
        let kind = self.selection.kind;
        let mut crd = None;
        loop {
            self.follow(&mut crd, &mut read).await;
            self.send(Told::Unknown).await;
            let crd = crd.get_or_insert_with(|| {
                CrdWatch::new(self.client.clone(), kind, self.listing, self.limits)
            });
            loop {
                match crd.next().await {
                    CrdEvent::List => break,
                    CrdEvent::Absent => self.send(Told::Unknown).await,
                    CrdEvent::Unavailable(why) => self.send(Told::Silent(why)).await,
                }
            }
        }
    }

    /// Lists and watches the objects until the server does not know their kind. Drops the watch of the CRD when
    /// it does.
    async fn follow(
        &self,
        crd: &mut Option<CrdWatch>,
        mut read: impl FnMut(&ObjectName, Value) -> T,
    ) {
        let Selection {
            kind,
            namespace,
            labels,
            fields,
        } = &self.selection;
        let client = self.bounded.clone();
        let api: Api<Raw> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, kind),
            None => Api::all_with(client, kind),
        };
        let config = self.listing.config(labels.clone(), fields.clone());
        let events = watcher::watcher(api, config);
        // That it begins to ask is no answer: counted as one, nothing would ever be waited for longer
        // than the first time.
        let answered = events.filter(|event| ready(!matches!(event, Ok(Event::Init))));
        let mut events = pin!(answered.default_backoff());
        let mut listed = BTreeMap::new();
        let mut one = |raw: Raw| {
            let name = raw.name();
            let read = read(&name, raw.into_value(*kind));
            (name, read)
        };
        while let Some(event) = events.next().await {
            let told = match event {
                Ok(Event::Init) => None,
                Ok(Event::InitApply(raw)) => {
                    listed.extend([one(raw)]);
                    None
                }
                Ok(Event::InitDone) => {
                    *crd = None;
                    Some(Told::All(mem::take(&mut listed)))
                }
                Ok(Event::Apply(raw)) => {
                    let (name, read) = one(raw);
                    Some(Told::There(name, read))
                }
                Ok(Event::Delete(raw)) => Some(Told::Gone(raw.name())),
                Err(why) => {
                    if !kind.is_builtin() && refusal(&why).is_some_and(|it| it.code == 404) {
                        return;
                    }
                    // What there was of a list is none.
                    listed.clear();
                    failed(*kind, &why)
                }
            };
            if let Some(told) = told {
                self.send(told).await;
            }
        }
    }

    async fn send(&self, told: Told<T>) {
        // Fails only once the stream is dropped, and this future with it.
        let _ = self.out.send(told).await;
    }
}

/// The status by which the server refused a request.
fn refusal(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// `None`: it goes on by itself, with everything said again.
fn failed<T>(kind: Kind, why: &watcher::Error) -> Option<Told<T>> {
    let Some(status) = refusal(why) else {
        return Some(Told::Silent(with_causes(why)));
    };
    match status.code {
        410 => None,
        403 => Some(Told::Silent(format!(
            "it may not list and watch {}: give its ClusterRole the verbs list and watch for them \
             ({})",
            kind.plural(),
            status.message
        ))),
        code => Some(Told::Silent(format!("{code}: {}", status.message))),
    }
}
