//! Sends traces, and says when it cannot.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::SpanData;

use super::client::{Client, LastFailure};
use super::settings::Settings;

/// How often it is said at most that traces are lost.
const QUIET: Duration = Duration::from_secs(60);

/// An exporter whose failures are logged now and then.
#[derive(Debug)]
pub(super) struct Exporter {
    inner: SpanExporter,
    endpoint: String,
    failure: LastFailure,
    lost: Mutex<Lost>,
}

/// What was lost, and when that was said.
#[derive(Debug, Default)]
struct Lost {
    /// Spans that nobody was told of.
    spans: usize,
    told: Option<Instant>,
    is_failing: bool,
}

/// What there is to say.
#[derive(Debug, PartialEq, Eq)]
enum Say {
    Nothing,
    /// How many spans were lost since it was said last.
    Lost(usize),
    /// It works again, and how many were lost of which nothing was said.
    Works(usize),
}

impl Exporter {
    /// # Errors
    /// The settings cannot be followed on this machine.
    pub(super) fn new(settings: &Settings) -> anyhow::Result<Self> {
        let failure = LastFailure::default();
        let client = Client::new(settings, failure.clone())?;
        let inner = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(settings.endpoint.to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(settings.timeout)
            .build()?;
        Ok(Self {
            inner,
            endpoint: settings.endpoint.to_string(),
            failure,
            lost: Mutex::default(),
        })
    }

    fn tell(&self, say: &Say, why: &str) {
        let endpoint = &self.endpoint;
        match say {
            Say::Nothing => {}
            Say::Lost(spans) => tracing::warn!(
                endpoint,
                spans,
                "traces are lost, and nothing else is: {why} (said once a minute at most)"
            ),
            Say::Works(spans) => {
                tracing::info!(endpoint, lost = spans, "traces are exported again")
            }
        }
    }
}

impl Lost {
    /// Takes note of what became of so many spans.
    fn note(&mut self, spans: usize, is_exported: bool, now: Instant) -> Say {
        if is_exported {
            let was_failing = std::mem::take(&mut self.is_failing);
            // One that comes and goes is not told of each time, either.
            return match was_failing && self.may_speak(now) {
                true => Say::Works(std::mem::take(&mut self.spans)),
                false => Say::Nothing,
            };
        }
        self.is_failing = true;
        self.spans += spans;
        match self.may_speak(now) {
            true => Say::Lost(std::mem::take(&mut self.spans)),
            false => Say::Nothing,
        }
    }

    fn may_speak(&mut self, now: Instant) -> bool {
        let long_ago = self.told.is_none_or(|told| now - told >= QUIET);
        if long_ago {
            self.told = Some(now);
        }
        long_ago
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.inner.export(batch).await;
        let say = {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.note(spans, exported.is_ok(), Instant::now())
        };
        let failure = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let why = match (&exported, failure) {
            (Err(_), Some(why)) => why,
            (Err(why), None) => why.to_string(),
            (Ok(()), _) => String::new(),
        };
        self.tell(&say, &why);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_said_once_a_minute_with_all_that_was_not_told() {
        let mut lost = Lost::default();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(lost.note(1, true, at(0)), Say::Nothing);
        assert_eq!(lost.note(5, false, at(0)), Say::Lost(5));
        assert_eq!(lost.note(6, false, at(10)), Say::Nothing);
        assert_eq!(lost.note(7, false, at(59)), Say::Nothing);
        assert_eq!(lost.note(8, false, at(60)), Say::Lost(21));
        assert_eq!(lost.note(9, false, at(61)), Say::Nothing);
        assert_eq!(lost.note(1, true, at(121)), Say::Works(9));
        assert_eq!(lost.note(1, true, at(300)), Say::Nothing);
    }

    #[test]
    fn one_that_comes_and_goes_is_told_of_no_more_often() {
        let mut lost = Lost::default();
        let began = Instant::now();
        let mut said = 0;
        for second in 0..120 {
            let say = lost.note(1, second % 2 == 1, began + Duration::from_secs(second));
            said += u32::from(say != Say::Nothing);
        }
        assert_eq!(said, 2);
    }
}
