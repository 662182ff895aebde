//! A client that stops writing at an instant.
//!
//! Only a leader writes, and only until an instant that it knows in advance. The process may be stopped at any
//! instruction: while a request waits for a connection, or between two of its polls. Therefore the fence compares
//! the clock before each poll of a request, not once when the request is made.
//!
//! ```text
//!   Api ──► fence: read, or still leads? ──► Client ──► connection
//!                        │ no
//!                        └──► NotLeading; the request is dropped
//! ```
//!
//! A request that the connection already has can still arrive. Its preconditions ([`ObjectVersion`](crate::ObjectVersion))
//! make it harmless.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use kube::{Client, Error};
use tower::BoxError;

/// The error of a write that the fence refused, or no longer awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica no longer leads")]
pub struct NotLeading;

impl NotLeading {
    /// Returns true if a request failed by this.
    pub fn caused(error: &Error) -> bool {
        matches!(error, Error::Service(cause) if cause.is::<Self>())
    }
}

/// Returns a client that sends a write only as long as `leads` returns true, and drops a write that is under
/// way once it returns false. Reads (GET, HEAD, OPTIONS) pass.
///
/// Requires a tokio runtime, as each client does.
pub fn fence<L>(client: Client, leads: L) -> Client
where
    L: Fn() -> bool + Clone + Send + Unpin + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let send = tower::service_fn(move |request: Request<Body>| {
        let is_read = request.method().is_safe();
        let client = client.clone();
        let answer: Answer = Box::pin(async move { client.send(request).await });
        Fenced {
            answer: Some(answer),
            leads: (!is_read).then(|| leads.clone()),
        }
    });
    Client::new(send, namespace)
}

type Answer = Pin<Box<dyn Future<Output = kube::Result<Response<Body>>> + Send>>;

/// A request, polled only while the replica leads.
struct Fenced<L> {
    /// `None`: dropped.
    answer: Option<Answer>,
    /// `None`: a read.
    leads: Option<L>,
}

impl<L: Fn() -> bool + Unpin> Future for Fenced<L> {
    type Output = Result<Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.leads.as_ref().is_some_and(|leads| !leads()) {
            self.answer = None;
        }
        match &mut self.answer {
            Some(answer) => answer.as_mut().poll(context).map_err(Into::into),
            None => Poll::Ready(Err(NotLeading.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// A client behind a fence, and a service that counts.
    struct Fixture {
        client: Client,
        leads: Arc<AtomicBool>,
        calls: Arc<AtomicUsize>,
        polls: Arc<AtomicUsize>,
    }

    /// Each request is answered at its poll of this number; 0: never.
    fn fixture(answered_at: usize) -> Fixture {
        let leads = Arc::new(AtomicBool::new(true));
        let (calls, polls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (called, polled) = (calls.clone(), polls.clone());
        let service = tower::service_fn(move |_: Request<Body>| {
            called.fetch_add(1, Ordering::SeqCst);
            let polled = polled.clone();
            poll_fn(move |_| {
                let polls = polled.fetch_add(1, Ordering::SeqCst) + 1;
                match polls == answered_at {
                    true => Poll::Ready(Ok::<_, BoxError>(Response::new(Body::empty()))),
                    false => Poll::Pending,
                }
            })
        });
        let still = leads.clone();
        let inner = Client::new(service, "default");
        Fixture {
            client: fence(inner, move || still.load(Ordering::SeqCst)),
            leads,
            calls,
            polls,
        }
    }

    fn request(method: &str) -> Request<Body> {
        let request = Request::builder().method(method).uri("/api/v1/pods");
        request.body(Body::empty()).unwrap()
    }

    /// Polls once, after everything else has run.
    async fn poll_once<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
    }

    #[tokio::test]
    async fn fence_not_leading_refuses_each_write_before_the_service_is_called() {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let Fixture {
                client,
                leads,
                calls,
                ..
            } = fixture(1);
            leads.store(false, Ordering::SeqCst);
            let error = client.send(request(method)).await.unwrap_err();
            assert!(NotLeading::caused(&error), "{method}: {error:?}");
            assert_eq!(calls.load(Ordering::SeqCst), 0, "{method}");
        }
    }

    #[tokio::test]
    async fn fence_passes_reads_always_and_writes_while_leading() {
        let leading = fixture(1);
        leading.client.send(request("PATCH")).await.unwrap();
        let deposed = fixture(1);
        deposed.leads.store(false, Ordering::SeqCst);
        deposed.client.send(request("GET")).await.unwrap();
    }

    #[tokio::test]
    async fn fence_instant_passes_while_pending_polls_the_request_no_longer() {
        let Fixture {
            client,
            leads,
            calls,
            polls,
        } = fixture(0);
        let mut sent = pin!(client.send(request("PATCH")));
        while polls.load(Ordering::SeqCst) == 0 {
            assert!(poll_once(&mut sent).await.is_pending());
        }
        assert!(poll_once(&mut sent).await.is_pending());
        let before = polls.load(Ordering::SeqCst);
        assert!(before > 0);
        leads.store(false, Ordering::SeqCst);
        let Poll::Ready(Err(error)) = poll_once(&mut sent).await else {
            panic!("the request is still under way");
        };
        assert!(NotLeading::caused(&error), "{error:?}");
        assert_eq!(polls.load(Ordering::SeqCst), before);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    /// A timeout polls what it limits before its own clock.
    #[tokio::test]
    async fn fence_instant_passes_before_the_service_is_called_sends_nothing() {
        let Fixture {
            client,
            leads,
            calls,
            ..
        } = fixture(1);
        let mut sent = pin!(client.send(request("DELETE")));
        // The fence's own queue has the request; the inner client's has it not yet.
        assert!(poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_pending())).await);
        leads.store(false, Ordering::SeqCst);
        let error = sent.await.unwrap_err();
        assert!(NotLeading::caused(&error), "{error:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}
