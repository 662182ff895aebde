//! Runs a program and says what it took: `measure PROGRAM`, standard input is the program's.
//!
//! A process of its own, and a small one, because the kernel counts the memory of whoever executes
//! a program as the program's.

use std::io::Error;
use std::process::{Command, Stdio, exit};
use std::time::Instant;

fn main() {
    let Some(program) = std::env::args_os().nth(1) else {
        eprintln!("usage: measure PROGRAM");
        exit(2);
    };
    let start = Instant::now();
    let child = Command::new(&program).stdout(Stdio::null()).spawn();
    let child = match child {
        Ok(child) => child,
        Err(why) => {
            eprintln!("measure: {}: {why}", program.display());
            exit(2);
        }
    };
    let mut status = 0;
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both point to live values, and the child is ours and not waited for yet.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    if waited < 0 {
        eprintln!("measure: {}", Error::last_os_error());
        exit(2);
    }
    let wall = start.elapsed().as_nanos();
    let nanos =
        |time: libc::timeval| time.tv_sec as u128 * 1_000_000_000 + time.tv_usec as u128 * 1000;
    let cpu = nanos(usage.ru_utime) + nanos(usage.ru_stime);
    println!(
        "{{\"code\":{},\"wallNanos\":{wall},\"cpuNanos\":{cpu},\"peakBytes\":{}}}",
        libc::WEXITSTATUS(status),
        usage.ru_maxrss * 1024
    );
}
