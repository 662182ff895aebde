//! A webhook of the test's own, on loopback, by TLS.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// It is asked until it is let go; then its port is closed.
pub struct Webhook {
    /// `https://127.0.0.1:PORT/admit`.
    pub url: String,
    /// Its certificate, as a configuration has it.
    pub authorities: String,
    /// What it was asked: each `request`.
    pub asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Webhook {
    /// One that answers like this to a `request`; the `uid` is filled in.
    pub async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/admit", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, record) = (Arc::new(answer), asked.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                let record = record.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(|request: hyper::Request<Incoming>| async {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let review: Value = serde_json::from_slice(&body).unwrap();
                        let mut response = answer(&review["request"]);
                        response["uid"] = review["request"]["uid"].clone();
                        record.lock().unwrap().push(review["request"].clone());
                        let review = json!({
                            "apiVersion": review["apiVersion"],
                            "kind": review["kind"],
                            "response": response,
                        });
                        let body = Full::new(Bytes::from(review.to_string()));
                        let mut response = hyper::Response::new(body);
                        let media = "application/json".parse().unwrap();
                        response.headers_mut().insert("content-type", media);
                        Ok::<_, Infallible>(response)
                    });
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    served.await.ok();
                });
            }
        });
        Self {
            url,
            authorities: STANDARD.encode(made.cert.pem()),
            asked,
            task,
        }
    }

    /// Closes the port.
    pub async fn stop(self) {
        self.task.abort();
        self.task.await.ok();
    }
}

/// A change, as an answer has it.
pub fn patch(operations: &Value) -> Value {
    json!({
        "allowed": true,
        "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string()),
    })
}
