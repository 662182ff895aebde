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

const BPF_MAP_LOOKUP_ELEM: i64 = 1;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_MAP_DELETE_ELEM: i64 = 3;
const BPF_MAP_GET_NEXT_KEY: i64 = 4;
const BPF_PROG_LOAD: i64 = 5;
const BPF_OBJ_PIN: i64 = 6;
const BPF_OBJ_GET: i64 = 7;
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
}

fn path_string(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Foreign {
        path: path.to_owned(),
        what: "a path with a zero byte".to_owned(),
    })
}

/// Opens what is pinned at this path.
pub(crate) fn get(path: &Path) -> Result<OwnedFd> {
    let path = path_string(path)?;
    let mut attributes = Attributes::new().pointer(0, path.as_ptr());
    // SAFETY: the path is a live, zero-terminated string.
    let fd = unsafe { attributes.call(BPF_OBJ_GET, "open a pinned object") }?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
    let mut attributes = Attributes::new()
        .fd(0, map)
        .pointer(8, key)
        .pointer(16, &raw mut value)
        .u64(24, flags);
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
    let mut attributes = Attributes::new()
        .fd(0, map)
        .pointer(8, key)
        .pointer(16, value)
        .u64(24, flags);
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

/// The key after this one, the first after `None`, `None` after the last.
///
/// # Safety
/// As for [`lookup`].
pub(crate) unsafe fn next_key<K: Default>(
    map: BorrowedFd<'_>,
    key: Option<&K>,
) -> Result<Option<K>> {
    let mut next = K::default();
    let after: *const K = key.map_or(std::ptr::null(), |key| key);
    let mut attributes = Attributes::new()
        .fd(0, map)
        .pointer(8, after)
        .pointer(16, &raw mut next);
    // SAFETY: both point to live values of the map's key size, or the first to none at all, which
    // the kernel allows.
    absent_is_none(unsafe { attributes.call(BPF_MAP_GET_NEXT_KEY, "walk a map") })
        .map(|found| found.map(|_| next))
}

fn absent_is_none(result: Result<i32>) -> Result<Option<()>> {
    match result {
        Ok(_) => Ok(Some(())),
        Err(Error::Command { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {
            Ok(None)
        }
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
    let count = u32::from_ne_bytes([
        attributes.0[24],
        attributes.0[25],
        attributes.0[26],
        attributes.0[27],
    ]);
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
    // SAFETY: no pointer among the attributes.
    let fd = unsafe { attributes.call(BPF_LINK_CREATE, "attach to a tcx hook") }?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
        // many modules as the instructions number.
        unsafe { attributes.call(BPF_PROG_LOAD, "load a program") }
    };
    let mut loaded = load();
    for _ in 1..LOAD_ATTEMPTS {
        match &loaded {
            Err(Error::Command { source, .. }) if source.raw_os_error() == Some(libc::EAGAIN) => {}
            _ => break,
        }
        loaded = load();
    }
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(loaded?) })
}

/// Opens a program by its id.
pub(crate) fn program_by_id(id: u32) -> Result<OwnedFd> {
    let mut attributes = Attributes::new().u32(0, id);
    // SAFETY: no pointer among the attributes.
    let fd = unsafe { attributes.call(BPF_PROG_GET_FD_BY_ID, "open a program") }?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The name of the program of this id; `None` when there is no such program any more.
pub(crate) fn program_name(id: u32) -> Result<Option<String>> {
    let program = match program_by_id(id) {
        Ok(program) => program,
        Err(Error::Command { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let info = info::<80>(program.as_fd())?;
    let name = &info[PROGRAM_INFO_NAME..];
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok(Some(String::from_utf8_lossy(&name[..end]).into_owned()))
}

/// The number at this offset of a description.
pub(crate) fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

#[cfg(feature = "rules")]
pub(crate) use tables::*;

/// What the tables of rules need besides.
#[cfg(feature = "rules")]
mod tables {
    use std::fs;

    use super::*;

    const BPF_MAP_CREATE: i64 = 0;
    const BPF_PROG_TEST_RUN: i64 = 10;
    const BPF_MAP_GET_FD_BY_ID: i64 = 14;
    const BPF_BTF_GET_FD_BY_ID: i64 = 19;
    const BPF_BTF_GET_NEXT_ID: i64 = 23;
    const BPF_MAP_UPDATE_BATCH: i64 = 26;
    const BPF_MAP_TYPE_HASH: u32 = 1;
    /// Where `struct bpf_map_info` has the sizes, and the most elements.
    const MAP_INFO_KEY_SIZE: usize = 8;
    const MAP_INFO_VALUE_SIZE: usize = 12;
    const MAP_INFO_MAX_ENTRIES: usize = 16;
    /// The kernel's form of a list of processors: `0-3,5`.
    const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";
    /// The size of `struct __sk_buff`, and where it has the scratch space.
    const SK_BUFF: usize = 192;
    const SK_BUFF_CB: usize = 48;
    /// Room for a packet that has become longer.
    const PACKET_ROOM: usize = 256;

    /// Makes a hash map with room for so many elements, all of it taken at once.
    pub(crate) fn create_hash(
        key: usize,
        value: usize,
        elements: u32,
        name: &str,
    ) -> Result<OwnedFd> {
        let mut attributes = Attributes::new()
            .u32(0, BPF_MAP_TYPE_HASH)
            .u32(4, key as u32)
            .u32(8, value as u32)
            .u32(12, elements);
        let name = &name.as_bytes()[..name.len().min(15)];
        attributes.0[28..28 + name.len()].copy_from_slice(name);
        // SAFETY: no pointer among the attributes.
        let fd = unsafe { attributes.call(BPF_MAP_CREATE, "make a map") }?;
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Opens a map by its id.
    pub(crate) fn map_by_id(id: u32) -> Result<OwnedFd> {
        let mut attributes = Attributes::new().u32(0, id);
        // SAFETY: no pointer among the attributes.
        let fd = unsafe { attributes.call(BPF_MAP_GET_FD_BY_ID, "open a map") }?;
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

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
            // SAFETY: no pointer among the attributes.
            let opened = unsafe { attributes.call(BPF_BTF_GET_FD_BY_ID, "open types") };
            let fd = match opened {
                Ok(fd) => fd,
                // Gone meanwhile.
                Err(Error::Command { source, .. })
                    if source.raw_os_error() == Some(libc::ENOENT) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
            let types = unsafe { OwnedFd::from_raw_fd(fd) };
            if types_name(types.as_fd())? == Some(module.as_bytes().to_vec()) {
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
            Err(Error::Command { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) => {
                return Ok(None);
            }
            described => described?,
        };
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len());
        Ok((word(&info, IS_KERNEL) == 1).then(|| name[..end].to_vec()))
    }

    #[cfg(test)]
    #[test]
    fn the_kernels_own_types_are_found_by_name() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: listing types needs root");
            return;
        }
        assert!(module_types("vmlinux").unwrap().is_some());
        assert!(module_types("no such module").unwrap().is_none());
    }

    /// Says how many elements a map has room for.
    pub(crate) fn map_room(map: BorrowedFd<'_>) -> Result<u32> {
        Ok(word(&info::<24>(map)?, MAP_INFO_MAX_ENTRIES))
    }

    /// Makes sure that a map's keys and values have these sizes.
    pub(crate) fn check_sizes(
        map: BorrowedFd<'_>,
        path: &Path,
        key: usize,
        value: usize,
    ) -> Result<()> {
        let info = info::<24>(map)?;
        let there = (
            word(&info, MAP_INFO_KEY_SIZE) as usize,
            word(&info, MAP_INFO_VALUE_SIZE) as usize,
        );
        if there == (key, value) {
            return Ok(());
        }
        Err(Error::Foreign {
            path: path.to_owned(),
            what: format!(
                "a map with keys and values of {} and {} bytes instead of {key} and {value}",
                there.0, there.1
            ),
        })
    }

    /// Writes the values of many keys.
    ///
    /// # Safety
    /// As for [`lookup`].
    pub(crate) unsafe fn update_batch<K, V>(
        map: BorrowedFd<'_>,
        keys: &[K],
        values: &[V],
    ) -> Result<()> {
        let count = keys.len().min(values.len());
        // { in_batch, out_batch, keys, values, count, map_fd, elem_flags, flags }
        let mut attributes = Attributes::new()
            .pointer(16, keys.as_ptr())
            .pointer(24, values.as_ptr())
            .u32(32, count as u32)
            .fd(36, map);
        // SAFETY: both point to as many live values of the map's sizes as the kernel is told of.
        unsafe { attributes.call(BPF_MAP_UPDATE_BATCH, "write to a map") }.map(drop)
    }

    /// Reads the values of a key of a map that has one for each of so many processors.
    ///
    /// # Safety
    /// As for [`lookup`]; and `V` has a size that is a multiple of eight, and there are no more
    /// processors than that.
    pub(crate) unsafe fn lookup_each<K, V: Default + Clone>(
        map: BorrowedFd<'_>,
        key: &K,
        processors: usize,
    ) -> Result<Option<Vec<V>>> {
        let mut values = vec![V::default(); processors];
        let mut attributes = Attributes::new()
            .fd(0, map)
            .pointer(8, key)
            .pointer(16, values.as_mut_ptr());
        // SAFETY: the key is live, and there is room for each processor's value.
        absent_is_none(unsafe { attributes.call(BPF_MAP_LOOKUP_ELEM, "read a map") })
            .map(|found| found.map(|()| values))
    }

    /// How many values a map has that has one for each processor.
    pub(crate) fn possible_processors() -> Result<usize> {
        let io = |source| Error::Io {
            path: POSSIBLE_PROCESSORS.into(),
            source,
        };
        let list = fs::read_to_string(POSSIBLE_PROCESSORS).map_err(io)?;
        let last = list
            .trim()
            .rsplit([',', '-'])
            .next()
            .and_then(|last| last.parse::<usize>().ok())
            .ok_or_else(|| io(io::ErrorKind::InvalidData.into()))?;
        Ok(last + 1)
    }

    /// Runs a program on a packet, with a number in the scratch space, so many times; says what it
    /// returned, the packet after it, and the nanoseconds of one run.
    pub(crate) fn test_run(
        program: BorrowedFd<'_>,
        number: u32,
        packet: &[u8],
        repeat: u32,
    ) -> Result<(u32, Vec<u8>, u32)> {
        let mut after = vec![0_u8; packet.len() + PACKET_ROOM];
        let mut context = [0_u8; SK_BUFF];
        context[SK_BUFF_CB..SK_BUFF_CB + 4].copy_from_slice(&number.to_ne_bytes());
        // { prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration,
        //   ctx_size_in, ctx_size_out, ctx_in, … }
        let mut attributes = Attributes::new()
            .fd(0, program)
            .u32(8, packet.len() as u32)
            .u32(12, after.len() as u32)
            .pointer(16, packet.as_ptr())
            .pointer(24, after.as_mut_ptr())
            .u32(32, repeat)
            .u32(40, context.len() as u32)
            .pointer(48, context.as_ptr());
        // SAFETY: the kernel reads and writes no more than it is told of.
        unsafe { attributes.call(BPF_PROG_TEST_RUN, "run a program") }?;
        let length = word(&attributes.0, 12) as usize;
        after.truncate(length);
        Ok((word(&attributes.0, 4), after, word(&attributes.0, 36)))
    }
}
