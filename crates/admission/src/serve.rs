//! The webhook as a server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Json, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionResponse, AdmissionReview};
use netqos_cluster::{Selection, watch};
use netqos_k8s::object_from_value;
use tokio::net::TcpListener;

use crate::configuration::{MUTATE, VALIDATE};
use crate::keeper::Keeper;
use crate::known::KINDS;
use crate::tls::{Shown, TlsListener};
use crate::{Known, Options, Request, review};

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
}

/// What every question is answered from.
struct Answers {
    known: RwLock<Known>,
    shown: Arc<Shown>,
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
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        let shown = Arc::new(Shown::default());
        let answers = Arc::new(Answers {
            known: RwLock::default(),
            shown: shown.clone(),
            strict_annotations: self.options.strict_annotations,
        });
        let listener = TlsListener::new(self.listener, shown.clone()).map_err(ServeError::Serve)?;
        let app = Router::new()
            .route(VALIDATE, post(validate))
            .route(MUTATE, post(mutate))
            .route("/readyz", get(readyz))
            .layer(DefaultBodyLimit::max(LONGEST))
            .with_state(answers.clone());
        let serves = axum::serve(listener, app).with_graceful_shutdown(stop);
        let keeper = Keeper::new(client.clone(), self.options, shown);
        tokio::select! {
            served = async { serves.await } => served.map_err(ServeError::Serve),
            () = keeper.run() => Ok(()),
            () = learn(client, &answers) => Ok(()),
        }
    }
}

/// Takes note of what the cluster has, for ever.
async fn learn(client: Client, answers: &Answers) {
    let watches = KINDS.map(|kind| {
        let read = |_: &_, value| object_from_value(&value).ok();
        let told = watch(client.clone(), &Selection::all(kind), read);
        told.map(move |told| (kind, told)).boxed()
    });
    let mut watches = stream::select_all(watches);
    while let Some((kind, told)) = watches.next().await {
        let mut known = answers
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        known.hear(kind, told);
    }
}

impl Answers {
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

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
}

async fn validate(
    State(answers): State<Arc<Answers>>,
    Json(review): Json<AdmissionReview<DynamicObject>>,
) -> Json<AdmissionReview<DynamicObject>> {
    Answers::answer(review, |request| {
        review::validate(request, &answers.known(), answers.strict_annotations)
    })
}

async fn mutate(
    State(answers): State<Arc<Answers>>,
    Json(review): Json<AdmissionReview<DynamicObject>>,
) -> Json<AdmissionReview<DynamicObject>> {
    Answers::answer(review, |request| review::mutate(request, &answers.known()))
}

/// Ready once it has a certificate, and knows the quotas: a Service sends nobody before.
async fn readyz(State(answers): State<Arc<Answers>>) -> (StatusCode, &'static str) {
    match answers.shown.is_any() && answers.known().is_whole() {
        true => (StatusCode::OK, "ok\n"),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "what the cluster has is not known yet\n",
        ),
    }
}
