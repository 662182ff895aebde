//! A program that is followed step by step: it stands still before each system call that may change
//! something outside of it, and the test says what becomes of that.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::crash::{SYSTEM_CALL_STOP, trace, wait};
use crate::lacking::{about_to_be_made, prepare};
use crate::{Call, Outcome};

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is made.
    Go,
    /// It is not made, and the program is told this error (`libc::ENOMEM`).
    Fail(i32),
    /// The program is killed before it.
    Kill,
}

/// Where a program that is followed stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has stopped itself again ([`stop_here`]).
    Stop,
    /// Before this system call, which may change something outside of it, or waits for programs of
    /// the kernel.
    Call {
        /// The system call's number.
        number: i64,
        /// Its first argument: of `bpf`, the command.
        first: u64,
    },
}

/// What a process has been told about a system call that is not made.
enum Refused {
    No,
    With(i32),
}

impl Call {
    /// True where the kernel's answer to a step can be replaced ([`Then::Fail`]).
    pub const CAN_FAIL: bool = cfg!(target_arch = "x86_64");

    /// Runs it to its end, or until it is killed. From the moment on at which it stops itself
    /// ([`stop_here`]), this is asked before each step of its first thread, and when it stops
    /// itself again. What it prints has to fit a pipe.
    pub fn step_by_step(&self, mut then: impl FnMut(Step) -> Then) -> Result<Outcome> {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        let child = self.spawn(&mut command)?;
        let pid = Pid::from_child(&child);
        let raw = pid.as_raw_nonzero().get();
        wait(pid).context("wait for the exec")?;
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        trace(libc::PTRACE_SETOPTIONS, raw, options as usize).context("trace it")?;
        let memory = File::open(format!("/proc/{raw}/mem"))?;
        let mut is_followed = false;
        let mut refused = Refused::No;
        let mut signal = 0;
        loop {
            let request = match is_followed {
                true => libc::PTRACE_SYSCALL,
                false => libc::PTRACE_CONT,
            };
            trace(request, raw, signal as usize)?;
            let status = wait(pid)?;
            if !status.stopped() {
                return Outcome::of(child, ExitStatus::from_raw(status.as_raw()));
            }
            signal = match status.stopping_signal() {
                Some(libc::SIGSTOP) => {
                    if is_followed && then(Step::Stop) == Then::Kill {
                        return Outcome::of(child, killed(pid)?);
                    }
                    is_followed = true;
                    0
                }
                Some(SYSTEM_CALL_STOP) => {
                    match about_to_be_made(raw)? {
                        Some((number, arguments)) if may_change(&memory, number, arguments)? => {
                            let step = Step::Call {
                                number,
                                first: arguments[0],
                            };
                            match then(step) {
                                Then::Go => {}
                                Then::Fail(errno) => {
                                    set_number(raw, -1)?;
                                    refused = Refused::With(errno);
                                }
                                Then::Kill => return Outcome::of(child, killed(pid)?),
                            }
                        }
                        Some(_) => {}
                        None => {
                            if let Refused::With(errno) = refused {
                                set_answer(raw, -i64::from(errno))?;
                                refused = Refused::No;
                            }
                        }
                    }
                    0
                }
                other => other.unwrap_or(0),
            };
        }
    }
}

/// Stops the calling process, for [`Call::step_by_step`] to follow it from here on.
pub fn stop_here() -> Result<()> {
    Ok(kill_process(rustix::process::getpid(), Signal::STOP)?)
}

fn killed(pid: Pid) -> Result<ExitStatus> {
    kill_process(pid, Signal::KILL)?;
    loop {
        let status = wait(pid)?;
        if !status.stopped() {
            return Ok(ExitStatus::from_raw(status.as_raw()));
        }
    }
}

/// True for a system call that does more than to look, and not only to the process itself.
fn may_change(memory: &File, number: i64, [first, second, third, ..]: [u64; 6]) -> Result<bool> {
    Ok(match number {
        // Maps and programs that nobody has pinned go with the process.
        libc::SYS_bpf => !LOOKS.contains(&first),
        libc::SYS_openat => third & libc::O_CREAT as u64 != 0,
        libc::SYS_write => first > libc::STDERR_FILENO as u64,
        libc::SYS_sendto => {
            let mut header = [0; 6];
            memory.read_exact_at(&mut header, second)?;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            // Of each kind of object, the third message asks (`RTM_GETLINK` …).
            let asks = (libc::RTM_NEWLINK..0x100).contains(&kind) && kind & 3 == 2;
            !asks
        }
        number => CHANGES.contains(&number),
    })
}

/// Commands of `bpf` that look, or make what is the process's own: create a map; look up; next
/// key; load; get an object; run; next program and map; program and map by number; ask for
/// information, and what is on a hook; load, get and list types; look up many.
const LOOKS: [u64; 16] = [0, 1, 4, 5, 7, 10, 11, 12, 13, 14, 15, 16, 18, 19, 23, 24];

/// System calls that change links, files and mounts, and the one that waits for programs of the kernel.
const CHANGES: &[i64] = &[
    libc::SYS_sendmsg,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mount,
    libc::SYS_membarrier,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Replaces the number of the system call before which the process is stopped: the kernel refuses
/// one of -1.
fn set_number(pid: i32, number: i64) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    return set_register(pid, libc::ORIG_RAX, number);
    #[cfg(not(target_arch = "x86_64"))]
    bail!("the number {number} of a system call of {pid} cannot be replaced here");
}

/// Replaces what the system call has answered behind which the process is stopped.
fn set_answer(pid: i32, answer: i64) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    return set_register(pid, libc::RAX, answer);
    #[cfg(not(target_arch = "x86_64"))]
    bail!("the answer {answer} to a system call of {pid} cannot be replaced here");
}

#[cfg(target_arch = "x86_64")]
fn set_register(pid: i32, register: libc::c_int, value: i64) -> Result<()> {
    let place = register as usize * size_of::<u64>();
    // SAFETY: it writes to a register of the other process.
    let result = unsafe { libc::ptrace(libc::PTRACE_POKEUSER, pid, place, value) };
    if result == -1 {
        bail!("set a register: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
