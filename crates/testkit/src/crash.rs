//! A call that is killed at a moment of the test's choosing: between two system calls, which is
//! all that anybody outside of the process can tell apart.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::Call;
use crate::lacking::about_to_be_made;

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
        let mut made = 0;
        self.killed_before(|_, _| {
            made += 1;
            made > nth
        })
    }

    /// The same, where only those system calls count that may change something outside of the
    /// process: whoever comes after it finds the same as before the next of them.
    pub fn killed_at_change(&self, nth: usize) -> Result<bool> {
        let mut made = 0;
        self.killed_before(|number, arguments| {
            made += usize::from(may_change(number, arguments));
            made > nth
        })
    }

    /// Runs it, and kills it when it is about to make the first system call of which this is true.
    fn killed_before(&self, mut is_last: impl FnMut(i64, [u64; 6]) -> bool) -> Result<bool> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec there is one system call, and no allocation.
        unsafe { command.pre_exec(|| trace(libc::PTRACE_TRACEME, 0, 0)) };
        let child = self.spawn(&mut command)?;
        let pid = Pid::from_child(&child);
        let raw = pid.as_raw_nonzero().get();
        ended(pid).context("wait for the exec")?;
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        trace(libc::PTRACE_SETOPTIONS, raw, options as usize).context("trace the plugin")?;
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
            if let Some((number, arguments)) = about_to_be_made(raw)?
                && is_last(number, arguments)
            {
                kill_process(pid, Signal::KILL)?;
                while ended(pid)?.is_some() {}
                return Ok(true);
            }
        }
    }
}

/// True for a system call that does more than to look, and not only to the process itself.
fn may_change(number: i64, [first, _, third, ..]: [u64; 6]) -> bool {
    match number {
        // Maps and programs that nobody has pinned go with the process.
        libc::SYS_bpf => !LOOKS.contains(&first),
        libc::SYS_openat => third & libc::O_CREAT as u64 != 0,
        number => CHANGES.contains(&number),
    }
}

/// Commands of `bpf` that look, or make what is the process's own: create a map; look up; next
/// key; load; get an object; next program and map; program and map by number; ask for information,
/// and what is on a hook; load and get types; look up many.
const LOOKS: [u64; 14] = [0, 1, 4, 5, 7, 11, 12, 13, 14, 15, 16, 18, 19, 24];

/// System calls that change links, files and mounts.
const CHANGES: &[i64] = &[
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_write,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mount,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

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
