//! The webhook as a server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Json, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionResponse, AdmissionReview};
use netqos_cluster::{Listing, Selection, watch};
use netqos_k8s::object_from_value;
use tokio::net::TcpListener;

use crate::configuration::{MUTATE, VALIDATE};
use crate::keeper::Keeper;
use crate::known::KINDS;
use crate::tls::TlsListener;
use crate::{Options, Readiness, Request, review};

/// The most bytes of a question: an object of the size that etcd takes, as it is and as it was.
const LONGEST: usize = 8 << 20;

/// Why the webhook cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its address cannot be had.
    #[error("the webhook listens on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// It cannot go on.
    #[error("the webhook: {0}")]
    Serve(#[source] io::Error),
}

/// The webhook, with its port open.
#[derive(Debug)]
pub struct Webhook {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    readiness: Readiness,
}

/// What every question is answered from.
struct Answers {
    readiness: Readiness,
    strict_annotations: bool,
}

/// Serves the webhook until it is to stop: answers what API servers ask, keeps its certificate, and
/// tells API servers of its authority.
///
/// # Errors
/// Its address cannot be had. Whatever else goes wrong is logged and tried again.
pub async fn serve(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    Webhook::bind(options).await?.serve(client, stop).await
}

impl Webhook {
    /// Opens the port.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let address = options.listen;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            options,
            readiness: Readiness::default(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it can be asked, for who runs it.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// As [`serve`].
    ///
    /// # Errors
    /// None but that the port is lost.
    pub async fn serve(
        self,
        client: Client,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let readiness = self.readiness;
        let answers = Arc::new(Answers {
            readiness: readiness.clone(),
            strict_annotations: self.options.strict_annotations,
        });
        let listener = TlsListener::new(self.listener, readiness.shown.clone());
        let listener = listener.map_err(ServeError::Serve)?;
        let app = Router::new()
            .route(VALIDATE, post(validate))
            .route(MUTATE, post(mutate))
            .route("/readyz", get(readyz))
            .layer(DefaultBodyLimit::max(LONGEST))
            .with_state(answers);
        let serves = axum::serve(listener, app).with_graceful_shutdown(stop);
        let keeper = Keeper::new(client.clone(), self.options, readiness.clone());
        tokio::select! {
            served = async { serves.await } => served.map_err(ServeError::Serve),
            () = keeper.run() => Ok(()),
            () = learn(client, &readiness) => Ok(()),
        }
    }
}

/// Takes note of what the cluster has, for ever.
async fn learn(client: Client, readiness: &Readiness) {
    let watches = KINDS.map(|kind| {
        let read = |_: &_, value| object_from_value(&value).ok();
        let told = watch(client.clone(), &Selection::all(kind), Listing::Paged, read);
        told.map(move |told| (kind, told)).boxed()
    });
    let mut watches = stream::select_all(watches);
    while let Some((kind, told)) = watches.next().await {
        readiness.learn(|known| known.hear(kind, told));
    }
}

/// Answers a question about an object.
fn answer(
    review: AdmissionReview<DynamicObject>,
    answer: impl FnOnce(&Request) -> AdmissionResponse,
) -> Json<AdmissionReview<DynamicObject>> {
    let response = match review.try_into() {
        Ok(request) => answer(&request),
        Err(why) => AdmissionResponse::invalid(why),
    };
    Json(response.into_review())
}

async fn validate(
    State(answers): State<Arc<Answers>>,
    Json(review): Json<AdmissionReview<DynamicObject>>,
) -> Json<AdmissionReview<DynamicObject>> {
    let known = answers.readiness.known();
    answer(review, |request| {
        review::validate(request, &known, answers.strict_annotations)
    })
}

async fn mutate(
    State(answers): State<Arc<Answers>>,
    Json(review): Json<AdmissionReview<DynamicObject>>,
) -> Json<AdmissionReview<DynamicObject>> {
    let known = answers.readiness.known();
    answer(review, |request| review::mutate(request, &known))
}

/// Ready once it can be asked: a Service sends nobody before.
async fn readyz(State(answers): State<Arc<Answers>>) -> (StatusCode, String) {
    match answers.readiness.lacks() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(lacks) => (StatusCode::SERVICE_UNAVAILABLE, format!("{lacks}\n")),
    }
}
