//! How the webhook is run.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// A day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How the webhook is run. The default is what the manifests in `deploy` are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where it listens. Default: port 9443, on all addresses.
    pub listen: SocketAddr,
    /// The namespace of its Service and its Secret. Default `netqos-system`.
    pub namespace: String,
    /// Its Service, whose name stands in the certificate. Default `netqos-webhook`.
    pub service: String,
    /// The Secret with its certificate. Default `netqos-webhook-certificate`.
    pub secret: String,
    /// The name of its `ValidatingWebhookConfiguration` and `MutatingWebhookConfiguration`. Default
    /// `netqos`.
    pub configurations: String,
    /// The namespace of Koordinator, and of its ConfigMap. Default `koordinator-system`.
    pub koordinator: String,
    /// That ConfigMap. Default `slo-controller-config`.
    pub slo_config: String,
    /// Further DNS names and addresses for the certificate: where the API server is told a URL.
    pub names: Vec<String>,
    /// Whether pods with bad bandwidth annotations are refused, in place of a warning.
    pub strict_annotations: bool,
    /// How long a certificate is good for. Default 90 days.
    pub lifetime: Duration,
    /// How long before its end it is replaced. Default 30 days.
    pub renew_before: Duration,
    /// How often Secret and configurations are looked at. Default every minute.
    pub look_every: Duration,
    /// How long API servers have to learn of a new authority, before a certificate by it is shown.
    /// Default 10 s.
    pub settle: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9443)),
            namespace: "netqos-system".to_owned(),
            service: "netqos-webhook".to_owned(),
            secret: "netqos-webhook-certificate".to_owned(),
            configurations: "netqos".to_owned(),
            koordinator: "koordinator-system".to_owned(),
            slo_config: "slo-controller-config".to_owned(),
            names: Vec::new(),
            strict_annotations: false,
            lifetime: 90 * DAY,
            renew_before: 30 * DAY,
            look_every: Duration::from_secs(60),
            settle: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// The names that the certificate is for: that by which API servers call a Service, and those
    /// that were asked for.
    pub(crate) fn all_names(&self) -> Vec<String> {
        let service = format!("{}.{}.svc", self.service, self.namespace);
        std::iter::once(service)
            .chain(self.names.iter().cloned())
            .collect()
    }
}
