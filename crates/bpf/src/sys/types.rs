//! The kernel's descriptions of its types, which it has for itself and for each module.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Attributes, BPF_OBJ_GET_INFO_BY_FD, absent_is_none, text, word};
use crate::Result;

const BPF_BTF_GET_FD_BY_ID: i64 = 19;
const BPF_BTF_GET_NEXT_ID: i64 = 23;

/// Opens the types of a module of this name; `None` when there is no such module.
pub(crate) fn module_types(module: &str) -> Result<Option<OwnedFd>> {
    let mut id = 0;
    loop {
        let mut attributes = Attributes::new().u32(0, id);
        // SAFETY: no pointer among the attributes.
        let next = unsafe { attributes.call(BPF_BTF_GET_NEXT_ID, "list types") };
        if absent_is_none(next)?.is_none() {
            return Ok(None);
        }
        id = word(&attributes.0, 4);
        let mut attributes = Attributes::new().u32(0, id);
        // SAFETY: no pointer among the attributes; the answer is a descriptor.
        let opened = unsafe { attributes.open(BPF_BTF_GET_FD_BY_ID, "open types") };
        // They may have gone meanwhile.
        if let Some(types) = absent_is_none(opened)?
            && types_name(types.as_fd())?.as_deref() == Some(module.as_bytes())
        {
            return Ok(Some(types));
        }
    }
}

/// The name of the part of the kernel whose types these are; `None` for those of a program.
fn types_name(types: BorrowedFd<'_>) -> Result<Option<Vec<u8>>> {
    // struct bpf_btf_info { btf, btf_size, id, name, name_len, kernel_btf }
    const NAME: usize = 16;
    const NAME_LENGTH: usize = 24;
    const IS_KERNEL: usize = 28;
    let mut name = [0_u8; 64];
    let mut info = [0_u8; 32];
    info[NAME..NAME + 8].copy_from_slice(&(name.as_mut_ptr() as u64).to_ne_bytes());
    info[NAME_LENGTH..NAME_LENGTH + 4].copy_from_slice(&(name.len() as u32).to_ne_bytes());
    let mut attributes = Attributes::new()
        .fd(0, types)
        .u32(4, info.len() as u32)
        .pointer(8, info.as_mut_ptr());
    // SAFETY: the kernel writes no more of the description, and of the name in it, than it is
    // told that there is room for.
    match unsafe { attributes.call(BPF_OBJ_GET_INFO_BY_FD, "describe types") } {
        // Longer than any name that is looked for.
        Err(error) if error.errno() == Some(libc::ENOSPC) => return Ok(None),
        described => described?,
    };
    Ok((word(&info, IS_KERNEL) == 1).then(|| text(&name).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_types_are_found_by_name() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: listing types needs root");
            return;
        }
        assert!(module_types("vmlinux").unwrap().is_some());
        assert!(module_types("no such module").unwrap().is_none());
    }
}
