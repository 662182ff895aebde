//! Waiting for programs that run.

use std::thread::sleep;
use std::time::Duration;

/// `MEMBARRIER_CMD_GLOBAL` of `include/uapi/linux/membarrier.h`.
const GLOBAL: libc::c_int = 1;
/// Longer than a program is held up on its way, as far as one can tell.
const WHILE: Duration = Duration::from_millis(20);

/// Waits until each program has ended that was running: what it has read of maps is of no more
/// consequence. It is membarrier(2), which waits for an RCU grace period, some 8 ms. Where that is
/// not to be had (a kernel without it, or with `nohz_full`), it is 20 ms.
pub fn wait_for_programs() {
    // SAFETY: three integers, and no memory.
    let waited = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if waited != 0 {
        sleep(WHILE);
    }
}
