//! Traces, for who names a collector.
//!
//! ```text
//!   spans of netqos ─┐
//!   requests of kube ┴─► Exported (filter) ─► batches ─► Exporter ─► Client: OTLP by HTTP
//! ```
//!
//! Without a collector there is none of it: no thread, and no span that is more than a test of a flag.
//! What is exported does not depend on how much is logged, and the other way about.
//!
//! An exporter never keeps anybody waiting: what does not fit into its queue is lost.

mod client;
mod exporter;
mod settings;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector, TelemetryResourceDetector,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::Service;
use crate::logs::is_ours;
use exporter::Exporter;
use settings::{Mistake, Settings};

/// How long what is left may take to be sent when a process ends.
const LAST: Duration = Duration::from_secs(2);

/// How a daemon is told to export traces.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TraceArguments {
    /// Where to send traces, by OTLP over HTTP: the address of a collector, as http://HOST:4318. Without
    /// it, where the variables of OpenTelemetry say (OTEL_EXPORTER_OTLP_ENDPOINT and others); without
    /// those, nowhere.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

/// The export of traces.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    endpoint: String,
    lacking: Option<String>,
}

/// Why nothing is exported although that was asked for.
pub(crate) enum Failure {
    /// By a flag, which is wrong.
    Usage(String),
    /// By the environment, or it cannot be done on this machine: no reason not to run.
    Unavailable(String),
}

impl TraceArguments {
    /// Begins to export. `None`: nobody has asked for that.
    pub(crate) fn begin(&self, service: &Service) -> Result<Option<Traces>, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        let settings = Settings::read(self.otlp_endpoint.as_deref(), variable);
        let settings = settings.map_err(|mistake| match mistake {
            Mistake::Flag(_) => Failure::Usage(mistake.to_string()),
            Mistake::Variable(why) => Failure::Unavailable(why),
        })?;
        let begin = |settings| Traces::begin(&settings, resource(service));
        let begun = settings.map(begin).transpose();
        begun.map_err(|why| Failure::Unavailable(format!("{why:#}")))
    }
}

impl Traces {
    fn begin(settings: &Settings, resource: Resource) -> anyhow::Result<Self> {
        let exporter = Exporter::new(settings)?;
        let provider = SdkTracerProvider::builder();
        let provider = provider
            .with_resource(resource)
            .with_batch_exporter(exporter);
        Ok(Self {
            provider: provider.build(),
            endpoint: settings.endpoint.to_string(),
            lacking: settings.lacking.clone(),
        })
    }

    /// Where traces are sent.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What was asked for and is not done.
    pub(crate) fn lacking(&self) -> Option<&str> {
        self.lacking.as_deref()
    }

    /// What hears of spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("netqos"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Exported)
    }

    /// Sends what is left, for a moment.
    pub(crate) fn end(&self) {
        if let Err(why) = self.provider.shutdown_with_timeout(LAST) {
            tracing::debug!("what was left of traces is not sent: {why}");
        }
    }
}

/// Who says it. What the environment says goes before what is known here.
fn resource(service: &Service) -> Resource {
    let variable = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.is_empty())
    };
    let known = [
        ("service.name", Some(service.name.to_owned())),
        ("service.version", Some(service.version.to_owned())),
        ("service.instance.id", Some(service.instance.clone())),
        ("k8s.node.name", service.node.clone()),
        ("k8s.pod.name", variable("POD_NAME")),
        ("k8s.namespace.name", variable("POD_NAMESPACE")),
    ];
    let attributes = |known: &[(&'static str, Option<String>)]| {
        let known = known.iter().cloned();
        let known = known.filter_map(|(name, value)| Some(KeyValue::new(name, value?)));
        known.collect::<Vec<KeyValue>>()
    };
    let detectors: [Box<dyn ResourceDetector>; 2] = [
        Box::new(TelemetryResourceDetector),
        Box::new(EnvResourceDetector::new()),
    ];
    Resource::builder_empty()
        .with_attributes(attributes(&known))
        .with_detectors(&detectors)
        .with_attributes(attributes(&[(
            "service.name",
            variable("OTEL_SERVICE_NAME"),
        )]))
        .build()
}

/// What is exported: our spans, what we log in them, and the requests that are made for them.
struct Exported;

impl Exported {
    /// A span of kube's around a request.
    fn is_request(of: &Metadata<'_>) -> bool {
        of.is_span() && of.name() == "HTTP" && of.target().starts_with("kube_client")
    }
}

impl<S> Filter<S> for Exported
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn enabled(&self, of: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        match is_ours(of) {
            true => *of.level() <= Level::INFO,
            // A watch goes on for ever, and is nobody's.
            false => Self::is_request(of) && context.lookup_current().is_some(),
        }
    }

    fn callsite_enabled(&self, of: &'static Metadata<'static>) -> Interest {
        match is_ours(of) {
            true if *of.level() <= Level::INFO => Interest::always(),
            false if Self::is_request(of) => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    /// The level of kube's spans.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

#[cfg(test)]
mod tests;
