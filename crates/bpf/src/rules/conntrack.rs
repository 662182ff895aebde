//! The program that asks conntrack where a connection to a Service goes.
//!
//! It calls functions of the kernel (`bpf_skb_ct_lookup`, Linux 5.18) by their numbers in the
//! kernel's own description of its types, and reads a structure of the kernel at the offsets that
//! are said there. Both differ from kernel to kernel, so the program is put together here:
//!
//! ```text
//!   rules ─ tail call ─► lookup ─ tail call ─► rules, known
//!                          │
//!                          └ connection = bpf_skb_ct_lookup(tuple)
//!                            answer = connection.tuplehash[REPLY].tuple.src
//! ```
//!
//! Whoever replies is who the connection goes to. It looks in the namespace of the interface, and
//! in conntrack's default zone, which is where kube-proxy's rules are.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::btf::Btf;
use crate::sys;
use crate::tcx::{BPF_FUNC_TAIL_CALL, BPF_PSEUDO_MAP_FD, instruction};

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

/// Where `struct lookup` (bpf/rules.h) has its parts.
const TUPLE_AT: i32 = 0;
const PROTOCOL_AT: i16 = 36;
const IS_IPV6_AT: i16 = 37;
const IS_KNOWN_AT: i16 = 38;
const PORT_AT: i16 = 42;
const ADDRESS_AT: i16 = 44;
/// `struct bpf_sock_tuple`, for each family.
const IPV4_TUPLE: i32 = 12;
const IPV6_TUPLE: i32 = 36;

/// A call is of a function of the kernel.
const BPF_PSEUDO_KFUNC_CALL: u8 = 2;
const BPF_FUNC_MAP_LOOKUP_ELEM: i32 = 1;
/// `TC_ACT_UNSPEC`.
const NEXT: i32 = -1;

/// Where `struct bpf_ct_opts` is on the stack, and where in it are its parts: in
/// `{ s32 netns_id; s32 error; u8 l4proto; u8 dir; u8 reserved[2]; }`.
const OPTIONS: i16 = -16;
const OPTIONS_SIZE: i32 = 12;
const OPTIONS_PROTOCOL: i16 = OPTIONS + 8;
const OPTIONS_DIRECTION: i16 = OPTIONS + 9;
/// Where the key of the array is on the stack.
const KEY: i16 = -24;

/// What differs from kernel to kernel.
struct Kernel {
    lookup: u32,
    release: u32,
    /// The description of the module that has them.
    module: Option<OwnedFd>,
    /// Where in `struct nf_conn` are the address and the port of who replies.
    address: u32,
    port: u32,
}

/// The program, which goes on to the program at this place of the array; or why there can be none.
pub(super) fn program(
    lookups: BorrowedFd<'_>,
    stages: BorrowedFd<'_>,
    known: u32,
) -> Result<OwnedFd, String> {
    let kernel = Kernel::find()?;
    let instructions = kernel.instructions(lookups, stages, known as i32);
    sys::load_calling(
        &instructions,
        "netqos_lookup",
        kernel.module.as_ref().map(AsFd::as_fd),
    )
    .map_err(|error| error.to_string())
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

    fn instructions(
        &self,
        lookups: BorrowedFd<'_>,
        stages: BorrowedFd<'_>,
        known: i32,
    ) -> Vec<u64> {
        // A function of the kernel itself is of the description 0, one of the module of the first
        // of those that are handed over, which is 1.
        let of = i16::from(self.module.is_some());
        let kernel =
            |function: u32| instruction(0x85, 0, BPF_PSEUDO_KFUNC_CALL, of, function as i32);
        let move_to = |to, from| instruction(0xbf, to, from, 0, 0);
        let set = |to, value| instruction(0xb7, to, 0, 0, value);
        let add = |to, value| instruction(0x07, to, 0, 0, value);
        let call = |function| instruction(0x85, 0, 0, 0, function);
        let skip_if_zero = |register, by: usize| instruction(0x15, register, 0, by as i16, 0);
        let map = |to, map: BorrowedFd<'_>| {
            [
                instruction(0x18, to, BPF_PSEUDO_MAP_FD, 0, map.as_raw_fd()),
                0,
            ]
        };

        // r6 = packet, r7 = what is asked, r8 = connection; r10 = end of the stack
        let mut answer = Vec::new();
        for word in 0..4_i16 {
            answer.extend([
                instruction(0x61, 1, 8, self.address as i16 + word * 4, 0),
                instruction(0x63, 7, 1, ADDRESS_AT + word * 4, 0),
            ]);
        }
        answer.extend([
            instruction(0x69, 1, 8, self.port as i16, 0),
            instruction(0x6b, 7, 1, PORT_AT, 0),
            instruction(0x72, 7, 0, IS_KNOWN_AT, 1),
        ]);
        let mut known_connection = vec![
            move_to(8, 0),
            // This packet is itself a reply, and goes to no Service: nothing is known.
            instruction(0x71, 1, 10, OPTIONS_DIRECTION, 0),
            instruction(0x55, 1, 0, answer.len() as i16, 0),
        ];
        known_connection.extend(answer);
        known_connection.extend([move_to(1, 8), kernel(self.release)]);

        let mut program = vec![move_to(6, 1), instruction(0x62, 10, 0, KEY, 0)];
        program.extend(map(1, lookups));
        program.extend([
            move_to(2, 10),
            add(2, KEY.into()),
            call(BPF_FUNC_MAP_LOOKUP_ELEM),
            instruction(0x55, 0, 0, 2, 0),
            set(0, NEXT),
            instruction(0x95, 0, 0, 0, 0),
            move_to(7, 0),
            // The options: the packet's own namespace, its protocol.
            instruction(0x62, 10, 0, OPTIONS, -1),
            instruction(0x62, 10, 0, OPTIONS + 4, 0),
            instruction(0x62, 10, 0, OPTIONS_PROTOCOL, 0),
            instruction(0x71, 1, 7, PROTOCOL_AT, 0),
            instruction(0x73, 10, 1, OPTIONS_PROTOCOL, 0),
            // The tuple, and its length.
            move_to(1, 6),
            move_to(2, 7),
            add(2, TUPLE_AT),
            set(3, IPV4_TUPLE),
            instruction(0x71, 4, 7, IS_IPV6_AT, 0),
            skip_if_zero(4, 1),
            set(3, IPV6_TUPLE),
            move_to(4, 10),
            add(4, OPTIONS.into()),
            set(5, OPTIONS_SIZE),
            kernel(self.lookup),
            skip_if_zero(0, known_connection.len()),
        ]);
        program.extend(known_connection);
        program.push(move_to(1, 6));
        program.extend(map(2, stages));
        program.extend([
            set(3, known),
            call(BPF_FUNC_TAIL_CALL),
            set(0, NEXT),
            instruction(0x95, 0, 0, 0, 0),
        ]);
        program
    }
}
