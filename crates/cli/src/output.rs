//! How the command speaks: exit codes, formats, and errors in one line.

use std::error::Error;
use std::process::ExitCode;

use serde::Serialize;

/// Something is not as it should be.
pub const FAILED: u8 = 1;
/// The input is wrong.
pub const BAD_INPUT: u8 = 2;
/// This machine cannot do it.
pub const ENVIRONMENT: u8 = 3;

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
