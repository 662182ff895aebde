//! How a collector is talked to.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::settings::Settings;

/// The longest answer that is read.
const LONGEST: usize = 4 << 20;

/// Why the last request came to nothing; the exporter does not pass it on.
pub(super) type LastFailure = Arc<Mutex<Option<String>>>;

/// Talks HTTP to a collector, with the TLS of the Kubernetes client. Whoever calls waits: the thread
/// that exports is there for nothing else.
#[derive(Debug)]
pub(super) struct Client {
    /// In which everything happens, on the thread that calls.
    runtime: Runtime,
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
    failure: LastFailure,
}

impl Client {
    /// # Errors
    /// The authorities cannot be read, or there are none where they are needed.
    pub(super) fn new(settings: &Settings, failure: LastFailure) -> anyhow::Result<Self> {
        let is_secret = settings.endpoint.scheme_str() == Some("https");
        let authorities = match &settings.authorities {
            _ if !is_secret => RootCertStore::empty(),
            None => RootCertStore::empty(),
            Some(path) => authorities(path)?,
        };
        let builder = HttpsConnectorBuilder::new();
        let builder = match is_secret && settings.authorities.is_none() {
            true => builder
                .with_provider_and_native_roots(crypto::ring::default_provider())
                .context("whom to trust is not known: name OTEL_EXPORTER_OTLP_CERTIFICATE")?,
            false => {
                let provider = Arc::new(crypto::ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider);
                let config = config.with_safe_default_protocol_versions()?;
                let config = config.with_root_certificates(authorities);
                builder.with_tls_config(config.with_no_client_auth())
            }
        };
        let connector = builder.https_or_http().enable_http1().build();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Self {
            runtime: runtime.context("start the runtime of traces")?,
            inner: hyper_util::client::legacy::Client::builder(TokioExecutor::new())
                .build(connector),
            timeout: settings.timeout,
            failure,
        })
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.inner.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST).collect().await?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Time is the runtime's: the limit is made inside it.
        let asked = async { timeout(self.timeout, self.ask(request)).await };
        let answer = self.runtime.block_on(asked);
        let answer = answer.unwrap_or_else(|_| {
            Err(format!("no answer in {} ms", self.timeout.as_millis()).into())
        });
        let why = match &answer {
            Err(why) => Some(with_causes(why.as_ref())),
            Ok(answer) if !answer.status().is_success() => {
                Some(format!("it answers {}", answer.status()))
            }
            Ok(_) => None,
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
        answer
    }
}

/// The authorities in a file of PEM.
fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let read = || format!("read the authorities in {}", path.display());
    let text = fs::read(path).with_context(read)?;
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|why| anyhow::anyhow!("{why:?}"));
        authorities
            .add(certificate.with_context(read)?)
            .with_context(read)?;
    }
    anyhow::ensure!(
        !authorities.is_empty(),
        "there is no certificate in {}",
        path.display()
    );
    Ok(authorities)
}

/// What went wrong, and what of that each time.
fn with_causes(why: &(dyn Error + 'static)) -> String {
    let mut text = why.to_string();
    let mut cause = why.source();
    while let Some(why) = cause {
        text.push_str(": ");
        text.push_str(&why.to_string());
        cause = why.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::thread;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// A collector behind TLS that answers this to whoever asks, and its certificate in PEM.
    fn collector(answer: &'static str) -> (SocketAddr, String) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private.into())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(config.clone()).unwrap();
                let mut stream = StreamOwned::new(session, stream.unwrap());
                // Who does not believe it hangs up.
                if stream.read(&mut [0; 4096]).is_ok() {
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        (address, certificate.pem())
    }

    /// What is answered, and why it came to nothing if it did.
    fn ask(address: SocketAddr, authorities: &Path) -> (Option<u16>, String) {
        let endpoint = format!("https://localhost:{}/v1/traces", address.port());
        let settings = Settings {
            endpoint: endpoint.parse().unwrap(),
            timeout: Duration::from_secs(10),
            authorities: Some(authorities.to_owned()),
            lacking: None,
        };
        let failure = LastFailure::default();
        let client = Client::new(&settings, failure.clone()).unwrap();
        let request = Request::post(endpoint)
            .body(Bytes::from_static(b"spans"))
            .unwrap();
        // It waits for nothing that is not its own.
        let asked = pin!(client.send_bytes(request)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(answer) = asked else {
            panic!("it is not done when it comes back");
        };
        let why = failure.lock().unwrap().take();
        let code = answer.ok().map(|answer| answer.status().as_u16());
        (code, why.unwrap_or_default())
    }

    #[test]
    fn a_collector_behind_tls_is_believed_by_the_authorities_that_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (address, certificate) = collector("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let (busy, other) = collector("HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n");
        let (own, others) = (file("own", &certificate), file("others", &other));
        assert_eq!(ask(address, &own), (Some(200), String::new()));
        let (code, why) = ask(address, &others);
        assert_eq!(code, None);
        assert!(why.contains("certificate"), "{why}");
        let (code, why) = ask(busy, &others);
        assert_eq!(code, Some(429));
        assert!(why.contains("429"), "{why}");
        for text in ["", "no certificate"] {
            let empty = file("empty", text);
            let why = authorities(&empty).unwrap_err().to_string();
            assert!(why.contains("no certificate in"), "{why}");
        }
        assert!(authorities(&folder.path().join("gone")).is_err());
    }
}
