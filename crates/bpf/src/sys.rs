//! bpf(2) on what exists already: pinned objects, map elements, tcx hooks.
//!
//! Commands and structures are those of `include/uapi/linux/bpf.h`. Each call hands the kernel a
//! zeroed `union bpf_attr` of [`ATTR`] bytes, in which the fields of that command are set.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{Error, Result};

#[cfg(feature = "rules")]
mod programs;
#[cfg(feature = "rules")]
mod tables;
#[cfg(feature = "rules")]
mod types;

#[cfg(feature = "rules")]
pub use programs::wait_for_programs;
#[cfg(feature = "rules")]
pub(crate) use tables::*;
#[cfg(feature = "rules")]
pub(crate) use types::module_types;

const BPF_MAP_LOOKUP_ELEM: i64 = 1;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_MAP_DELETE_ELEM: i64 = 3;
const BPF_MAP_GET_NEXT_KEY: i64 = 4;
const BPF_PROG_LOAD: i64 = 5;
const BPF_OBJ_PIN: i64 = 6;
const BPF_OBJ_GET: i64 = 7;
#[cfg(feature = "classes")]
const BPF_PROG_ATTACH: i64 = 8;
#[cfg(feature = "classes")]
const BPF_PROG_DETACH: i64 = 9;
const BPF_PROG_GET_FD_BY_ID: i64 = 13;
const BPF_OBJ_GET_INFO_BY_FD: i64 = 15;
const BPF_PROG_QUERY: i64 = 16;
const BPF_LINK_CREATE: i64 = 28;

/// Create an element only where there is none.
pub(crate) const BPF_NOEXIST: u64 = 1;
/// Change an element only where there is one.
pub(crate) const BPF_EXIST: u64 = 2;
/// Copy the value under the spin lock that it holds.
pub(crate) const BPF_F_LOCK: u64 = 4;

/// How often a load is tried: a signal that comes while the verifier looks at a program ends that
/// with EAGAIN. As often as by libbpf.
pub(crate) const LOAD_ATTEMPTS: usize = 5;

/// Where `struct bpf_prog_info` has the name.
const PROGRAM_INFO_NAME: usize = 64;

/// A union bpf_attr long enough for every command here. A kernel that knows a shorter one accepts
/// it as long as the rest is zero.
const ATTR: usize = 128;

#[repr(C, align(8))]
struct Attributes([u8; ATTR]);

impl Attributes {
    fn new() -> Self {
        Self([0; ATTR])
    }

    /// The attributes of a command about an element of a map.
    fn element<K, V>(map: BorrowedFd<'_>, key: *const K, value: *const V) -> Self {
        Self::new().fd(0, map).pointer(8, key).pointer(16, value)
    }

    fn u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn pointer<T>(self, offset: usize, to: *const T) -> Self {
        self.u64(offset, to as u64)
    }

    fn fd(self, offset: usize, fd: BorrowedFd<'_>) -> Self {
        self.u32(offset, fd.as_raw_fd() as u32)
    }

    /// # Safety
    /// Every pointer among the attributes must be valid for what this command does with it.
    unsafe fn call(&mut self, command: i64, name: &'static str) -> Result<i32> {
        // SAFETY: the attributes are a live, zero-padded union bpf_attr; the caller answers for
        // the pointers in them.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), ATTR) };
        if result < 0 {
            return Err(Error::Command {
                command: name,
                source: io::Error::last_os_error(),
            });
        }
        Ok(result as i32)
    }

    /// The same, for a command that answers with a new descriptor.
    ///
    /// # Safety
    /// As for [`call`](Self::call); and the command is one of those.
    unsafe fn open(&mut self, command: i64, name: &'static str) -> Result<OwnedFd> {
        // SAFETY: the caller's promise.
        let fd = unsafe { self.call(command, name) }?;
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn path_string(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Foreign {
        path: path.to_owned(),
        what: "a path with a zero byte".to_owned(),
    })
}

/// Opens what is pinned at this path.
pub(crate) fn get(path: &Path) -> Result<OwnedFd> {
    get_for(path, 0)
}

/// The same, to read it alone: the kernel refuses to write by what is opened so.
pub(crate) fn get_to_read(path: &Path) -> Result<OwnedFd> {
    const BPF_F_RDONLY: u32 = 8;
    get_for(path, BPF_F_RDONLY)
}

fn get_for(path: &Path, flags: u32) -> Result<OwnedFd> {
    let path = path_string(path)?;
    let mut attributes = Attributes::new().pointer(0, path.as_ptr()).u32(12, flags);
    // SAFETY: the path is a live, zero-terminated string; what is opened is a descriptor.
    unsafe { attributes.open(BPF_OBJ_GET, "open a pinned object") }
}

/// Pins an object at this path.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let path = path_string(path)?;
    let mut attributes = Attributes::new().pointer(0, path.as_ptr()).fd(8, object);
    // SAFETY: the path is a live, zero-terminated string.
    unsafe { attributes.call(BPF_OBJ_PIN, "pin an object") }.map(drop)
}

/// Reads the value of a key; `None` when there is no such key.
///
/// # Safety
/// `K` and `V` must be plain data of exactly the map's key and value size.
pub(crate) unsafe fn lookup<K, V: Default>(
    map: BorrowedFd<'_>,
    key: &K,
    flags: u64,
) -> Result<Option<V>> {
    let mut value = V::default();
    let mut attributes = Attributes::element(map, key, &raw mut value).u64(24, flags);
    // SAFETY: both point to live values of the map's sizes, which is the caller's promise.
    absent_is_none(unsafe { attributes.call(BPF_MAP_LOOKUP_ELEM, "read a map") })
        .map(|found| found.map(|_| value))
}

/// Writes the value of a key.
///
/// # Safety
/// As for [`lookup`].
pub(crate) unsafe fn update<K, V>(
    map: BorrowedFd<'_>,
    key: &K,
    value: &V,
    flags: u64,
) -> Result<()> {
    let mut attributes = Attributes::element(map, key, value).u64(24, flags);
    // SAFETY: both point to live values of the map's sizes, which is the caller's promise.
    unsafe { attributes.call(BPF_MAP_UPDATE_ELEM, "write a map") }.map(drop)
}

/// Removes a key; says whether it was there.
///
/// # Safety
/// As for [`lookup`].
pub(crate) unsafe fn delete<K>(map: BorrowedFd<'_>, key: &K) -> Result<bool> {
    let mut attributes = Attributes::new().fd(0, map).pointer(8, key);
    // SAFETY: the key points to a live value of the map's size, which is the caller's promise.
    absent_is_none(unsafe { attributes.call(BPF_MAP_DELETE_ELEM, "delete from a map") })
        .map(|found| found.is_some())
}

/// All keys. Of what others add and remove meanwhile, any may be among them or not, and any key
/// may be there twice.
///
/// # Safety
/// As for [`lookup`].
pub(crate) unsafe fn keys<K: Default>(map: BorrowedFd<'_>) -> Result<Vec<K>> {
    let mut found = Vec::new();
    loop {
        let mut next = K::default();
        let last: *const K = found.last().map_or(std::ptr::null(), |last| last);
        let mut attributes = Attributes::element(map, last, &raw mut next);
        // SAFETY: both point to live values of the map's key size, or the first to none at all,
        // which asks for the first key.
        let called = unsafe { attributes.call(BPF_MAP_GET_NEXT_KEY, "walk a map") };
        match absent_is_none(called)? {
            Some(_) => found.push(next),
            None => return Ok(found),
        }
    }
}

/// What is not there is no failure.
fn absent_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first bytes of a program's, a map's or a link's description, as many as `N`.
pub(crate) fn info<const N: usize>(object: BorrowedFd<'_>) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut attributes = Attributes::new()
        .fd(0, object)
        .u32(4, N as u32)
        .pointer(8, bytes.as_mut_ptr());
    // SAFETY: the kernel writes at most the N bytes that it is told of.
    unsafe { attributes.call(BPF_OBJ_GET_INFO_BY_FD, "describe an object") }?;
    Ok(bytes)
}

/// The ids of the programs on a tcx hook of an interface of the calling thread's network
/// namespace, in the order in which they run; at most 64.
pub(crate) fn query(ifindex: u32, attach_type: u32) -> Result<Vec<u32>> {
    let mut ids = [0_u32; 64];
    let mut attributes = Attributes::new()
        .u32(0, ifindex)
        .u32(4, attach_type)
        .pointer(16, ids.as_mut_ptr())
        .u32(24, ids.len() as u32);
    // SAFETY: the kernel writes at most as many ids as it is told there is room for.
    unsafe { attributes.call(BPF_PROG_QUERY, "list the programs of a tcx hook") }?;
    let count = word(&attributes.0, 24);
    Ok(ids.into_iter().take(count as usize).collect())
}

/// Attaches a program to a tcx hook of an interface of the calling thread's network namespace.
pub(crate) fn link(
    program: BorrowedFd<'_>,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
) -> Result<OwnedFd> {
    let mut attributes = Attributes::new()
        .fd(0, program)
        .u32(4, ifindex)
        .u32(8, attach_type)
        .u32(12, flags);
    // SAFETY: no pointer among the attributes; the answer is a descriptor.
    unsafe { attributes.open(BPF_LINK_CREATE, "attach to a tcx hook") }
}

/// Attaches a program to a tcx hook of an interface of the calling thread's network namespace, where it
/// stays without a link, in place of another one, or where these flags say.
#[cfg(feature = "classes")]
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
    replaced: Option<BorrowedFd<'_>>,
) -> Result<()> {
    /// Put it where another one is.
    const BPF_F_REPLACE: u32 = 1 << 2;
    let attributes = Attributes::new()
        .u32(0, ifindex)
        .fd(4, program)
        .u32(8, attach_type);
    let mut attributes = match replaced {
        Some(replaced) => attributes.u32(12, BPF_F_REPLACE).fd(16, replaced),
        None => attributes.u32(12, flags),
    };
    // SAFETY: no pointer among the attributes.
    unsafe { attributes.call(BPF_PROG_ATTACH, "attach to a tcx hook") }.map(drop)
}

/// Takes a program that has no link from a tcx hook; says whether it was there.
#[cfg(feature = "classes")]
pub(crate) fn detach(program: BorrowedFd<'_>, ifindex: u32, attach_type: u32) -> Result<bool> {
    let mut attributes = Attributes::new()
        .u32(0, ifindex)
        .fd(4, program)
        .u32(8, attach_type);
    // SAFETY: no pointer among the attributes.
    absent_is_none(unsafe { attributes.call(BPF_PROG_DETACH, "detach from a tcx hook") })
        .map(|done| done.is_some())
}

/// Loads a program of type `BPF_PROG_TYPE_SCHED_CLS`. The name has at most 15 letters.
pub(crate) fn load(instructions: &[u64], name: &str) -> Result<OwnedFd> {
    load_calling(instructions, name, None)
}

/// The same, of a program that calls functions of the kernel, and of the module whose types are
/// these: those have the number 1 in an instruction.
pub(crate) fn load_calling(
    instructions: &[u64],
    name: &str,
    module: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd> {
    const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
    let license = c"GPL";
    let mut attributes = Attributes::new()
        .u32(0, BPF_PROG_TYPE_SCHED_CLS)
        .u32(4, instructions.len() as u32)
        .pointer(8, instructions.as_ptr())
        .pointer(16, license.as_ptr());
    let name = &name.as_bytes()[..name.len().min(15)];
    attributes.0[48..48 + name.len()].copy_from_slice(name);
    let modules = [0, module.map_or(0, |module| module.as_raw_fd())];
    if module.is_some() {
        attributes = attributes.pointer(120, modules.as_ptr());
    }
    let mut load = || {
        // SAFETY: as many instructions as the kernel is told of, a zero-terminated license, and as
        // many modules as the instructions number; the answer is a descriptor.
        unsafe { attributes.open(BPF_PROG_LOAD, "load a program") }
    };
    let mut loaded = load();
    for _ in 1..LOAD_ATTEMPTS {
        match &loaded {
            Err(error) if error.errno() == Some(libc::EAGAIN) => loaded = load(),
            _ => break,
        }
    }
    loaded
}

/// Lets the calling thread open no file from now on: it gets EACCES. The rest of the process is not affected.
///
/// # Errors
/// Returns an error if the kernel has no seccomp filters.
pub(crate) fn deny_open() -> io::Result<()> {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let calls = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
    ];
    let line = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    // The first word of `struct seccomp_data` is the number of the call.
    let mut filter = vec![line(LOAD_WORD, 0, 0)];
    let left = (1..=calls.len() as u8).rev();
    filter.extend(
        calls
            .iter()
            .zip(left)
            .map(|(call, left)| line(IF_EQUAL, left, *call as u32)),
    );
    filter.push(line(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(line(
        RETURN,
        0,
        libc::SECCOMP_RET_ERRNO | libc::EACCES as u32,
    ));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: both calls concern the calling thread alone; the filter lives until the second returns.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a program by its id.
pub(crate) fn program_by_id(id: u32) -> Result<OwnedFd> {
    let mut attributes = Attributes::new().u32(0, id);
    // SAFETY: no pointer among the attributes; the answer is a descriptor.
    unsafe { attributes.open(BPF_PROG_GET_FD_BY_ID, "open a program") }
}

/// The name of the program of this id; `None` when there is no such program any more.
pub(crate) fn program_name(id: u32) -> Result<Option<String>> {
    let Some(program) = absent_is_none(program_by_id(id))? else {
        return Ok(None);
    };
    let info = info::<80>(program.as_fd())?;
    let name = text(&info[PROGRAM_INFO_NAME..]);
    Ok(Some(String::from_utf8_lossy(name).into_owned()))
}

/// The number at this offset of a description.
pub(crate) fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

/// What stands before the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}
