//! What was asked of the server, by whom, and what was answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use crate::call::Call;
use crate::locked;

/// A request that was made.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it came.
    pub at: SystemTime,
    /// Who made it: the token, which is the name that [`Front::kubeconfig`](crate::Front::kubeconfig)
    /// was given, else the user agent without its version.
    pub client: String,
    /// As RBAC has it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`. Of what is not about objects the method in lower case.
    pub verb: &'static str,
    /// The path.
    pub path: String,
    /// Empty for the core group.
    pub group: String,
    /// The plural name. Empty when it was not about objects.
    pub resource: String,
    /// `status`, `eviction`, …; else empty.
    pub subresource: String,
    /// Where it was about one namespace.
    pub namespace: Option<String>,
    /// Where it was about one object.
    pub name: Option<String>,
    /// What it selected by.
    pub field_selector: Option<String>,
    /// What it selected by.
    pub label_selector: Option<String>,
    /// Which state it asked for; `None`: the most recent.
    pub resource_version: Option<String>,
    /// The time after which a watch is to end, in seconds (`timeoutSeconds`).
    pub timeout_seconds: Option<u64>,
    /// Whether it asked for bookmarks, too, as a watch may.
    pub takes_bookmarks: bool,
    /// Whether it asked for a further page of a list.
    pub is_continued: bool,
    /// What was answered. 0 while nothing was, or when the connection was closed instead.
    pub status: u16,
    /// Bytes of the body that were sent; of a watch, up to now.
    pub sent: u64,
    /// Events that a watch sent up to now, bookmarks among them.
    pub events: u64,
}

impl Request {
    /// `networkqoses.k8s.ovn.org/status`, `pods`: the resource as a rule of RBAC names it.
    pub fn qualified_resource(&self) -> String {
        let mut text = self.resource.clone();
        if !self.group.is_empty() {
            text = format!("{text}.{}", self.group);
        }
        if !self.subresource.is_empty() {
            text = format!("{text}/{}", self.subresource);
        }
        text
    }

    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb,
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }
}

/// All requests.
#[derive(Default)]
pub(crate) struct Record(Mutex<Vec<Arc<Entry>>>);

/// One of them, which may go on.
pub(crate) struct Entry {
    request: Mutex<Request>,
    sent: AtomicU64,
    events: AtomicU64,
}

impl Record {
    pub(crate) fn begin(&self, call: &Call) -> Arc<Entry> {
        let target = call.target.clone().unwrap_or_default();
        let parameter = |name: &str| call.query.get(name).map(str::to_owned);
        let request = Request {
            at: SystemTime::now(),
            client: call.client.clone(),
            verb: call.verb(),
            path: call.path.clone(),
            group: target.group,
            resource: target.plural,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace,
            name: target.name,
            field_selector: parameter("fieldSelector"),
            label_selector: parameter("labelSelector"),
            resource_version: parameter("resourceVersion"),
            timeout_seconds: call.query.number("timeoutSeconds"),
            takes_bookmarks: call.query.flag("allowWatchBookmarks"),
            is_continued: call.query.get("continue").is_some(),
            status: 0,
            sent: 0,
            events: 0,
        };
        let entry = Arc::new(Entry {
            request: Mutex::new(request),
            sent: AtomicU64::new(0),
            events: AtomicU64::new(0),
        });
        self.entries().push(entry.clone());
        entry
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.entries().iter().map(|entry| entry.request()).collect()
    }

    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        locked(&self.0)
    }
}

impl Entry {
    pub(crate) fn answered(&self, status: u16) {
        locked(&self.request).status = status;
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    fn request(&self) -> Request {
        Request {
            sent: self.sent.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            ..locked(&self.request).clone()
        }
    }
}
