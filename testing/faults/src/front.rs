//! A server before another one, which passes on what it is asked, and has faults on demand: those of a
//! real server.

mod forgotten;
mod watch;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING,
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kube::Client;
use kube::config::AuthInfo;
use tokio::sync::OnceCell;
use tokio::sync::watch::Sender;

use crate::body::{Body, Broken};
use crate::call::Call;
use crate::faults::{Fault, Faults};
use crate::faulty::{Faulty, meet};
use crate::listening::Listening;
use crate::locked;
use crate::record::{Record, Request};
use crate::status::{Refusal, respond};
use forgotten::Forgotten;

/// A server before another one. It ends with this value.
///
/// It listens on the loopback of the network namespace of the thread that starts it, without TLS, and
/// knows its clients by their tokens. To the server behind it each is an administrator, or has a token of its
/// own: see [`identify`](Self::identify).
pub struct Front {
    shared: Arc<Shared>,
    listening: Listening,
}

struct Shared {
    config: kube::Config,
    /// Made where it is used: it works in the runtime that it is made in.
    upstream: OnceCell<Client>,
    /// A client without credentials, for those of `identities`.
    anonymous: OnceCell<Client>,
    /// What a client's token is behind here, as the header has it.
    identities: Mutex<HashMap<String, HeaderValue>>,
    faults: Faults,
    /// What the clients of watches are told.
    interruption: Sender<Interruption>,
    forgotten: Forgotten,
    /// Replacements in lists and events: text, substitute.
    rewritten: Mutex<Vec<(String, String)>>,
    record: Record,
}

/// How often watches were interrupted, in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Interruption {
    /// The connection is closed without an end.
    broken: u64,
    /// The answer ends as it should.
    ended: u64,
    /// It is said that versions up to here are forgotten.
    expired: u64,
    /// Nothing more is sent, and the connection stays open.
    silenced: u64,
    /// Watches are sent a bookmark with the version of the last one.
    bookmarks: u64,
    bookmark_version: u64,
}

impl Front {
    /// One before the server that this reaches, in whose name all is asked that comes by here.
    ///
    /// # Errors
    /// There is no loopback, or no thread can be made.
    pub(crate) fn before(config: kube::Config) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            config,
            upstream: OnceCell::new(),
            anonymous: OnceCell::new(),
            identities: Mutex::default(),
            faults: Faults::default(),
            interruption: Sender::default(),
            forgotten: Forgotten::default(),
            rewritten: Mutex::default(),
            record: Record::default(),
        });
        let of_answers = shared.clone();
        let listening = Listening::start(move |request| answer(of_answers.clone(), request))?;
        Ok(Self { shared, listening })
    }

    /// A kubeconfig, for a client of this name.
    pub fn kubeconfig(&self, client: &str) -> String {
        self.listening.kubeconfig(client)
    }

    /// Passes requests of this client on with a token of its own from now on.
    ///
    /// # Errors
    /// Returns an error if the token cannot be in a header.
    pub fn identify(&self, client: &str, token: &str) -> anyhow::Result<()> {
        let header = HeaderValue::try_from(format!("Bearer {token}")).context("a token")?;
        locked(&self.shared.identities).insert(client.to_owned(), header);
        Ok(())
    }

    /// Every request since the start, or since [`forget_requests`](Self::forget_requests), in the order in
    /// which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.record.requests()
    }

    /// Begins a new record. Watches that are open are not in it.
    pub fn forget_requests(&self) {
        self.shared.record.clear();
    }

    /// Makes something go wrong from now on.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.inject(fault);
    }

    /// Ends all faults that were injected.
    pub fn heal(&self) {
        self.shared.faults.clear();
    }

    /// Closes the port and every connection: the server is away.
    ///
    /// # Errors
    /// It is not running any more.
    pub fn go_away(&self) -> io::Result<()> {
        self.listening.go_away()
    }

    /// Listens again, on the same port.
    ///
    /// # Errors
    /// Somebody else took the port, or it is not running any more.
    pub fn come_back(&self) -> io::Result<()> {
        self.listening.come_back()
    }

    /// Breaks the connection of every watch that is open.
    pub fn break_watches(&self) {
        self.interrupt(|it| it.broken += 1);
    }

    /// Sends nothing more on the connection of every open watch, and keeps it open: its kernel acknowledges
    /// whatever comes, as that of a proxy before a dead server does.
    pub fn silence_watches(&self) {
        self.interrupt(|it| it.silenced += 1);
    }

    /// Ends every watch that is open, as a server does after a while.
    pub fn end_watches(&self) {
        self.interrupt(|it| it.ended += 1);
    }

    /// Sends a bookmark with this version to every open watch, as a server does about once a minute. Events up to this
    /// version have to be delivered by then.
    pub fn bookmark(&self, version: u64) {
        self.interrupt(|it| {
            it.bookmarks += 1;
            it.bookmark_version = version;
        });
    }

    /// Replaces a text wherever a list, or an event of a watch, has it from now on: no server stores an object that is
    /// against its schema.
    pub fn rewrite(&self, text: &str, by: &str) {
        let replacement = (text.to_owned(), by.to_owned());
        locked(&self.shared.rewritten).push(replacement);
    }

    /// Has it that the server has forgotten all that happened: a watch from a version that a client knows,
    /// and further pages of lists, are 410. Watches that are open are told so, and end.
    pub fn expire_versions(&self) {
        self.shared.forgotten.forget();
        self.interrupt(|it| it.expired += 1);
    }

    fn interrupt(&self, how: impl FnOnce(&mut Interruption)) {
        self.shared.interruption.send_modify(how);
    }
}

impl Shared {
    async fn upstream(&self) -> kube::Result<&Client> {
        let make = async || Client::try_from(self.config.clone());
        self.upstream.get_or_try_init(make).await
    }

    async fn anonymous(&self) -> kube::Result<&Client> {
        let make = async || {
            let mut config = self.config.clone();
            config.auth_info = AuthInfo::default();
            Client::try_from(config)
        };
        self.anonymous.get_or_try_init(make).await
    }

    fn identity(&self, client: &str) -> Option<HeaderValue> {
        locked(&self.identities).get(client).cloned()
    }

    /// Whole lists or events, as [`Front::rewrite`] has them.
    fn rewrite(&self, whole: Bytes) -> Bytes {
        let rewritten = locked(&self.rewritten);
        match (rewritten.is_empty(), str::from_utf8(&whole)) {
            (false, Ok(text)) => {
                let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
                rewritten.iter().fold(text.to_owned(), replace).into()
            }
            _ => whole,
        }
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let call = Call::new(&parts);
    let entry = shared.record.begin(&call);
    // From here on: who has an answer has a watch that hears.
    let mut interruptions = shared.interruption.subscribe();
    let known = *interruptions.borrow_and_update();
    let mut faulty: Faulty = meet(&shared.faults, &call).await?;
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let is_watch = call.verb() == "watch";
    let refusal = match faulty.refusal.take() {
        None if shared.forgotten.is_page(&call) => Some(Refusal::expired("the list is too old")),
        other => other,
    };
    let mut response = match refusal {
        Some(refusal) => refusal.respond(&entry),
        None if is_watch && shared.forgotten.is_watch(&call) => {
            respond(200, watch::expired(), &entry)
        }
        None => {
            let body = kube::client::Body::from(body.to_vec());
            let mut request = http::Request::from_parts(parts, body);
            // Of this connection, and not of the next. What is compressed could not be rewritten.
            for name in [ACCEPT_ENCODING, HOST, CONNECTION, TRANSFER_ENCODING] {
                request.headers_mut().remove(name);
            }
            let identity = shared.identity(&call.client);
            let upstream = match &identity {
                Some(_) => shared.anonymous().await,
                None => shared.upstream().await,
            };
            let upstream = upstream.map_err(|_| Broken)?;
            match identity {
                Some(identity) => request.headers_mut().insert(AUTHORIZATION, identity),
                None => request.headers_mut().remove(AUTHORIZATION),
            };
            let answer = upstream.send(request).await.map_err(|_| Broken)?;
            let (mut head, body) = answer.into_parts();
            for name in [CONNECTION, TRANSFER_ENCODING] {
                head.headers.remove(name);
            }
            let body = match is_watch && head.status.is_success() {
                true => watch::pass(shared.clone(), body, interruptions, known, entry.clone()),
                false => {
                    let mut bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
                    if call.verb() == "list" {
                        bytes = shared.rewrite(bytes);
                        // hyper sets the length of the rewritten body.
                        head.headers.remove(CONTENT_LENGTH);
                    }
                    entry.sent(bytes.len());
                    Body::from(bytes)
                }
            };
            if call.verb() == "list" && head.status.is_success() {
                shared.forgotten.listed(&call);
            }
            entry.answered(head.status.as_u16());
            http::Response::from_parts(head, body)
        }
    };
    faulty.date(&mut response);
    Ok(response)
}
