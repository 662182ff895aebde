//! A client that bounds the time of its requests.
//!
//! ```text
//!   watcher ──► request: timeoutSeconds ──► API server
//!      ▲                                        │
//!      └── body: ends if nothing comes ◄────────┘ answers within the limit
//! ```
//!
//! TCP notices a dead peer, but not a dead server behind a proxy or load balancer that keeps acknowledging.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use http_body::{Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::{BoxError, service_fn};

use super::WatchLimits;

/// Returns a client with these limits, and a message for each of its requests that succeeds. A watch that is
/// resumed after a failure yields no event until something changes, which may be never.
pub(super) fn bounded(client: &Client, limits: WatchLimits) -> (Client, UnboundedReceiver<()>) {
    let (answered, answers) = mpsc::unbounded_channel();
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let send = service_fn(move |mut request: Request<Body>| {
        let (client, answered) = (client.clone(), answered.clone());
        async move {
            let watch = with_timeout(request.uri(), limits.timeout_seconds());
            let is_watch = watch.is_some();
            if let Some(uri) = watch {
                *request.uri_mut() = uri;
            }
            let response = timeout(limits.answer, client.send(request)).await;
            let response = response.map_err(|_| no_answer(limits.answer))??;
            if response.status().is_success() {
                // The watch may have ended.
                let _ = answered.send(());
            }
            let longest = match is_watch {
                true => limits.silence,
                false => limits.answer,
            };
            let bounded = |body| BoundedBody::new(body, longest, is_watch);
            Ok::<_, kube::Error>(response.map(bounded))
        }
    });
    (Client::new(send, namespace), answers)
}

fn no_answer(within: Duration) -> kube::Error {
    kube::Error::Service(format!("no answer within {} s", within.as_secs()).into())
}

/// The address of a watch request with this timeout; `None` if the request is not a watch.
fn with_timeout(uri: &Uri, seconds: u64) -> Option<Uri> {
    let query = uri.query()?;
    let pairs = || query.split('&').filter(|pair| !pair.is_empty());
    if !pairs().any(|pair| pair == "watch=true") {
        return None;
    }
    let mut text = format!("{}?timeoutSeconds={seconds}", uri.path());
    for pair in pairs().filter(|pair| !pair.starts_with("timeoutSeconds=")) {
        text.push('&');
        text.push_str(pair);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

/// A response body that ends if nothing comes for too long. Its connection is closed then.
struct BoundedBody {
    body: Body,
    longest: Duration,
    timer: Pin<Box<Sleep>>,
    is_watch: bool,
}

impl BoundedBody {
    fn new(body: Body, longest: Duration, is_watch: bool) -> Self {
        Self {
            body,
            longest,
            timer: Box::pin(sleep(longest)),
            is_watch,
        }
    }

    /// A watch ends as if the server had ended it, and is renewed from where it was. Half a list is an error.
    fn end(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.body = Body::empty();
        let seconds = self.longest.as_secs();
        if self.is_watch {
            tracing::debug!(seconds, "ended a watch without event or bookmark");
            return None;
        }
        let text = format!("the answer broke off: no data within {seconds} s");
        Some(Err(io::Error::new(io::ErrorKind::TimedOut, text).into()))
    }
}

impl http_body::Body for BoundedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.timer.as_mut().reset(Instant::now() + this.longest);
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        match this.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(this.end()),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(uri: &str) -> Option<String> {
        let uri = with_timeout(&uri.parse().unwrap(), 1_800);
        uri.map(|uri| uri.to_string())
    }

    #[test]
    fn watch_request_has_the_stated_timeout_alone() {
        let path = "/api/v1/namespaces/a/pods";
        let watch = format!("{path}?&watch=true&timeoutSeconds=0&fieldSelector=a%3Db");
        let right = format!("{path}?timeoutSeconds=1800&watch=true&fieldSelector=a%3Db");
        assert_eq!(rewritten(&watch), Some(right));
        let absolute = format!("http://server:1{path}?watch=true");
        let right = format!("http://server:1{path}?timeoutSeconds=1800&watch=true");
        assert_eq!(rewritten(&absolute), Some(right));
    }

    #[test]
    fn list_request_is_unchanged() {
        for uri in ["/api/v1/pods", "/api/v1/pods?limit=5&labelSelector=watch"] {
            assert_eq!(rewritten(uri), None);
        }
    }
}
