//! Connections by TLS, with a certificate that may be changed while they are open.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificate::provider;

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// With how many clients keys are agreed on at a time.
const HANDSHAKES: usize = 256;
/// How long is waited when no connection can be accepted: all descriptors are in use.
const PAUSE: Duration = Duration::from_millis(100);

/// The certificate that is shown. Without one, no connection comes about.
#[derive(Debug, Default)]
pub(crate) struct Shown(RwLock<Option<Arc<CertifiedKey>>>);

impl Shown {
    pub(crate) fn show(&self, certificate: CertifiedKey) {
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *shown = Some(Arc::new(certificate));
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Accepts connections. A client that is slow in the beginning holds up no other.
pub(crate) struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepts: JoinHandle<()>,
}

impl TlsListener {
    /// Accepts what comes to a listener.
    ///
    /// # Errors
    /// None that a test would not have found, and that of a listener without address.
    pub(crate) fn new(listener: TcpListener, shown: Arc<Shown>) -> io::Result<Self> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = config.with_no_client_auth().with_cert_resolver(shown);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (sender, ready) = mpsc::channel(1);
        Ok(Self {
            address: listener.local_addr()?,
            ready,
            accepts: tokio::spawn(accept(listener, acceptor, sender)),
        })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                tracing::warn!("accept a connection to the webhook: {why}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            let _place = place;
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(ready.send((stream, peer)).await),
                // Whatever a client does wrong is no concern of anybody else's.
                Ok(Err(why)) => tracing::debug!(%peer, "no TLS: {why}"),
                Err(_) => tracing::debug!(%peer, "no TLS: it takes too long"),
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // Nobody accepts any more.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}
