//! `make test-kernels`: netqos on other kernels than this machine's.
//!
//! ```text
//!   Debian's archive ─ apt ─► cache/kernels/6.1/  vmlinuz, modules
//!   target/dist, guest/ ────► initramfs            netqos, busybox, the modules that it needs
//!                             └► QEMU, emulated ─► guest/init runs a cell ─► serial line ─► judge
//!                                                  testing/kernels/results.json ◄───────────┘
//!                                                  └► docs/kernels.md
//! ```
//!
//! A cell is a test on one kernel. Emulation makes no use of `/dev/kvm`, and a machine's clock counts the
//! instructions that it executes, so that what is measured depends on no other load of this one.
#![forbid(unsafe_code)]

mod cell;
mod image;
mod judge;
mod kernel;
mod machine;
mod matrix;
mod programs;
mod results;
mod table;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;

use crate::cell::{Cell, LONGEST, Verdict};
use crate::image::Image;
use crate::kernel::{Kernel, Unpacked};
use crate::programs::Programs;
use crate::results::{Results, Stored};

/// Test netqos on other kernels, each in an emulated machine.
///
/// Needs the executables of `make build`. Kernels are Debian's packages, kept in ~/.cache/netqos/kernels.
/// A cell that has passed is not run again until the executables, the kernel's package, the test, its example or its
/// judge change.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  make test-kernels
  make test-kernels ARGS='--only 5.10/programs,6.1/programs'
  make test-kernels ARGS=--table

Exit codes: 0 all passed, 1 one did not, 2 wrong usage."
)]
struct Arguments {
    /// Cells to run, such as 6.1/programs. By default all
    #[arg(long, value_name = "KERNEL/TEST", value_delimiter = ',', value_parser = matrix::parse)]
    only: Vec<Cell>,
    /// Run cells again that have passed before
    #[arg(long)]
    fresh: bool,
    /// Kernels whose cells are skipped where the Debian mirrors no longer have the package; printed last
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', value_parser = Kernel::parse)]
    allow_missing: Vec<Kernel>,
    /// Print the names of the cells
    #[arg(long)]
    list: bool,
    /// Write docs/kernels.md from the last results, and run nothing
    #[arg(long)]
    table: bool,
}

/// The outcomes of a run.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    missing: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("test-kernels: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        matrix::cells().for_each(|cell| println!("{cell}"));
        return Ok(ExitCode::SUCCESS);
    }
    let file = results_file();
    if arguments.table {
        table::write(&Results::open(&file)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_whole = arguments.only.is_empty();
    let cells = match is_whole {
        true => matrix::cells().collect(),
        false => arguments.only,
    };
    let mut results = match arguments.fresh && is_whole {
        true => Results::empty(&file)?,
        false => Results::open(&file)?,
    };
    let mut tally = Tally::default();
    for cell in &cells {
        let may_miss = arguments.allow_missing.contains(&cell.kernel);
        run_cell(cell, arguments.fresh, may_miss, &mut results, &mut tally)?;
    }
    println!("kernels: {} passed, {} failed", tally.passed, tally.failed);
    table::write(&results)?;
    // Last, for `.ci/run` to repeat.
    if !tally.missing.is_empty() {
        println!("kernels: NOT RUN, no package: {}", tally.missing.join(", "));
    }
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Runs a cell that has to be, and prints its result in a line.
fn run_cell(
    cell: &Cell,
    is_fresh: bool,
    may_miss: bool,
    results: &mut Results,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let kernel = match cell.kernel.fetch() {
        Ok(kernel) => kernel,
        Err(why) if may_miss => {
            println!("   - s  no package  {cell}: {why:#}");
            tally.missing.push(cell.to_string());
            return Ok(());
        }
        Err(why) => {
            println!("   - s  FAILED  {cell}: {why:#}");
            tally.failed += 1;
            return Ok(());
        }
    };
    let key = image::key(cell, &kernel)?;
    if let Some(stored) = results.current(cell, &key).filter(|_| !is_fresh) {
        let verdict = &stored.verdict;
        println!(
            "   - s  {} before  {cell}: {}",
            verdict.outcome, verdict.shown
        );
        tally.passed += 1;
        return Ok(());
    }
    let programs = Programs::built()?;
    let verdict = test(cell, &kernel);
    let seconds = began.elapsed().as_secs();
    match verdict {
        Ok(verdict) => {
            println!(
                "{seconds:4} s  {}  {cell}: {}",
                verdict.outcome, verdict.shown
            );
            let stored = Stored::new(key, kernel.version()?, programs, verdict, seconds);
            results.put(cell, Some(stored))?;
            tally.passed += 1;
        }
        Err(why) => {
            println!("{seconds:4} s  FAILED  {cell}: {why:#}");
            results.put(cell, None)?;
            tally.failed += 1;
        }
    }
    Ok(())
}

/// The outcome of a cell, which is the expected one. All that it printed is in target/kernels/KERNEL-NAME.log.
fn test(cell: &Cell, kernel: &Unpacked) -> anyhow::Result<Verdict> {
    let image = Image::build(cell, kernel)?;
    let output = machine::run(kernel, &image, cell.row, LONGEST)?;
    let log = format!("target/kernels/{}-{}.log", cell.kernel, cell.row.name);
    let file = repository().join(&log);
    fs::create_dir_all(file.with_file_name(""))?;
    fs::write(&file, &output.text)?;
    let verdict = cell.row.judge.judge(&output).with_context(|| log.clone())?;
    ensure!(
        verdict.outcome == cell.expected(),
        "{log}: {}, not {}: {}",
        verdict.outcome,
        cell.expected(),
        verdict.shown
    );
    Ok(verdict)
}

/// Where results are kept. It is checked in, so that docs/kernels.md can be written from it again.
fn results_file() -> PathBuf {
    repository().join("testing/kernels/results.json")
}

/// The directory of the repository.
fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
