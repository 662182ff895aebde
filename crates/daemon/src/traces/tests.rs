//! What is logged and what is exported do not depend on each other.

use std::io;
use std::sync::{Arc, Mutex};

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::Span;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use super::*;
use crate::logs::{LogFormat, logging};

/// What was exported, and what was logged.
#[derive(Clone, Debug, Default)]
struct Kept {
    spans: Arc<Mutex<Vec<SpanData>>>,
    lines: Arc<Mutex<Vec<u8>>>,
}

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.spans.lock().unwrap().extend(batch);
        Ok(())
    }
}

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    /// The lines of the log, without their times.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.lines.lock().unwrap().clone()).unwrap();
        let lines = text.lines();
        lines
            .map(
                |line| match serde_json::from_str::<serde_json::Value>(line) {
                    Ok(mut line) => {
                        line["timestamp"] = serde_json::Value::Null;
                        line.to_string()
                    }
                    Err(_) => line.split_once(' ').unwrap().1.to_owned(),
                },
            )
            .collect()
    }

    /// The spans, each with its parent's name and its events.
    fn spans(&self) -> Vec<(String, String, Vec<String>)> {
        let spans = self.spans.lock().unwrap();
        let name = |span: &SpanData| span.name.to_string();
        let shown = spans.iter().map(|span| {
            let mut all = spans.iter();
            let parent = all.find(|it| it.span_context.span_id() == span.parent_span_id);
            let events = span.events.iter().map(|event| event.name.to_string());
            let parent = parent.map(name).unwrap_or_default();
            (name(span), parent, events.collect())
        });
        shown.collect()
    }
}

/// A request, as kube shows it.
fn request() -> Span {
    tracing::debug_span!(target: "kube_client::client::builder", "HTTP", otel.name = "patch")
}

fn work() {
    request().in_scope(|| tracing::debug!(target: "kube_client", "requesting"));
    let sync = tracing::info_span!("sync", netqos.events = 1);
    sync.in_scope(|| {
        tracing::info!(answer = 42, "a");
        tracing::debug!("b");
        let hold = tracing::info_span!("hold");
        hold.in_scope(|| {
            tracing::warn!("c");
            request().in_scope(|| tracing::debug!(target: "kube_client", "requesting"));
        });
        tracing::debug_span!("detail").in_scope(|| tracing::info!(target: "other", "d"));
    });
}

/// What comes of the work at a level.
fn kept(format: LogFormat, level: &str, exports: bool) -> Kept {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone());
    let traces = Traces {
        provider: provider.build(),
        endpoint: String::new(),
        lacking: None,
    };
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
    if exports {
        layers.push(traces.layer().boxed());
    }
    let writer = kept.clone();
    let filter = EnvFilter::try_new(level).unwrap();
    let (logging, _handle) = logging(format, filter, move || writer.clone());
    layers.push(logging);
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::with_default(subscriber, work);
    kept
}

#[test]
fn a_log_says_the_same_whether_traces_are_exported() {
    for format in [LogFormat::Text, LogFormat::Json] {
        for (level, lines) in [
            ("off", 0),
            ("info", 3),
            ("netqos_daemon=debug", 3),
            ("trace", 6),
            ("info,kube_client=debug", 5),
        ] {
            let [without, with] = [false, true].map(|exports| kept(format, level, exports));
            assert_eq!(without.lines(), with.lines(), "{level}");
            assert_eq!(with.lines().len(), lines, "{level}: {:?}", with.lines());
            let all = with.lines().concat();
            assert!(!all.contains("sync") && !all.contains("hold"), "{all}");
            // Those of others are in the log as they were.
            assert_eq!(all.contains("HTTP"), lines >= 5, "{level}: {all}");
        }
    }
}

#[test]
fn what_is_exported_is_the_same_whatever_is_logged() {
    let wanted = [
        ("patch", "hold", vec![]),
        ("hold", "sync", vec!["c"]),
        ("sync", "", vec!["a"]),
    ];
    let wanted = wanted.map(|(name, parent, events): (&str, &str, Vec<&str>)| {
        let events = events.into_iter().map(ToOwned::to_owned).collect();
        (name.to_owned(), parent.to_owned(), events)
    });
    for level in ["off", "info", "trace"] {
        assert_eq!(
            kept(LogFormat::Json, level, true).spans(),
            wanted,
            "{level}"
        );
        assert_eq!(kept(LogFormat::Json, level, false).spans(), []);
    }
}

/// A disabled span is a flag that is tested.
#[test]
fn without_an_export_no_span_of_ours_is_made() {
    let filter = EnvFilter::try_new("trace").unwrap();
    let (logging, _handle) = logging(LogFormat::Text, filter, io::sink);
    let layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![logging];
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::with_default(subscriber, || {
        assert!(tracing::info_span!("sync").is_disabled());
        assert!(!request().is_disabled());
        assert!(crate::Origin::current().is_nothing());
    });
}

/// What another thread does is part of what has asked for it, which may have ended.
#[test]
fn work_on_another_thread_belongs_to_who_has_asked_for_it() {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone());
    let traces = Traces {
        provider: provider.build(),
        endpoint: String::new(),
        lacking: None,
    };
    let subscriber = tracing_subscriber::registry().with(traces.layer());
    tracing::subscriber::with_default(subscriber, || {
        let origin = tracing::info_span!("sync").in_scope(crate::Origin::current);
        let divide = tracing::info_span!("divide");
        origin.begets(&divide);
        divide.in_scope(|| {});
        drop(divide);
        // Of somebody else's trace.
        let asked = tracing::info_span!("validate");
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        crate::Origin::sent(Some(parent), None).begets(&asked);
        asked.in_scope(|| {});
        drop(asked);
        // What cannot be read is as nothing.
        let alone = tracing::info_span!("mutate");
        crate::Origin::sent(Some("00-x"), None).begets(&alone);
        alone.in_scope(|| {});
    });
    let names: Vec<_> = kept
        .spans()
        .into_iter()
        .map(|(name, parent, _)| (name, parent))
        .collect();
    let wanted = [
        ("sync", ""),
        ("divide", "sync"),
        ("validate", ""),
        ("mutate", ""),
    ];
    assert_eq!(
        names,
        wanted.map(|(name, parent)| (name.to_owned(), parent.to_owned()))
    );
    let spans = kept.spans.lock().unwrap();
    assert_eq!(
        spans[0].span_context.trace_id(),
        spans[1].span_context.trace_id()
    );
    assert_eq!(spans[2].parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(spans[3].parent_span_id.to_string(), "0000000000000000");
}
