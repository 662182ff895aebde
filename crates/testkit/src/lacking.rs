//! A kernel that lacks a kind of qdisc, link, filter or action.
//!
//! The program under test is the one that is shipped, and the answers are the kernel's own: what
//! changes is the name that it is asked for. On the way into the kernel the attribute "kind: tbf"
//! of a netlink message becomes "kind: xxx", which is looked for, and not found, where `tbf` would
//! not be found on a kernel without it. Kinds have attribute number 1 wherever they are named
//! (`IFLA_INFO_KIND`, `TCA_KIND`, `TCA_ACT_KIND`).
//!
//! A kernel whose verifier refuses a program is made in the same way: the program's first instruction becomes
//! one that no kernel knows.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::Pid;

use crate::Outcome;
use crate::crash::{PtraceRequest, SYSTEM_CALL_STOP, trace, wait};

/// The number of all attributes that name a kind.
const KIND: u16 = 1;
/// `PTRACE_GET_SYSCALL_INFO` (Linux 5.3), the same on every architecture.
const GET_SYSCALL_INFO: PtraceRequest = 0x420e;
/// Of `bpf`: load a program, and where `union bpf_attr` has its instructions and its name.
const BPF_PROG_LOAD: u64 = 5;
const PROGRAM_INSTRUCTIONS: u64 = 8;
const PROGRAM_NAME: u64 = 48;
const PROGRAM_NAME_BYTES: usize = 16;
/// An opcode that no kernel knows.
const UNKNOWN_OPCODE: u8 = 0xff;
/// `PTRACE_SYSCALL_INFO_ENTRY`.
const ENTRY: u8 = 1;

/// Lets the command be traced by the thread that spawns it.
pub(crate) fn prepare(command: &mut Command) {
    // SAFETY: between fork and exec there is one system call, and no allocation.
    unsafe { command.pre_exec(|| trace(libc::PTRACE_TRACEME, 0, 0)) };
}

/// Runs a program to its end on a kernel without these kinds, as far as its first thread sees.
pub fn run_without(command: &mut Command, kinds: &[&str]) -> Result<Outcome> {
    run_lacking(command, kinds, &[])
}

/// Runs a program to its end on a kernel whose verifier refuses eBPF programs of these names, as far as its first
/// thread sees.
pub fn run_refusing(command: &mut Command, programs: &[&str]) -> Result<Outcome> {
    run_lacking(command, &[], programs)
}

/// Runs a program to its end on a kernel without these kinds, whose verifier refuses eBPF programs of these names.
pub fn run_lacking(command: &mut Command, kinds: &[&str], programs: &[&str]) -> Result<Outcome> {
    follow(start(command)?, |raw, memory| {
        match about_to_be_made(raw)? {
            Some((libc::SYS_bpf, [BPF_PROG_LOAD, attributes, ..])) => {
                refuse(memory, attributes, programs)
            }
            _ => match message_about_to_be_sent(raw)? {
                Some((start, length)) => rename(memory, start, length, kinds),
                None => Ok(()),
            },
        }
    })
}

fn start(command: &mut Command) -> Result<Child> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    prepare(command);
    command.spawn().context("run what is under test")
}

/// Follows a child that was [prepared](prepare) to its end. What it prints has to fit a pipe.
pub(crate) fn finish_without<K: AsRef<str>>(child: Child, kinds: &[K]) -> Result<Outcome> {
    follow(child, |raw, memory| match message_about_to_be_sent(raw)? {
        Some((start, length)) => rename(memory, start, length, kinds),
        None => Ok(()),
    })
}

/// Follows a child to its end, and calls this before and after each of its system calls.
fn follow(child: Child, at_call: impl Fn(i32, &File) -> Result<()>) -> Result<Outcome> {
    let pid = Pid::from_child(&child);
    let raw = pid.as_raw_nonzero().get();
    wait(pid).context("wait for the exec")?;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    trace(libc::PTRACE_SETOPTIONS, raw, options as usize).context("trace it")?;
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{raw}/mem"))?;
    let mut signal = 0;
    let status = loop {
        trace(libc::PTRACE_SYSCALL, raw, signal as usize)?;
        let status = wait(pid)?;
        if !status.stopped() {
            break ExitStatus::from_raw(status.as_raw());
        }
        signal = match status.stopping_signal() {
            Some(SYSTEM_CALL_STOP) => {
                at_call(raw, &memory)?;
                0
            }
            other => other.unwrap_or(0),
        };
    };
    Outcome::of(child, status)
}

/// Where the bytes are that the process, stopped before `sendto`, is about to send.
fn message_about_to_be_sent(pid: i32) -> Result<Option<(u64, usize)>> {
    match about_to_be_made(pid)? {
        Some((libc::SYS_sendto, [_, start, length, ..])) => {
            Ok(Some((start, usize::try_from(length)?)))
        }
        _ => Ok(None),
    }
}

/// The number and arguments of the system call before which the process is stopped; `None` when it
/// is stopped after one.
pub(crate) fn about_to_be_made(pid: i32) -> Result<Option<(i64, [u64; 6])>> {
    // `struct ptrace_syscall_info`: op (u8), instruction, stack, then number and arguments.
    let mut info = [0_u64; 11];
    // SAFETY: the kernel writes at most as many bytes as it is told that there are.
    let written =
        unsafe { libc::ptrace(GET_SYSCALL_INFO, pid, size_of_val(&info), info.as_mut_ptr()) };
    if written == -1 {
        return Err(io::Error::last_os_error()).context("ask for the system call");
    }
    let [
        op,
        _,
        _,
        number,
        first,
        second,
        third,
        fourth,
        fifth,
        sixth,
        _,
    ] = info;
    let is_entry = op.to_ne_bytes()[0] == ENTRY;
    let arguments = [first, second, third, fourth, fifth, sixth];
    Ok(is_entry.then_some((number as i64, arguments)))
}

/// Replaces the names of these kinds.
fn rename<K: AsRef<str>>(memory: &File, start: u64, length: usize, kinds: &[K]) -> Result<()> {
    let mut message = vec![0; length];
    memory.read_exact_at(&mut message, start)?;
    for kind in kinds.iter().map(AsRef::as_ref) {
        // Links are asked for without a zero behind the name, all else with one.
        for name in [kind.to_owned(), format!("{kind}\0")] {
            let header = [((4 + name.len()) as u16).to_ne_bytes(), KIND.to_ne_bytes()];
            let attribute = [header.as_flattened(), name.as_bytes()].concat();
            let found = message
                .windows(attribute.len())
                .enumerate()
                .filter(|(_, bytes)| *bytes == attribute);
            for (at, _) in found {
                let nobodys = "x".repeat(kind.len());
                memory.write_all_at(nobodys.as_bytes(), start + at as u64 + 4)?;
            }
        }
    }
    Ok(())
}

/// Spoils the program that is about to be loaded if it has one of these names.
fn refuse(memory: &File, attributes: u64, programs: &[&str]) -> Result<()> {
    let mut name = [0; PROGRAM_NAME_BYTES];
    memory.read_exact_at(&mut name, attributes + PROGRAM_NAME)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if programs.iter().any(|program| program.as_bytes() == name) {
        let mut instructions = [0; 8];
        memory.read_exact_at(&mut instructions, attributes + PROGRAM_INSTRUCTIONS)?;
        memory.write_all_at(&[UNKNOWN_OPCODE], u64::from_ne_bytes(instructions))?;
    }
    Ok(())
}
