//! A watch of some objects.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;

use futures_util::stream::{self, Stream, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use netqos_core::{ObjectName, with_causes};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{Kind, Raw};

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
    /// The server does not know the kind: there are none, until it does.
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

/// Watches these objects, each made into what `read` makes of it as soon as it comes: what an answer
/// holds is held as it came no longer than that. It never ends.
pub fn watch<T, F>(
    client: Client,
    selection: &Selection,
    listing: Listing,
    mut read: F,
) -> impl Stream<Item = Told<T>> + use<T, F>
where
    F: FnMut(&ObjectName, Value) -> T,
{
    let kind = selection.kind;
    let (client, answers) = hearing(client);
    let api: Api<Raw> = match &selection.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    let all = watcher::Config {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        ..watcher::Config::default()
    };
    let config = match listing {
        // With pages, the client would not ask for any state.
        Listing::Cached => watcher::Config {
            page_size: None,
            ..all.any_semantic()
        },
        Listing::Paged => all,
    };
    let mut listed = BTreeMap::new();
    let mut one = move |raw: Raw| {
        let name = raw.name();
        let read = read(&name, raw.into_value(kind));
        (name, read)
    };
    let events = watcher::watcher(api, config);
    // That it begins to ask is no answer: counted as one, nothing would ever be waited for longer
    // than the first time.
    let answered = events.filter(|event| ready(!matches!(event, Ok(Event::Init))));
    let told = answered.default_backoff().filter_map(move |event| {
        ready(match event {
            Ok(Event::Init) => None,
            Ok(Event::InitApply(raw)) => {
                listed.extend([one(raw)]);
                None
            }
            Ok(Event::InitDone) => Some(Told::All(std::mem::take(&mut listed))),
            Ok(Event::Apply(raw)) => {
                let (name, read) = one(raw);
                Some(Told::There(name, read))
            }
            Ok(Event::Delete(raw)) => Some(Told::Gone(raw.name())),
            Err(why) => {
                // What there was of a list is none.
                listed.clear();
                failed(kind, &why)
            }
        })
    });
    stream::select(answers.map(|()| Told::Answers), told)
}

/// A client by which one hears of every answer that is none of failure. A watch that goes on after
/// a failure says nothing by itself until something changes, which may be never.
fn hearing(client: Client) -> (Client, impl Stream<Item = ()>) {
    let (answered, mut answers) = mpsc::unbounded_channel();
    let namespace = client.default_namespace().to_owned();
    let send = tower::service_fn(move |request| {
        let (client, answered) = (client.clone(), answered.clone());
        async move {
            let response = client.send(request).await?;
            if response.status().is_success() {
                // Nobody may listen any more.
                let _ = answered.send(());
            }
            Ok::<_, kube::Error>(response)
        }
    });
    let heard = stream::poll_fn(move |context| answers.poll_recv(context));
    (Client::new(send, namespace), heard)
}

/// `None`: it goes on by itself, with everything said again.
fn failed<T>(kind: Kind, why: &watcher::Error) -> Option<Told<T>> {
    let status = match why {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        other => return Some(Told::Silent(with_causes(other))),
    };
    match status.code {
        404 if !kind.is_builtin() => Some(Told::Unknown),
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
