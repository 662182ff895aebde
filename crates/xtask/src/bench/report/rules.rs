//! The tables of what rules cost, and of what rates they give.

mod costs;
mod packets;
mod rates;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::{mark, publish};
use crate::bench::rules::Measured;

const NOTES: &str = include_str!("rules/notes.md");

/// Writes the tables, and prints them.
pub fn write_rules(file: &Path, measured: &Measured) -> Result<()> {
    publish(file, &tables(measured)?)
}

fn tables(measured: &Measured) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks of rules\n\n<!-- Written by `cargo xtask bench-rules`; the notes below the tables are \
         crates/xtask/src/bench/report/rules/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "What rules per destination cost, and what of their rates they give, on kernel {}, {} \
         cores. `make bench` measures all of it again, `cargo xtask bench-rules` all but the \
         rates. ✓ reaches what was to be reached, ✗ falls short of it.\n",
        measured.kernel, measured.cores,
    )?;
    packets::live(&mut text, measured)?;
    packets::program(&mut text, &measured.program)?;
    packets::hooks(&mut text, measured.hooks)?;
    costs::many_peers(&mut text, &measured.many_peers)?;
    costs::index(&mut text, &measured.first_index)?;
    costs::changes(&mut text, &measured.changes)?;
    costs::end_to_end(&mut text, &measured.end_to_end)?;
    match &measured.rates {
        Some(measured) => rates::rates(&mut text, measured)?,
        None => text.push_str(
            "\n## Rates\n\nNot measured in this run: `cargo xtask bench-rules --rates`.\n",
        ),
    }
    text.push_str(NOTES);
    Ok(text)
}
