//! The pins of the rules: opened when they are there, made when they are not.

use std::borrow::Cow;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::conntrack;
use super::run::{self, Ran};
use super::{
    Bitmap, Block4, Block6, Chain, ChainServiceKey, ClassKey, Crowd, Endpoint, Networks, PortKey,
    Rule, RuleCounters, RuleKey, Service, ServiceKey, Share, ShareKey, Table,
};
use crate::pins::{self, optional};
use crate::tcx::{self, Stage, TcxLink};
use crate::{Error, Pins, Result, filesystem, sys};

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rules.o"));
/// The program for clsact, the one for tcx, and the one behind a rule's queue.
const RULES: &str = "netqos_rules";
const RULES_TCX: &str = "netqos_rules_tcx";
const RETURN: &str = "netqos_return";
/// The one behind the program that asks conntrack.
const KNOWN: &str = "netqos_rules_known";
/// The program's switch for asking, for kernels on which it cannot go on to another program.
const ASKS: &str = "NETQOS_ASKS_CONNTRACK";
/// Places in the array of programs (bpf/rules_maps.h).
const STAGE_RULES: u32 = 0;
const STAGE_LOOKUP: u32 = 1;
const STAGE_KNOWN: u32 = 2;

/// The tables that are the rules' own.
const TABLES: [&str; 15] = [
    "endpoints",
    "chains",
    "blocks4",
    "blocks6",
    "networks",
    "classes",
    "ports",
    "rules",
    "services",
    "chain_services",
    "crowds",
    "shares",
    "counters",
    "lookups",
    "stages",
];

/// The programs and tables of rules.
#[derive(Debug)]
pub struct Rules {
    folder: PathBuf,
    rules: Option<OwnedFd>,
    returns: Option<OwnedFd>,
    stages: OwnedFd,
    /// Why it is not known which backend of a Service a connection goes to, where it is not.
    deaf: Option<String>,
    /// What stands at the hooks, by the hook's number.
    pub endpoints: Table<u32, Endpoint>,
    /// Rule lists, by their digest.
    pub chains: Table<u64, Chain>,
    /// IPv4 prefixes in chains, and the rules for each.
    pub blocks4: Table<Block4, Bitmap>,
    /// IPv6 prefixes in chains, and the rules for each.
    pub blocks6: Table<Block6, Bitmap>,
    /// The peers of each network.
    pub networks: Networks,
    /// Classes of peers in chains, and the rules for each.
    pub classes: Table<ClassKey, Bitmap>,
    /// Ports in chains, and the rules for each.
    pub ports: Table<PortKey, Bitmap>,
    /// The rules of chains.
    pub rules_of: Table<RuleKey, Rule>,
    /// What stands behind virtual addresses.
    pub services: Table<ServiceKey, Service>,
    /// The same to one chain, of Services with more kinds of backends than [`Service`] has room for.
    pub chain_services: Table<ChainServiceKey, Service>,
    /// The pods that share a limiter, by the limiter.
    pub crowds: Table<u32, Crowd>,
    /// What each took of it.
    pub shares: Table<ShareKey, Share>,
    /// What rules did.
    pub counters: RuleCounters,
}

impl Rules {
    /// Opens what is pinned, whichever build of this layout pinned it. `None` when none has since
    /// the node started.
    pub fn open(bpffs: &Path) -> Result<Option<Self>> {
        // Where one is missing, whoever made them was interrupted; the rest is made then.
        optional(Self::open_all(Pins::folder_in(bpffs)))
    }

    /// True when a build's program is pinned: rules may be in force. Tables alone are what a refused or
    /// interrupted load has left.
    pub fn is_pinned(bpffs: &Path) -> bool {
        let entries = fs::read_dir(Pins::folder_in(bpffs));
        let mut entries = entries.into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"rules-"))
    }

    fn open_all(folder: PathBuf) -> Result<Self> {
        let at = |name: &str| folder.join(name);
        let program = |kind| optional(sys::get(&at(&pin_name(kind))));
        Ok(Self {
            rules: program("rules")?,
            returns: program("return")?,
            stages: sys::get(&at("stages"))?,
            deaf: None,
            endpoints: Table::open(&at("endpoints"))?,
            chains: Table::open(&at("chains"))?,
            blocks4: Table::open(&at("blocks4"))?,
            blocks6: Table::open(&at("blocks6"))?,
            networks: Networks::open(&at("networks"))?,
            classes: Table::open(&at("classes"))?,
            ports: Table::open(&at("ports"))?,
            rules_of: Table::open(&at("rules"))?,
            services: Table::open(&at("services"))?,
            // An earlier version has none.
            chain_services: match optional(Table::open(&at("chain_services")))? {
                Some(table) => table,
                None => Table::empty("chain_services")?,
            },
            crowds: Table::open(&at("crowds"))?,
            shares: Table::open(&at("shares"))?,
            counters: RuleCounters::open(&at("counters"))?,
            folder,
        })
    }

    /// Opens what is pinned, and loads and pins this build's programs first where they are not, in
    /// place of another's. Mounts the BPF file system where none is.
    ///
    /// # Errors
    /// The kernel refuses the programs, or there can be no BPF file system.
    pub fn ensure(bpffs: &Path) -> Result<Self> {
        let folder = Pins::folder_in(bpffs);
        let (loaded, load) = (|| Self::loaded(bpffs), || load(&folder));
        let mut rules = filesystem::ensure_loaded(bpffs, &folder, "links", loaded, load)?;
        rules.deaf = rules.listen().err();
        Ok(rules)
    }

    /// Tries once more to load what asks conntrack, where it could not be: a module may have come.
    pub fn listen_again(&mut self) {
        if self.deaf.is_some() {
            self.deaf = self.listen().err();
        }
    }

    /// Loads the program that asks conntrack, if it is not there; or says why it cannot be. A
    /// kernel that could not have it may have it later, when a module has come.
    fn listen(&self) -> std::result::Result<(), String> {
        let words = |error: Error| error.to_string();
        let stages = self.stages.as_fd();
        if stage(stages, STAGE_KNOWN).map_err(words)?.is_none() {
            return Err("this kernel does not let programs with functions go on to others".into());
        }
        if stage(stages, STAGE_LOOKUP).map_err(words)?.is_some() {
            return Ok(());
        }
        let lookups = sys::get(&self.folder.join("lookups")).map_err(words)?;
        let program = conntrack::program(lookups.as_fd(), stages)?;
        set_stage(stages, STAGE_LOOKUP, program.as_fd()).map_err(words)
    }

    /// Why it is not known to the program which backend of a Service a connection goes to; `None`
    /// when it is.
    pub fn deaf(&self) -> Option<&str> {
        self.deaf.as_deref()
    }

    /// Opens what is pinned, this build's programs among it.
    fn loaded(bpffs: &Path) -> Result<Option<Self>> {
        Ok(Self::open(bpffs)?.filter(|found| found.rules.is_some() && found.returns.is_some()))
    }

    /// The program of rules for a filter on a clsact hook; the filter's argument is the endpoint's
    /// number.
    ///
    /// # Errors
    /// It is another build's that is loaded; [`Rules::ensure`] loads this one's.
    pub fn program(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.rules.as_ref())
    }

    /// The program that stands behind a rule's queue.
    ///
    /// # Errors
    /// As for [`program`](Self::program).
    pub fn return_program(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.returns.as_ref())
    }

    /// The kernel's number for [`program`](Self::program).
    pub fn program_id(&self) -> Result<u32> {
        pins::program_id(self.program()?)
    }

    /// The kernel's number for [`return_program`](Self::return_program).
    pub fn return_program_id(&self) -> Result<u32> {
        pins::program_id(self.return_program()?)
    }

    /// Removes the pins of the rules' programs and tables, of every build. What is still attached
    /// lives on until it is not. Whoever was interrupted in this may do it again.
    pub fn unpin(bpffs: &Path) -> Result<()> {
        let folder = Pins::folder_in(bpffs);
        if !folder.exists() {
            return Ok(());
        }
        for kind in ["rules", "return"] {
            pins::remove_others(&folder, kind, "")?;
        }
        for table in TABLES {
            let path = folder.join(table);
            filesystem::removed(&path, fs::remove_file(&path))?;
        }
        Ok(())
    }

    /// A program for one tcx hook, which goes by the rules of this endpoint.
    ///
    /// # Errors
    /// [`Error::Command`] when the kernel refuses it.
    pub fn program_tcx(&self, endpoint: u16) -> Result<OwnedFd> {
        tcx::program(self.stages.as_fd(), Stage::Rules, endpoint)
    }

    /// The endpoint by whose rules the program goes that this link holds at its hook; `None` for
    /// another program.
    pub fn endpoint_at(link: &TcxLink) -> Result<Option<u16>> {
        link.number(Stage::Rules)
    }

    /// True when somebody else's program comes before that of rules on this hook. The interface is
    /// one of the calling thread's network namespace.
    pub fn has_foreign_before(hook: tcx::TcxHook, ifindex: u32) -> bool {
        hook.has_foreign_before(ifindex, Stage::Rules)
    }

    /// Where the tcx link of this name is pinned.
    pub fn link_path(&self, name: &str) -> PathBuf {
        pins::link_path(&self.folder, name)
    }

    /// Runs the program on a packet (an Ethernet frame) as this endpoint, so many times.
    pub fn run(&self, endpoint: u16, packet: &[u8], repeat: u32) -> Result<Ran> {
        let id = stage(self.stages.as_fd(), STAGE_RULES)?;
        let program = sys::program_by_id(id.unwrap_or_default())?;
        run::run(program.as_fd(), endpoint, packet, repeat)
    }
}

impl Rules {
    /// Runs the program for clsact hooks on a packet so many times, as the endpoint of number 0,
    /// which no hook has: for measuring. (The one for tcx takes its number from the packet once.)
    pub fn run_repeatedly(&self, packet: &[u8], repeat: u32) -> Result<Ran> {
        run::run(self.program()?, 0, packet, repeat)
    }
}

/// The program at a place of the array, by its id.
fn stage(stages: BorrowedFd<'_>, place: u32) -> Result<Option<u32>> {
    // SAFETY: the array's keys are u32, and its values, read back, program ids.
    unsafe { sys::lookup(stages, &place, 0) }
}

fn set_stage(stages: BorrowedFd<'_>, place: u32, program: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the array's keys are u32, and its values descriptors.
    unsafe { sys::update(stages, &place, &(program.as_raw_fd() as u32), 0) }
}

fn load(folder: &Path) -> Result<()> {
    match load_all(folder, true) {
        Err(Error::Load(_)) => load_all(folder, false),
        loaded => loaded,
    }
}

/// Returns the compiled programs without their calls of `bpf_tail_call`. A kernel that interprets BPF (`bpf_jit_enable=0`)
/// refuses a program with functions that has one; since 6.12 at the latest also where it is never reached.
fn without_tail_calls() -> Vec<u8> {
    // `call bpf_tail_call`, and what it comes to where no program is in that place: `r0 = 0`.
    const CALL: [u8; 8] = [0x85, 0, 0, 0, 12, 0, 0, 0];
    const NO_CALL: [u8; 8] = [0xb7, 0, 0, 0, 0, 0, 0, 0];
    let mut object = OBJECT.to_vec();
    let instructions = object.chunks_exact_mut(CALL.len());
    for instruction in instructions.filter(|it| **it == CALL) {
        instruction.copy_from_slice(&NO_CALL);
    }
    object
}

/// Loads and pins the programs; those that ask conntrack where the kernel allows it.
fn load_all(folder: &Path, asks: bool) -> Result<()> {
    let object = match asks {
        true => Cow::Borrowed(OBJECT),
        false => Cow::Owned(without_tail_calls()),
    };
    let mut object = pins::load_object(folder, &object, Some((ASKS, asks)))?;
    let tcx = pins::load_program(&mut object, RULES_TCX)?;
    let returns = pins::load_program(&mut object, RETURN)?;
    let rules = pins::load_program(&mut object, RULES)?;
    let stages = sys::get(&folder.join("stages"))?;
    // Another build's asks in its own way; this one's comes later.
    for place in [STAGE_LOOKUP, STAGE_KNOWN] {
        // SAFETY: the array's keys are u32.
        unsafe { sys::delete(stages.as_fd(), &place) }?;
    }
    if asks {
        let known = pins::load_program(&mut object, KNOWN)?;
        set_stage(stages.as_fd(), STAGE_KNOWN, known.as_fd())?;
    }
    set_stage(stages.as_fd(), STAGE_RULES, tcx.as_fd())?;
    // This build's, too, is there already where somebody was interrupted behind the next line.
    pins::remove_others(folder, "return", "")?;
    sys::pin(returns.as_fd(), &folder.join(pin_name("return")))?;
    // The last, since what is found pinned under this name is complete.
    let own = pin_name("rules");
    sys::pin(rules.as_fd(), &folder.join(&own))?;
    pins::remove_others(folder, "rules", &own)
}

/// A pin's name with a digest of the object, so that another build's program is another file.
fn pin_name(kind: &str) -> String {
    format!("{kind}-{}", env!("NETQOS_RULES"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_without_tail_calls_differs_by_those_of_its_programs() {
        let changed = without_tail_calls();
        let unlike = OBJECT.chunks(8).zip(changed.chunks(8));
        // One in each of the programs for clsact and tcx.
        assert_eq!(unlike.filter(|(one, other)| one != other).count(), 2);
        assert_eq!(changed.len(), OBJECT.len());
    }
}
