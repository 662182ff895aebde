//! tcx: hooks on links that hold programs by links which outlive the process (kernel 6.6).

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::{Error, Result, filesystem, sys};

/// `enum bpf_attach_type`.
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_NETKIT_PRIMARY: u32 = 54;
const BPF_NETKIT_PEER: u32 = 55;
/// `lo`, in every network namespace.
const LOOPBACK: u32 = 1;
/// Put it before all others.
const BPF_F_BEFORE: u32 = 1 << 3;
/// Offsets in `struct bpf_link_info`: the program's id, and for tcx the interface.
const LINK_INFO_PROGRAM: usize = 8;
const LINK_INFO_IFINDEX: usize = 16;

/// How all our programs on tcx hooks are named; the number follows, after a word for what it
/// numbers.
const NAME_PREFIX: &str = "netqos_";
/// Where `struct __sk_buff` has its scratch space.
const SK_BUFF_CB: i16 = 48;
/// An immediate that is the descriptor of a map.
const BPF_PSEUDO_MAP_FD: u8 = 1;
const BPF_FUNC_TAIL_CALL: i32 = 12;
#[cfg(feature = "rules")]
const BPF_FUNC_REDIRECT_PEER: i32 = 155;

/// Which way through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcxHook {
    /// What the link receives.
    Ingress,
    /// What the link sends.
    Egress,
}

/// What a program on a tcx hook goes on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The ranking program; the number is a limiter's.
    Rank,
    /// The program of rules; the number is an endpoint's.
    #[cfg(feature = "rules")]
    Rules,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::Rank => "",
            #[cfg(feature = "rules")]
            Self::Rules => "rule",
        }
    }
}

/// A program on a tcx hook, held there by a pin.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
    path: PathBuf,
}

impl TcxHook {
    fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => BPF_TCX_INGRESS,
            Self::Egress => BPF_TCX_EGRESS,
        }
    }

    /// The ids of the programs on this hook, in the order in which they run. The interface is one
    /// of the calling thread's network namespace.
    pub fn programs(self, ifindex: u32) -> Result<Vec<u32>> {
        sys::query(ifindex, self.attach_type())
    }
}

#[cfg(feature = "classes")]
impl TcxHook {
    /// The programs on this hook whose names begin so: their ids and names; none where they cannot be
    /// [told](can_be_told).
    pub(crate) fn named(self, ifindex: u32, prefix: &str) -> Result<Vec<(u32, String)>> {
        if !can_be_told() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for id in self.programs(ifindex)? {
            let name = sys::program_name(id)?.unwrap_or_default();
            if name.starts_with(prefix) {
                found.push((id, name));
            }
        }
        Ok(found)
    }

    /// Attaches a program in place of the one of this id, or before all others. It stays as long as the
    /// interface does, without a pin.
    pub(crate) fn put(
        self,
        ifindex: u32,
        program: BorrowedFd<'_>,
        in_place_of: Option<u32>,
    ) -> Result<()> {
        let replaced = in_place_of.map(sys::program_by_id).transpose()?;
        let replaced = replaced.as_ref().map(AsFd::as_fd);
        sys::attach(program, ifindex, self.attach_type(), BPF_F_BEFORE, replaced)
    }

    /// Takes the program of this id away, which was [`put`](Self::put) there; says whether it was there.
    pub(crate) fn remove(self, ifindex: u32, id: u32) -> Result<bool> {
        sys::detach(sys::program_by_id(id)?.as_fd(), ifindex, self.attach_type())
    }
}

/// Attaches a program to `lo` of the calling thread's network namespace, and detaches it.
pub(crate) fn probe(program: BorrowedFd<'_>) -> Result<()> {
    sys::link(program, LOOPBACK, BPF_TCX_EGRESS, BPF_F_BEFORE).map(drop)
}

/// True when the kernel has tcx hooks.
pub(crate) fn is_there() -> bool {
    TcxHook::Egress.programs(LOOPBACK).is_ok()
}

/// True when, besides, the names of programs on them may be asked for, which takes `CAP_SYS_ADMIN`: else
/// what stands there without a link is not found again.
#[cfg(feature = "classes")]
pub fn can_be_told() -> bool {
    let nobody = sys::program_by_id(0).map(drop);
    is_there() && nobody.is_err_and(|error| error.errno() == Some(libc::ENOENT))
}

impl TcxHook {
    /// True when somebody else's program is on this hook. The interface is one of the calling
    /// thread's network namespace; a kernel without such hooks has none.
    pub fn has_foreign(self, ifindex: u32) -> bool {
        let all = self.programs(ifindex).unwrap_or_default();
        all.iter().any(|id| !has_name(*id, NAME_PREFIX))
    }

    /// The same before our program for this stage, which is on it.
    #[cfg(feature = "rules")]
    pub(crate) fn has_foreign_before(self, ifindex: u32, stage: Stage) -> bool {
        let own = format!("{NAME_PREFIX}{}", stage.word());
        let all = self.programs(ifindex).unwrap_or_default();
        let mut before = all.iter().take_while(|id| !has_name(**id, &own));
        before.any(|id| !has_name(*id, NAME_PREFIX))
    }

    /// True when the program of rules is on this hook, whichever build's it is. The interface is
    /// one of the calling thread's network namespace; a kernel without such hooks has none.
    #[cfg(feature = "rules")]
    pub fn has_rules(self, ifindex: u32) -> bool {
        let own = format!("{NAME_PREFIX}{}", Stage::Rules.word());
        let all = self.programs(ifindex).unwrap_or_default();
        all.iter().any(|id| has_name(*id, &own))
    }
}

/// Returns true if a netkit pair runs programs of its own, which see packets before the primary's tcx hooks do and may
/// keep them from there. The interface is the primary, in the calling thread's network namespace.
pub fn has_netkit_programs(primary: u32) -> bool {
    let hooks = [BPF_NETKIT_PRIMARY, BPF_NETKIT_PEER].iter();
    let mut programs = hooks.map(|hook| sys::query(primary, *hook).unwrap_or_default());
    programs.any(|programs| !programs.is_empty())
}

/// True when a program's name starts with this. One that is gone by now has none.
fn has_name(program: u32, prefix: &str) -> bool {
    let name = sys::program_name(program).ok().flatten();
    name.is_some_and(|name| name.starts_with(prefix))
}

impl TcxLink {
    /// Attaches the program before all others, and pins the link at this path. The interface is
    /// one of the calling thread's network namespace.
    pub fn attach(
        program: BorrowedFd<'_>,
        ifindex: u32,
        hook: TcxHook,
        path: &Path,
    ) -> Result<Self> {
        let fd = sys::link(program, ifindex, hook.attach_type(), BPF_F_BEFORE)?;
        match sys::pin(fd.as_fd(), path) {
            // Somebody tidied the folder away, which is empty most of the time.
            Err(Error::Command { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(path);
                fs::create_dir_all(folder).map_err(Error::at(folder))?;
                sys::pin(fd.as_fd(), path)?;
            }
            pinned => pinned?,
        }
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// The link that is pinned at this path, if there is one.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match sys::get(path) {
            Ok(fd) => Ok(Some(Self {
                fd,
                path: path.to_owned(),
            })),
            Err(Error::Command { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The interface that it is attached to; `None` when that interface is gone, and with it what
    /// the link did.
    pub fn ifindex(&self) -> Result<Option<u32>> {
        let info = sys::info::<24>(self.fd.as_fd())?;
        let ifindex = sys::word(&info, LINK_INFO_IFINDEX);
        Ok((ifindex != 0).then_some(ifindex))
    }

    /// The limiter by which the program ranks that it holds there; `None` for another program.
    pub fn limiter(&self) -> Result<Option<u16>> {
        self.number(Stage::Rank)
    }

    /// The number with which the program goes on to this stage; `None` for another program.
    pub(crate) fn number(&self, stage: Stage) -> Result<Option<u16>> {
        let id = sys::word(&sys::info::<24>(self.fd.as_fd())?, LINK_INFO_PROGRAM);
        let text = sys::program_name(id)?;
        Ok(text
            .as_deref()
            .and_then(|text| text.strip_prefix(NAME_PREFIX))
            .and_then(|text| text.strip_prefix(stage.word()))
            .and_then(|digits| u16::from_str_radix(digits, 16).ok()))
    }

    /// Pins it at another path, in place of what is pinned there.
    pub fn rename(self, path: &Path) -> Result<Self> {
        fs::rename(&self.path, path).map_err(Error::at(path))?;
        Ok(Self {
            path: path.to_owned(),
            ..self
        })
    }

    /// Removes the pin; the program leaves the hook when the last descriptor is closed, ours
    /// included.
    pub fn detach(self) -> Result<()> {
        filesystem::removed(&self.path, fs::remove_file(&self.path))
    }
}

/// The program for one tcx hook: it writes a number to the packet's scratch space, and goes on to
/// the program in this array that goes by it, since tcx gives a program no argument.
pub(crate) fn program(next: BorrowedFd<'_>, stage: Stage, number: u16) -> Result<OwnedFd> {
    let instructions = [
        // *(u32 *)(r1 + cb[0]) = number
        instruction(0x62, 1, 0, SK_BUFF_CB, i32::from(number)),
        // bpf_tail_call(r1, r2 = next, r3 = 0); a pointer to a map takes two instructions
        instruction(0x18, 2, BPF_PSEUDO_MAP_FD, 0, next.as_raw_fd()),
        0,
        instruction(0xb7, 3, 0, 0, 0),
        instruction(0x85, 0, 0, 0, BPF_FUNC_TAIL_CALL),
        // The call comes back only when there is nothing to go on to: next.
        instruction(0xb7, 0, 0, 0, -1),
        instruction(0x95, 0, 0, 0, 0),
    ];
    sys::load(
        &instructions,
        &format!("{NAME_PREFIX}{}{number:04x}", stage.word()),
    )
}

/// Returns a program that hands every packet to the other end of this link (`bpf_redirect_peer`, Linux 5.10).
#[cfg(feature = "rules")]
pub fn redirect_to_peer(ifindex: u32) -> Result<OwnedFd> {
    let instructions = [
        instruction(0xb7, 1, 0, 0, ifindex as i32),
        instruction(0xb7, 2, 0, 0, 0),
        instruction(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_PEER),
        instruction(0x95, 0, 0, 0, 0),
    ];
    sys::load(&instructions, "netqos_peer")
}

/// `struct bpf_insn`: opcode, registers, offset, immediate.
pub(crate) fn instruction(opcode: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    let mut bytes = [0; 8];
    bytes[0] = opcode;
    bytes[1] = from << 4 | to;
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&immediate.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}
