//! The program that asks conntrack where a connection to a Service goes (bpf/conntrack.bpf.c).
//!
//! ```text
//!   rules ─ tail call ─► lookup ─ tail call ─► rules, known
//! ```
//!
//! It calls functions of the kernel (`bpf_skb_ct_lookup`, Linux 5.18) by their numbers in the
//! kernel's BTF, and reads a structure of the kernel at the offsets that the BTF says. Both differ
//! from kernel to kernel, and are a module's where conntrack is one, which aya resolves neither
//! functions nor structures of. The compiled program has placeholders, which are replaced here.

use std::collections::HashSet;
use std::fs;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aya_obj::Object;
use aya_obj::generated::{BPF_ALU64, BPF_CALL, BPF_JMP, BPF_K, BPF_MOV, bpf_insn};

use super::btf::Btf;
use crate::sys;
use crate::tcx::instruction;

/// The compiled program, its name there and as it is loaded.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/conntrack.o"));
const PROGRAM: &str = "netqos_lookup";

const LOOKUP: &str = "bpf_skb_ct_lookup";
const RELEASE: &str = "bpf_ct_release";
const CONNECTION: &str = "nf_conn";
const HASH: &str = "nf_conntrack_tuple_hash";
const TUPLE: &str = "nf_conntrack_tuple";
const SOURCE: &str = "nf_conntrack_man";
/// Where the kernel describes its types, and its modules theirs.
const DESCRIPTIONS: &str = "/sys/kernel/btf";
/// The module that has the functions, where they are not in the kernel itself.
const MODULE: &str = "nf_conntrack";

/// Placeholders in the program: the functions that are called, the offsets in `struct nf_conn`.
const KFUNC_LOOKUP: i32 = 0x4e51_0001;
const KFUNC_RELEASE: i32 = 0x4e51_0002;
const OFFSET_ADDRESS: i32 = 0x4e51_0003;
const OFFSET_PORT: i32 = 0x4e51_0004;

/// The source register of a call of a kernel function (`include/uapi/linux/bpf.h`).
const BPF_PSEUDO_KFUNC_CALL: u8 = 2;
/// A call, and `register = constant`, as opcodes.
const CALL: u8 = (BPF_JMP | BPF_CALL) as u8;
const MOVE: u8 = (BPF_ALU64 | BPF_MOV | BPF_K) as u8;

/// What differs from kernel to kernel.
struct Kernel {
    lookup: u32,
    release: u32,
    /// The BTF of the module that has them.
    module: Option<OwnedFd>,
    /// Where in `struct nf_conn` are the address and the port of whoever replies, in bytes.
    address: u32,
    port: u32,
}

/// Loads the program, which tail-calls by the array `stages`; or says why it cannot be loaded.
pub(super) fn program(lookups: BorrowedFd<'_>, stages: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    let kernel = Kernel::find()?;
    let mut instructions = compiled(lookups, stages)?;
    kernel.patch(&mut instructions)?;
    let instructions: Vec<u64> = instructions.iter().map(encode).collect();
    let module = kernel.module.as_ref().map(AsFd::as_fd);
    sys::load_calling(&instructions, PROGRAM, module).map_err(|error| error.to_string())
}

/// The instructions of the compiled program, with these maps.
fn compiled(lookups: BorrowedFd<'_>, stages: BorrowedFd<'_>) -> Result<Vec<bpf_insn>, String> {
    let mut object = Object::parse(OBJECT).map_err(|why| why.to_string())?;
    let maps = mem::take(&mut object.maps);
    let used = [("lookups", lookups), ("stages", stages)];
    let used = used
        .iter()
        .filter_map(|(name, fd)| Some((*name, fd.as_raw_fd(), maps.get(*name)?)));
    object
        .relocate_maps(used, &HashSet::new())
        .map_err(|why| why.to_string())?;
    let key = object
        .programs
        .get(PROGRAM)
        .map(aya_obj::Program::function_key);
    let function = key.and_then(|key| object.functions.remove(&key));
    Ok(function
        .ok_or("the object has no such program")?
        .instructions)
}

fn encode(it: &bpf_insn) -> u64 {
    instruction(it.code, it.dst_reg(), it.src_reg(), it.off, it.imm)
}

impl Kernel {
    fn find() -> Result<Self, String> {
        const WANTED: [&str; 6] = [LOOKUP, RELEASE, CONNECTION, HASH, TUPLE, SOURCE];
        let parse = |name: &str, base: Option<&Btf>| {
            let path = Path::new(DESCRIPTIONS).join(name);
            let bytes = fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            Btf::parse(&bytes, base, &WANTED)
                .ok_or_else(|| format!("{}: not understood", path.display()))
        };
        let own = parse("vmlinux", None)?;
        let (functions, module) = match own.function(LOOKUP) {
            Some(_) => (None, None),
            None => {
                let btf = parse(MODULE, Some(&own))
                    .map_err(|why| format!("the kernel has no {LOOKUP}, nor a module: {why}"))?;
                let fd = sys::module_types(MODULE).map_err(|error| error.to_string())?;
                (Some(btf), fd)
            }
        };
        let functions = functions.as_ref();
        let offset = |of, member| {
            own.offset(of, member)
                .or_else(|| functions?.offset(of, member))
        };
        let number = |name| functions.unwrap_or(&own).function(name);
        let size = own.size(HASH).or_else(|| functions?.size(HASH));
        let replier = || {
            // The second of two tuples is the replies'.
            Some(
                offset(CONNECTION, "tuplehash")?
                    + size?
                    + offset(HASH, "tuple")?
                    + offset(TUPLE, "src")?,
            )
        };
        let found = || {
            let replier = replier()?;
            Some((
                number(LOOKUP)?,
                number(RELEASE)?,
                replier + offset(SOURCE, "u3")?,
                replier + offset(SOURCE, "u")?,
            ))
        };
        let (lookup, release, address, port) =
            found().ok_or_else(|| format!("the kernel has no {LOOKUP}"))?;
        if functions.is_some() != module.is_some() {
            return Err(format!("the module {MODULE} is gone"));
        }
        Ok(Self {
            lookup,
            release,
            module,
            address,
            port,
        })
    }

    /// Replaces the placeholders: each of them is there once.
    fn patch(&self, instructions: &mut [bpf_insn]) -> Result<(), String> {
        // A function of the kernel itself is of the BTF 0, one of the module of the first that is
        // handed over, which is 1.
        let btf = i16::from(self.module.is_some());
        let values = [
            (CALL, KFUNC_LOOKUP, self.lookup),
            (CALL, KFUNC_RELEASE, self.release),
            (MOVE, OFFSET_ADDRESS, self.address),
            (MOVE, OFFSET_PORT, self.port),
        ];
        for (code, placeholder, value) in values {
            let mut found = instructions
                .iter_mut()
                .filter(|it| it.code == code && it.imm == placeholder);
            let (Some(it), None) = (found.next(), found.next()) else {
                return Err(format!("placeholder {placeholder:#x} is not there once"));
            };
            it.imm = value as i32;
            if code == CALL {
                it.set_src_reg(BPF_PSEUDO_KFUNC_CALL);
                it.off = btf;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_program_has_each_placeholder_once() {
        let fd = fs::File::open("/dev/null").unwrap();
        let mut instructions = compiled(fd.as_fd(), fd.as_fd()).unwrap();
        let kernel = Kernel {
            lookup: 7,
            release: 8,
            module: None,
            address: 16,
            port: 32,
        };
        kernel.patch(&mut instructions).unwrap();
        let calls = instructions.iter().filter(|it| it.code == CALL);
        let kernels = calls.filter(|it| it.src_reg() == BPF_PSEUDO_KFUNC_CALL);
        assert_eq!(kernels.map(|it| it.imm).collect::<Vec<_>>(), [7, 8]);
        assert!(kernel.patch(&mut instructions).is_err());
    }
}
