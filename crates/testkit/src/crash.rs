//! A call that is killed at a moment of the test's choosing: between two system calls, which is
//! all that anybody outside of the process can tell apart.

use std::io;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::Call;
use crate::lacking::{about_to_be_made, prepare};

/// A stop that `PTRACE_O_TRACESYSGOOD` marks as one for a system call.
pub(crate) const SYSTEM_CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// The C libraries differ in its sign.
#[cfg(target_env = "musl")]
pub(crate) type PtraceRequest = libc::c_int;
#[cfg(not(target_env = "musl"))]
pub(crate) type PtraceRequest = libc::c_uint;

impl Call {
    /// Runs it, and kills it when it is about to make its `nth` system call, counted from 0 and
    /// from its `exec`. `false`: it ended before, and nothing was cut short.
    pub fn killed_at(&self, nth: usize) -> Result<bool> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        prepare(&mut command);
        kill_at(&self.spawn(&mut command)?, nth)
    }

    /// Runs it to its end. Returns how often its first thread synced a file or directory.
    pub fn count_fsyncs(&self) -> Result<usize> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        prepare(&mut command);
        let mut made = 0;
        kill_when(&self.spawn(&mut command)?, |number| {
            made += usize::from([libc::SYS_fsync, libc::SYS_fdatasync].contains(&number));
            false
        })?;
        Ok(made)
    }
}

/// [`Call::killed_at`] of a program that is no plugin, without input.
pub fn run_killed_at(command: &mut Command, nth: usize) -> Result<bool> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    prepare(command);
    kill_at(&command.spawn().context("run what is under test")?, nth)
}

/// Follows a child that was [prepared](prepare) to its `nth` system call.
fn kill_at(child: &Child, nth: usize) -> Result<bool> {
    let mut made = 0;
    kill_when(child, |_| {
        made += 1;
        made > nth
    })
}

/// Follows a child that was [prepared](prepare) to its end, or to the system call that is to kill it.
fn kill_when(child: &Child, mut kills: impl FnMut(i64) -> bool) -> Result<bool> {
    let pid = Pid::from_child(child);
    let raw = pid.as_raw_nonzero().get();
    ended(pid).context("wait for the exec")?;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    trace(libc::PTRACE_SETOPTIONS, raw, options as usize).context("trace it")?;
    let mut signal = 0;
    loop {
        trace(libc::PTRACE_SYSCALL, raw, signal as usize)?;
        let Some(status) = ended(pid)? else {
            return Ok(false);
        };
        let stopped_by = status.stopping_signal();
        if stopped_by != Some(SYSTEM_CALL_STOP) {
            // Not for us.
            signal = stopped_by.unwrap_or(0);
            continue;
        }
        signal = 0;
        // Each system call stops twice, before and after.
        let Some((number, _)) = about_to_be_made(raw)? else {
            continue;
        };
        if kills(number) {
            kill_process(pid, Signal::KILL)?;
            while ended(pid)?.is_some() {}
            return Ok(true);
        }
    }
}

/// Waits for a stop; `None` when the process has ended instead.
fn ended(pid: Pid) -> Result<Option<WaitStatus>> {
    let status = wait(pid)?;
    Ok(status.stopped().then_some(status))
}

/// Waits for a stop or the end.
pub(crate) fn wait(pid: Pid) -> Result<WaitStatus> {
    let (_, status) = waitpid(Some(pid), WaitOptions::empty())?.context("nothing to wait for")?;
    Ok(status)
}

pub(crate) fn trace(request: PtraceRequest, pid: i32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests used here reads or writes memory of this process.
    let result = unsafe { libc::ptrace(request, pid, 0_usize, data) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
