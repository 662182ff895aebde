//! From where work was asked for.

use tracing::Span;

/// The span in which work was asked for, for the thread that does it.
///
/// Unlike a span itself it keeps none open: who asked may have ended long before. Where nothing is
/// exported it is nothing.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    #[cfg(feature = "otel")]
    context: Option<opentelemetry::Context>,
}

impl Origin {
    /// The span that this thread is in.
    pub fn current() -> Self {
        #[cfg(feature = "otel")]
        {
            use tracing_opentelemetry::OpenTelemetrySpanExt as _;
            let span = Span::current();
            Self {
                context: (!span.is_none()).then(|| span.context()),
            }
        }
        #[cfg(not(feature = "otel"))]
        Self::default()
    }

    /// The span in which somebody else has sent a request, as its headers `traceparent` and `tracestate`
    /// say (W3C Trace Context).
    pub fn sent(traceparent: Option<&str>, tracestate: Option<&str>) -> Self {
        #[cfg(feature = "otel")]
        {
            use std::collections::HashMap;

            use opentelemetry::propagation::TextMapPropagator as _;
            use opentelemetry_sdk::propagation::TraceContextPropagator;
            let headers = [("traceparent", traceparent), ("tracestate", tracestate)];
            let headers = headers.into_iter();
            let headers = headers.filter_map(|(name, it)| Some((name.to_owned(), it?.to_owned())));
            let headers: HashMap<String, String> = headers.collect();
            let none = opentelemetry::Context::new();
            let read = || TraceContextPropagator::new().extract_with_context(&none, &headers);
            Self {
                context: traceparent.map(|_| read()),
            }
        }
        #[cfg(not(feature = "otel"))]
        {
            let _ = (traceparent, tracestate);
            Self::default()
        }
    }

    /// True where it is nobody.
    #[cfg(all(test, feature = "otel"))]
    pub(crate) fn is_nothing(&self) -> bool {
        self.context.is_none()
    }

    /// Says of a span which nobody has entered yet that its work was asked for here.
    pub fn begets(&self, span: &Span) {
        #[cfg(feature = "otel")]
        {
            use tracing_opentelemetry::OpenTelemetrySpanExt as _;
            if let Some(context) = &self.context {
                // It fails where nothing is exported.
                let _ = span.set_parent(context.clone());
            }
        }
        #[cfg(not(feature = "otel"))]
        let _ = span;
    }
}
