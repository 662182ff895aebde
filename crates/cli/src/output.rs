//! How the command speaks: exit codes, formats, and errors in one line.
//!
//! A reader may close the pipe, and the disk of a redirected output may be full. The print macros of the standard
//! library panic then, even during a clean-up. This crate's macros of the same names keep the first error until
//! the command ends.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde::Serialize;

/// Something is not as it should be.
pub const FAILED: u8 = 1;
/// The input is wrong.
pub const BAD_INPUT: u8 = 2;
/// This machine cannot do it.
pub const ENVIRONMENT: u8 = 3;

/// Prints to standard output.
macro_rules! print {
    ($($words:tt)*) => { $crate::output::write(format_args!($($words)*)) };
}

/// Prints a line to standard output.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($words:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints to standard error.
macro_rules! eprint {
    ($($words:tt)*) => { $crate::output::write_error(format_args!($($words)*)) };
}

/// Prints a line to standard error.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::output::write_error(format_args!("{}\n", format_args!($($words)*))) };
}

/// The first error of standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Prints to standard output, until the first error.
pub fn write(words: fmt::Arguments<'_>) {
    if LOST.get().is_none()
        && let Err(why) = io::stdout().write_fmt(words)
    {
        let _ = LOST.set(why);
    }
}

/// Prints bytes to standard output.
pub fn bytes(bytes: &[u8]) -> ExitCode {
    if LOST.get().is_none()
        && let Err(why) = io::stdout().write_all(bytes)
    {
        let _ = LOST.set(why);
    }
    ExitCode::SUCCESS
}

/// Prints to standard error, and ignores errors.
pub fn write_error(words: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(words);
}

/// Returns the exit code of a command, and prints an error if output was lost. A closed pipe is no error: the
/// reader has read enough.
pub fn exit_code(code: ExitCode) -> ExitCode {
    if let Err(why) = io::stdout().flush() {
        let _ = LOST.set(why);
    }
    match LOST.get() {
        Some(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("netqos: standard output: {why}");
            match code == ExitCode::SUCCESS {
                true => ExitCode::from(FAILED),
                false => code,
            }
        }
        _ => code,
    }
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For machines.
    Json,
}

/// What is printed, where YAML is a choice, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DataFormat {
    /// For people.
    #[default]
    Table,
    /// For machines.
    Json,
    /// For machines, and for people who prefer it.
    Yaml,
}

/// Prints data, for people in the words that they are given.
pub fn data<T: Serialize>(format: DataFormat, data: &T, table: impl FnOnce(&T)) -> ExitCode {
    match format {
        DataFormat::Table => {
            table(data);
            ExitCode::SUCCESS
        }
        DataFormat::Json => json(data),
        // By way of JSON: what is a key there is a key here, and in the same order.
        DataFormat::Yaml => match serde_json::to_value(data).map(|it| serde_saphyr::to_string(&it))
        {
            Ok(Ok(text)) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Ok(Err(why)) => failure(FAILED, &why),
            Err(why) => failure(FAILED, &why),
        },
    }
}

/// Prints data for machines.
pub fn json(data: &impl Serialize) -> ExitCode {
    match serde_json::to_string_pretty(data) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => failure(FAILED, &why),
    }
}

/// Says what went wrong, with its causes, and ends with this code.
pub fn failure(code: u8, error: &dyn Error) -> ExitCode {
    eprintln!("netqos: {}", netqos_core::with_causes(error));
    ExitCode::from(code)
}
