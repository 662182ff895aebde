//! An HTTP client that detects dead connections to an API server.
//!
//! kube's client leaves TCP as the kernel has it: an idle connection is probed after two hours, and a request
//! on a dead one is retransmitted for a quarter of an hour. This client has the same layers on a connector of
//! its own, which sets the options below. A watch on a dead connection fails within a minute.

use std::time::Duration;

use http::Request;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, service_fn};

/// The idle time before a keepalive probe. Each watch has a connection of its own, so that this bounds the
/// packets that API servers get from thousands of idle clients.
const IDLE: Duration = Duration::from_secs(30);
/// The time between probes that are not answered.
const INTERVAL: Duration = Duration::from_secs(10);
/// The number of such probes that end a connection.
const PROBES: u32 = 3;
/// The longest time without an acknowledgement, of data as of probes. It ends a connection earlier than
/// [`PROBES`] does: with the second probe.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// The target of requests in logs: that of kube's client, which log filters name.
const TARGET: &str = "kube_client::client";

/// Returns a client for this server. It sends nothing yet.
///
/// # Errors
/// Returns an error if a certificate, key or token is invalid.
pub(crate) fn client(config: Config) -> kube::Result<Client> {
    // A connection through a proxy says nothing about the server behind it.
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let https = config.rustls_https_connector_with_connector(connector())?;
    let mut timed = TimeoutConnector::new(https);
    timed.set_connect_timeout(config.connect_timeout);
    timed.set_read_timeout(config.read_timeout);
    timed.set_write_timeout(config.write_timeout);
    timed.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(timed);
    let send = service_fn(move |request: Request<Body>| {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = http.request(request);
        async move {
            let response = response.await;
            let status = response.as_ref().map(|it| it.status().as_u16());
            tracing::debug!(target: TARGET, %method, %uri, status = status.ok(), "requested");
            response.map_err(BoxError::from)
        }
    });
    let retry = || RetryLayer::new(RetryPolicy::server_retry());
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(retry))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(send);
    Ok(Client::new(service, config.default_namespace))
}

/// The connector below TLS.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Else a request behind the end of TLS' handshake waits for the server's delayed acknowledgement, 40 ms.
    connector.set_nodelay(true);
    connector.set_keepalive(Some(IDLE));
    connector.set_keepalive_interval(Some(INTERVAL));
    connector.set_keepalive_retries(Some(PROBES));
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::sockopt;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn connection_has_no_delay_keepalive_and_user_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let uri: http::Uri = format!("https://{address}").parse().unwrap();
        let stream = connector().oneshot(uri).await.unwrap().into_inner();
        assert!(sockopt::tcp_nodelay(&stream).unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), PROBES);
        let user_timeout = sockopt::tcp_user_timeout(&stream).unwrap();
        assert_eq!(u128::from(user_timeout), UNACKNOWLEDGED.as_millis());
        let detected = UNACKNOWLEDGED.max(IDLE + INTERVAL);
        assert!(detected < Duration::from_secs(60));
    }
}
