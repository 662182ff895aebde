//! What the tables of rules need besides: maps made and described, many elements at once, a value
//! for each processor, and programs run on a packet.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use super::{Attributes, BPF_MAP_LOOKUP_ELEM, absent_is_none, get, info, word};
use crate::{Error, Result};

const BPF_MAP_CREATE: i64 = 0;
const BPF_PROG_TEST_RUN: i64 = 10;
const BPF_MAP_GET_FD_BY_ID: i64 = 14;
#[cfg(feature = "classes")]
const BPF_MAP_LOOKUP_BATCH: i64 = 24;
const BPF_MAP_UPDATE_BATCH: i64 = 26;
const BPF_MAP_DELETE_BATCH: i64 = 27;
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
pub(crate) fn create_hash(key: usize, value: usize, elements: u32, name: &str) -> Result<OwnedFd> {
    let mut attributes = Attributes::new()
        .u32(0, BPF_MAP_TYPE_HASH)
        .u32(4, key as u32)
        .u32(8, value as u32)
        .u32(12, elements);
    let name = &name.as_bytes()[..name.len().min(15)];
    attributes.0[28..28 + name.len()].copy_from_slice(name);
    // SAFETY: no pointer among the attributes; the answer is a descriptor.
    unsafe { attributes.open(BPF_MAP_CREATE, "make a map") }
}

/// Opens a map by its id.
pub(crate) fn map_by_id(id: u32) -> Result<OwnedFd> {
    let mut attributes = Attributes::new().u32(0, id);
    // SAFETY: no pointer among the attributes; the answer is a descriptor.
    unsafe { attributes.open(BPF_MAP_GET_FD_BY_ID, "open a map") }
}

/// Says how many elements a map has room for.
pub(crate) fn map_room(map: BorrowedFd<'_>) -> Result<u32> {
    Ok(word(&info::<24>(map)?, MAP_INFO_MAX_ENTRIES))
}

/// Opens the map of these keys and values that is pinned at this path.
pub(crate) fn get_table<K, V>(path: &Path) -> Result<OwnedFd> {
    let map = get(path)?;
    check_sizes::<K, V>(map.as_fd(), path)?;
    Ok(map)
}

/// Makes sure that a map's keys and values have the sizes of these types.
pub(crate) fn check_sizes<K, V>(map: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let (key, value) = (size_of::<K>(), size_of::<V>());
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

/// All keys and values of an array, or of a map that nobody changes meanwhile.
///
/// # Safety
/// As for [`lookup`].
#[cfg(feature = "classes")]
pub(crate) unsafe fn lookup_batch<K: Default + Clone, V: Default + Clone>(
    map: BorrowedFd<'_>,
) -> Result<Vec<(K, V)>> {
    let room = map_room(map)?;
    let mut keys = vec![K::default(); room as usize];
    let mut values = vec![V::default(); room as usize];
    let mut next = 0_u64;
    let mut attributes = Attributes::new()
        .pointer(8, &raw mut next)
        .pointer(16, keys.as_mut_ptr())
        .pointer(24, values.as_mut_ptr())
        .u32(32, room)
        .fd(36, map);
    // SAFETY: there is room for as many keys and values of the map's sizes as the kernel is told of, and
    // for what it would go on with.
    let done = unsafe { attributes.call(BPF_MAP_LOOKUP_BATCH, "read a map") };
    // That there are no more than that is no failure.
    absent_is_none(done)?;
    let count = word(&attributes.0, 32) as usize;
    Ok(keys.into_iter().zip(values).take(count).collect())
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

/// Removes many keys, up to the first that is not there.
///
/// # Safety
/// As for [`lookup`].
pub(crate) unsafe fn delete_batch<K>(map: BorrowedFd<'_>, keys: &[K]) -> Result<()> {
    let mut attributes = Attributes::new()
        .pointer(16, keys.as_ptr())
        .u32(32, keys.len() as u32)
        .fd(36, map);
    // SAFETY: the keys are as many live ones of the map's size as the kernel is told of.
    unsafe { attributes.call(BPF_MAP_DELETE_BATCH, "remove from a map") }.map(drop)
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
    let mut attributes = Attributes::element(map, key, values.as_mut_ptr());
    // SAFETY: the key is live, and there is room for each processor's value.
    absent_is_none(unsafe { attributes.call(BPF_MAP_LOOKUP_ELEM, "read a map") })
        .map(|found| found.map(|_| values))
}

/// How many values a map has that has one for each processor.
pub(crate) fn possible_processors() -> Result<usize> {
    let path = Path::new(POSSIBLE_PROCESSORS);
    let list = fs::read_to_string(path).map_err(Error::at(path))?;
    let last = list.trim().rsplit([',', '-']).next();
    let last = last.and_then(|last| last.parse::<usize>().ok());
    let last = last.ok_or_else(|| Error::at(path)(io::ErrorKind::InvalidData.into()))?;
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
