//! Logs, and how much they say.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _};

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object of JSON on each line.
    Json,
}

/// How a daemon is told to log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArguments {
    /// How lines of the log look.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace, or parts with levels.
    #[arg(long, value_name = "LEVEL", env = "NETQOS_LOG", default_value = "info")]
    log_level: String,
}

impl LogArguments {
    /// Begins to log to standard error.
    ///
    /// # Errors
    /// The level is none, which has been said in the name of this program: the exit code for wrong usage.
    pub fn begin(&self, program: &str) -> Result<Logs, ExitCode> {
        let wrong = |why: String| {
            // Nothing else can report an error of this.
            let _ = writeln!(io::stderr(), "{program}: {why}");
            ExitCode::from(2)
        };
        let filter = EnvFilter::try_new(&self.log_level)
            .map_err(|why| wrong(format!("--log-level {:?}: {why}", self.log_level)))?;
        let (filter, handle) = reload::Layer::new(filter);
        let layer = fmt::layer().with_writer(io::stderr);
        let layer = match self.log_format {
            LogFormat::Text => {
                let colours = io::stderr().is_terminal();
                layer.with_ansi(colours).with_filter(filter).boxed()
            }
            LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
        };
        let begun = tracing_subscriber::registry().with(layer).try_init();
        begun.map_err(|why| wrong(format!("begin to log: {why}")))?;
        Ok(Logs { handle })
    }
}

/// The logs of this process, which can be told to say more or less while it runs.
#[derive(Clone, Debug)]
pub struct Logs {
    handle: Handle<EnvFilter, Registry>,
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
}
