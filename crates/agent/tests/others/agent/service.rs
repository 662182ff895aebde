//! A Service of the tests, as objects and as kube-proxy's rules.

use std::net::SocketAddr;

use netqos_testkit::{Node, Pod};

use super::proxy;
use super::stage::PORT;

const SERVICE_PORT: u16 = 80;

/// The Service.
pub(crate) fn object() -> String {
    let address = proxy::virtual_address(false);
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: front, namespace: games}}\n\
         spec:\n  clusterIP: {address}\n  clusterIPs: [{address}]\n  ports:\n  \
         - {{name: echo, protocol: UDP, port: {SERVICE_PORT}, targetPort: {PORT}}}\n"
    )
}

/// What stands behind it.
pub(crate) fn slice(backend: &Pod) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: front-x7, namespace: games, labels: {{kubernetes.io/service-name: front}}}}\n\
         addressType: IPv4\nendpoints:\n- addresses: [{}]\n  conditions: {{ready: true}}\n\
         ports:\n- {{name: echo, protocol: UDP, port: {PORT}}}\n",
        backend.address()
    )
}

/// Lets kube-proxy's rules lead to this pod.
pub(crate) fn forward(node: &Node, backend: &Pod) {
    let backend = SocketAddr::new(backend.address().parse().unwrap(), PORT);
    proxy::forward(node, "udp", virtual_port(), &[backend]);
}

/// Where it is reached.
pub(crate) fn virtual_port() -> SocketAddr {
    SocketAddr::new(proxy::virtual_address(false), SERVICE_PORT)
}
