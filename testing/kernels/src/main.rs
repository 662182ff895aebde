//! `make test-kernels`: netqos on other kernels than this machine's.
//!
//! ```text
//!   Debian's archive ─ apt ─► cache/kernels/6.1/  vmlinuz, modules
//!   target/dist, guest/ ────► initramfs            netqos, busybox, the modules that it needs
//!                             └► QEMU, emulated ─► guest/init runs a cell ─► serial line ─► here
//! ```
//!
//! A cell is a test on one kernel. Emulation makes no use of `/dev/kvm`, and a machine's clock counts the
//! instructions that it executes, so that what is measured depends on no other load of this one.
#![forbid(unsafe_code)]

mod cell;
mod image;
mod kernel;
mod machine;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use crate::cell::{CELLS, Cell};
use crate::image::Image;

/// Test netqos on other kernels, each in an emulated machine.
///
/// Needs the executables of `make build`. Kernels are Debian's packages, kept in ~/.cache/netqos/kernels.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  make test-kernels
  make test-kernels ARGS='--only 5.10/programs,6.1/programs'

Exit codes: 0 all passed, 1 one did not, 2 wrong usage."
)]
struct Arguments {
    /// Cells to run, such as 6.1/programs. By default all
    #[arg(long, value_name = "KERNEL/TEST", value_delimiter = ',', value_parser = cell::parse)]
    only: Vec<&'static Cell>,
    /// Print the names of the cells
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        CELLS.iter().for_each(|cell| println!("{cell}"));
        return ExitCode::SUCCESS;
    }
    let cells = match arguments.only.is_empty() {
        true => CELLS.iter().collect(),
        false => arguments.only,
    };
    let mut failed = Vec::new();
    for cell in &cells {
        let began = Instant::now();
        let outcome = test(cell);
        let seconds = began.elapsed().as_secs();
        match outcome {
            Ok(said) => println!("{seconds:4} s  ok      {cell}: {said}"),
            Err(why) => {
                println!("{seconds:4} s  FAILED  {cell}: {why:#}");
                failed.push(cell.to_string());
            }
        }
    }
    let passed = cells.len() - failed.len();
    println!("kernels: {passed} passed, {} failed", failed.len());
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What was seen in it, in a line.
fn test(cell: &Cell) -> anyhow::Result<String> {
    let kernel = cell.kernel.fetch()?;
    let image = Image::build(&kernel)?;
    let output = machine::run(&kernel, &image, cell.test, cell.patience)?;
    (cell.judge)(&output)
}
