//! Logs, and how much they say.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, layer::SubscriberExt as _};

use crate::Service;
#[cfg(feature = "otel")]
use crate::traces::{Failure, TraceArguments, Traces};

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object of JSON on each line.
    Json,
}

/// How a daemon is told to log, and where to send traces.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArguments {
    /// How lines of the log look.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace, or parts with levels.
    #[arg(long, value_name = "LEVEL", env = "NETQOS_LOG", default_value = "info")]
    log_level: String,
    #[cfg(feature = "otel")]
    #[command(flatten)]
    traces: TraceArguments,
}

impl LogArguments {
    /// Begins to log to standard error, and to export traces where somebody has asked for that.
    ///
    /// # Errors
    /// The level is none, or the address of the collector is, which has been said in the name of this
    /// program: the exit code for wrong usage.
    pub fn begin(&self, service: &Service) -> Result<Logs, ExitCode> {
        let wrong = |why: String| {
            // Nothing else can report an error of this.
            let _ = writeln!(io::stderr(), "{}: {why}", service.name);
            ExitCode::from(2)
        };
        let filter = EnvFilter::try_new(&self.log_level)
            .map_err(|why| wrong(format!("--log-level {:?}: {why}", self.log_level)))?;
        let mut layers = Vec::new();
        #[cfg(feature = "otel")]
        let (traces, unavailable) = match self.traces.begin(service) {
            Ok(traces) => (traces, None),
            Err(Failure::Usage(why)) => return Err(wrong(why)),
            Err(Failure::Unavailable(why)) => (None, Some(why)),
        };
        #[cfg(feature = "otel")]
        layers.extend(traces.iter().map(|traces| traces.layer().boxed()));
        let (logging, handle) = logging(self.log_format, filter, io::stderr);
        layers.push(logging);
        let registry = tracing_subscriber::registry().with(layers);
        let begun = registry.try_init();
        begun.map_err(|why| wrong(format!("begin to log: {why}")))?;
        #[cfg(feature = "otel")]
        match (&traces, unavailable) {
            (Some(traces), _) => {
                tracing::info!(endpoint = traces.endpoint(), "traces are exported");
                if let Some(lacking) = traces.lacking() {
                    tracing::warn!("{lacking}");
                }
            }
            (None, Some(why)) => {
                tracing::error!(
                    "no traces are exported, and nothing else is the worse for it: {why}"
                );
            }
            (None, None) => {}
        }
        Ok(Logs {
            handle,
            #[cfg(feature = "otel")]
            traces,
        })
    }
}

/// The logs of this process, which can be told to say more or less while it runs.
#[derive(Clone, Debug)]
pub struct Logs {
    handle: Handle<EnvFilter, Registry>,
    #[cfg(feature = "otel")]
    traces: Option<Traces>,
}

impl Logs {
    /// What is said now: `info`, or `netqos_agent=debug,info`.
    pub fn level(&self) -> String {
        let level = self.handle.with_current(ToString::to_string);
        level.unwrap_or_else(|why| why.to_string())
    }

    /// Says more, or less, from now on.
    ///
    /// # Errors
    /// The level is none; in words.
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(level.trim()).map_err(|why| why.to_string())?;
        self.handle.reload(filter).map_err(|why| why.to_string())
    }

    /// Sends what is left of traces, for two seconds at most. To be called last.
    pub fn end(&self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces {
            traces.end();
        }
    }
}

/// True for what netqos itself says, spans and events.
pub(crate) fn is_ours(of: &Metadata<'_>) -> bool {
    of.target().starts_with("netqos")
}

/// What writes lines, and how much it writes. Our spans are no part of that: a log is the same whether
/// they are exported or not.
pub(crate) fn logging<W>(
    format: LogFormat,
    filter: EnvFilter,
    to: W,
) -> (
    Box<dyn Layer<Registry> + Send + Sync>,
    Handle<EnvFilter, Registry>,
)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    // What the level says is what is most that can be logged.
    let no_span = filter_fn(|of| !(of.is_span() && is_ours(of)));
    let filter = filter.and(no_span.with_max_level_hint(LevelFilter::TRACE));
    let layer = fmt::layer().with_writer(to);
    let layer = match format {
        LogFormat::Text => {
            let colours = io::stderr().is_terminal();
            layer.with_ansi(colours).with_filter(filter).boxed()
        }
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
    };
    (layer, handle)
}
