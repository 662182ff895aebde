//! A kernel without nftables, or one on which it shows who asks for it.

use std::io;
use std::mem::offset_of;
use std::thread;

use anyhow::{Context, Result, anyhow};

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K` and `BPF_RET | BPF_K`.
const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;

/// What happens to a process that opens a socket to netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nfnetlink {
    /// It is told that there is no such protocol, as by a kernel without it.
    Missing,
    /// A signal ends it.
    Fatal,
}

/// Does something on a thread of its own, in whose processes it is so.
pub fn with_nfnetlink<T: Send>(is: Nfnetlink, act: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(move || -> Result<T> {
            restrict(is).context("restrict a thread's system calls")?;
            Ok(act())
        });
        thread.join().map_err(|_| anyhow!("it panicked"))?
    })
}

fn restrict(is: Nfnetlink) -> io::Result<()> {
    let action = match is {
        Nfnetlink::Missing => libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32,
        Nfnetlink::Fatal => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let step = |code: u32, k: u32, or_skip: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: or_skip,
        k,
    };
    let number = offset_of!(libc::seccomp_data, nr) as u32;
    // The lower half of an argument; `make test` runs on little-endian machines only.
    let argument =
        |index: u32| offset_of!(libc::seccomp_data, args) as u32 + index * size_of::<u64>() as u32;
    let mut program = [
        step(LOAD, number, 0),
        step(IS, libc::SYS_socket as u32, 5),
        step(LOAD, argument(0), 0),
        step(IS, libc::AF_NETLINK as u32, 3),
        step(LOAD, argument(2), 0),
        step(IS, libc::NETLINK_NETFILTER as u32, 1),
        step(ANSWER, action, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which lives until the call returns; the filter holds
    // for the calling thread and for what it starts.
    let made = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    match made {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
