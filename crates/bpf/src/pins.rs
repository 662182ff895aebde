//! The folder of pins: opened when it is there, filled when it is not.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};

use crate::layout::{LAYOUT, Limiter};
use crate::tcx::Stage;
use crate::{Error, Limiters, Result, filesystem, sys, tcx};

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rank.o"));
/// The program for clsact, and the one for tcx.
const RANK: &str = "netqos_rank";
const RANK_TCX: &str = "netqos_rank_tcx";
/// Where `struct bpf_map_info` has the size of a value.
const MAP_INFO_VALUE_SIZE: usize = 12;
/// The key of the hash by which programs know IPv6 flows (bpf/flows.h).
const FLOW_KEY: &str = "NETQOS_FLOW_KEY";
/// Only a load that failed is logged, by a second try with a buffer. With no log at all that try
/// would be invalid, and would hide why the first one failed.
const LOG_LEVEL: VerifierLogLevel = VerifierLogLevel::STATS;
/// How long a load that a signal cut off waits for another try, the first time.
const AGAIN: Duration = Duration::from_millis(5);
/// Where `struct bpf_prog_info` has the id.
const PROGRAM_INFO_ID: usize = 4;

/// The programs and maps of this version, pinned in a BPF file system.
#[derive(Debug)]
pub struct Pins {
    folder: PathBuf,
    programs: Programs,
    limiters: Limiters,
}

/// The loaded programs.
#[derive(Debug)]
pub struct Programs {
    /// This build's; `None` when another build was the last that loaded.
    rank: Option<OwnedFd>,
    /// The array by which programs on tcx hooks go on to the one that ranks.
    ranks: Option<OwnedFd>,
}

impl Pins {
    /// A digest of this build's programs.
    pub const BUILD: &str = env!("NETQOS_PROGRAMS");

    /// The folder of this version's pins in a BPF file system that is mounted there.
    pub fn folder_in(bpffs: &Path) -> PathBuf {
        bpffs.join("netqos").join(format!("v{LAYOUT}"))
    }

    /// Opens what is pinned, whichever build of this layout pinned it: enough to find and remove
    /// what is there. `None` when none has since the node started.
    pub fn open(bpffs: &Path) -> Result<Option<Self>> {
        let folder = Self::folder_in(bpffs);
        let rank = optional(sys::get(&folder.join(program_name("rank"))))?;
        let ranks = optional(sys::get(&folder.join("ranks")))?;
        let Some(limiters) = optional(sys::get(&folder.join("limiters")))? else {
            return Ok(None);
        };
        check_layout(&folder.join("limiters"), limiters.as_fd())?;
        Ok(Some(Self {
            folder,
            programs: Programs { rank, ranks },
            limiters: Limiters::new(limiters),
        }))
    }

    /// Opens what is pinned, and loads and pins this build's programs first where they are not, in
    /// place of another's. Mounts the BPF file system where none is.
    ///
    /// # Errors
    /// [`Error::Load`] when the kernel refuses the programs, as it will every time; others when
    /// there can be no BPF file system, or the moment or the caller is wrong.
    pub fn ensure(bpffs: &Path) -> Result<Self> {
        let folder = Self::folder_in(bpffs);
        let (loaded, load) = (|| Self::loaded(bpffs), || load(&folder));
        filesystem::ensure_loaded(bpffs, &folder, "links", loaded, load)
    }

    /// Opens what is pinned, this build's programs among it. `None` when they are not loaded.
    pub fn loaded(bpffs: &Path) -> Result<Option<Self>> {
        Ok(Self::open(bpffs)?.filter(|pins| pins.programs.rank.is_some()))
    }

    /// The programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The maps.
    pub fn limiters(&self) -> &Limiters {
        &self.limiters
    }

    /// Where the tcx link of this name is pinned. A dot, which the BPF file system does not allow
    /// in a name, is escaped.
    pub fn link_path(&self, name: &str) -> PathBuf {
        link_path(&self.folder, name)
    }

    /// The names of all tcx links that are pinned.
    pub fn link_names(&self) -> Result<Vec<String>> {
        let folder = self.folder.join("links");
        let entries = match fs::read_dir(&folder) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::at(&folder))?,
        };
        let name = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.replace("%2e", ".").replace("%25", "%"))
        };
        Ok(entries.flatten().filter_map(name).collect())
    }

    /// Removes what this version and every other pinned. Programs and maps live on in the kernel
    /// as long as filters use them.
    pub fn remove_all(bpffs: &Path) -> Result<()> {
        let folder = bpffs.join("netqos");
        filesystem::removed(&folder, fs::remove_dir_all(&folder))
    }
}

impl Programs {
    /// The ranking program for a filter on a clsact hook; the filter's argument is the limiter id.
    ///
    /// # Errors
    /// It is another build's that is loaded; [`Pins::ensure`] loads this one's.
    pub fn rank(&self) -> Result<BorrowedFd<'_>> {
        own(self.rank.as_ref())
    }

    /// True when this is the kernel's number for [`rank`](Self::rank).
    pub fn is_rank(&self, program: u32) -> Result<bool> {
        Ok(program_id(self.rank()?)? == program)
    }

    /// True when the program of this number ranks, whichever build's it is.
    pub fn is_any_rank(&self, program: u32) -> Result<bool> {
        // The kernel keeps 15 letters of a name.
        Ok(sys::program_name(program)?.as_deref() == Some(RANK))
    }

    /// A program for one tcx hook, which ranks by this limiter.
    ///
    /// # Errors
    /// [`Error::NoTcx`] when the kernel has no such hooks.
    pub fn rank_tcx(&self, limiter: u16) -> Result<OwnedFd> {
        let ranks = self.ranks.as_ref().ok_or(Error::NoTcx)?;
        tcx::program(ranks.as_fd(), Stage::Rank, limiter)
    }

    /// True when the kernel has tcx hooks.
    pub fn has_tcx(&self) -> bool {
        self.ranks.is_some() && tcx::is_there()
    }

    /// Attaches a ranking program to `lo` of the calling thread's network namespace, and detaches it.
    ///
    /// # Errors
    /// Returns an error if the kernel has no tcx hooks or refuses the program.
    pub fn probe_tcx(&self) -> Result<()> {
        if !self.has_tcx() {
            return Err(Error::NoTcx);
        }
        tcx::probe(self.rank_tcx(1)?.as_fd())
    }
}

/// This build's program, if it was found.
pub(crate) fn own(program: Option<&OwnedFd>) -> Result<BorrowedFd<'_>> {
    let program = program.map(AsFd::as_fd);
    program.ok_or_else(|| Error::Load("it is another build's that is loaded".to_owned()))
}

/// Returns a loader without the kernel's own BTF, by which none of the programs is relocated. `EbpfLoader::new` reads and
/// parses that, with 40 MB of memory and some of it for good, unless it cannot open it: so in a thread that opens no file.
fn loader<'a>() -> EbpfLoader<'a> {
    let without_btf = || {
        let _ = sys::deny_open();
        EbpfLoader::new()
    };
    let made = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, without_btf);
        thread.ok()?.join().ok()
    });
    // Else it only takes more memory.
    made.unwrap_or_default()
}

/// Loads the maps of an object, which are pinned in this directory, with a switch of its programs.
pub(crate) fn load_object(
    folder: &Path,
    object: &[u8],
    switch: Option<(&str, bool)>,
) -> Result<Ebpf> {
    let (key, on) = (flow_key(), switch.map(|(_, on)| u8::from(on)));
    let mut loader = loader();
    loader
        .default_map_pin_directory(folder)
        .verifier_log_level(LOG_LEVEL)
        .override_global(FLOW_KEY, &key, true);
    if let (Some((name, _)), Some(on)) = (switch, &on) {
        loader.override_global(name, on, true);
    }
    loader.load(object).map_err(|error| refused(&error))
}

fn load(folder: &Path) -> Result<()> {
    let mut object = load_object(folder, OBJECT, None)?;
    // The limiters are looked at before anything uses them: an older netqos may have left a map
    // of the same name.
    let limiters = folder.join("limiters");
    check_layout(&limiters, sys::get(&limiters)?.as_fd())?;
    let rank_tcx = load_program(&mut object, RANK_TCX)?;
    let ranks = sys::get(&folder.join("ranks"))?;
    // SAFETY: the array's keys are u32, and its values descriptors.
    unsafe { sys::update(ranks.as_fd(), &0_u32, &(rank_tcx.as_raw_fd() as u32), 0) }?;
    // The last, since what is found pinned under this name is complete.
    let own = program_name("rank");
    sys::pin(load_program(&mut object, RANK)?.as_fd(), &folder.join(&own))?;
    remove_others(folder, "rank", &own)
}

/// Random, from the numbers by which the process seeds its hash maps.
fn flow_key() -> [u64; 2] {
    let number = || RandomState::new().build_hasher().finish();
    [number(), number()]
}

pub(crate) fn link_path(folder: &Path, name: &str) -> PathBuf {
    let name = name.replace('%', "%25").replace('.', "%2e");
    folder.join("links").join(name)
}

/// Removes the pins of other builds' programs of this kind. Filters that hold one keep it; programs on tcx hooks
/// have gone on to this build's as soon as that was put into the array.
pub(crate) fn remove_others(folder: &Path, kind: &str, own: &str) -> Result<()> {
    let prefix = format!("{kind}-");
    let entries = fs::read_dir(folder).map_err(Error::at(folder))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_other = name
            .to_str()
            .is_some_and(|name| name.starts_with(&prefix) && name != own);
        if is_other {
            let path = entry.path();
            fs::remove_file(&path).map_err(Error::at(&path))?;
        }
    }
    Ok(())
}

pub(crate) fn load_program(object: &mut Ebpf, name: &str) -> Result<OwnedFd> {
    let failed = |error: ProgramError| refused(&error);
    let program: &mut SchedClassifier = object
        .program_mut(name)
        .ok_or_else(|| Error::Load(format!("no program {name}")))?
        .try_into()
        .map_err(failed)?;
    let mut loaded = program.load();
    for attempt in 1..sys::LOAD_ATTEMPTS {
        match &loaded {
            // The signal may be one of many, as from a busy thread's children.
            Err(error) if errnos(error).any(|errno| errno == libc::EAGAIN) => {
                thread::sleep(AGAIN * attempt as u32);
            }
            _ => break,
        }
        loaded = program.load();
    }
    loaded.map_err(failed)?;
    let program = program.fd().map_err(failed)?;
    program
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::Load(error.to_string()))
}

fn check_layout(path: &Path, limiters: BorrowedFd<'_>) -> Result<()> {
    let info = sys::info::<16>(limiters)?;
    let size = sys::word(&info, MAP_INFO_VALUE_SIZE) as usize;
    let expected = size_of::<Limiter>();
    if size == expected {
        return Ok(());
    }
    Err(Error::Foreign {
        path: path.to_owned(),
        what: format!("a map with values of {size} bytes instead of {expected}"),
    })
}

pub(crate) fn program_id(program: BorrowedFd<'_>) -> Result<u32> {
    Ok(sys::word(&sys::info::<8>(program)?, PROGRAM_INFO_ID))
}

/// A pin's name with a digest of the object, so that another build's program is another file.
fn program_name(name: &str) -> String {
    format!("{name}-{}", env!("NETQOS_PROGRAMS"))
}

pub(crate) fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENOTDIR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells what the kernel thinks of the programs from what it thinks of the caller or the moment.
fn refused(error: &(dyn std::error::Error + 'static)) -> Error {
    let passing = errnos(error).find(|errno| {
        matches!(
            *errno,
            libc::EPERM | libc::ENOMEM | libc::EAGAIN | libc::EINTR | libc::EMFILE | libc::ENFILE
        )
    });
    match passing {
        Some(errno) => Error::Command {
            command: "load the programs",
            source: io::Error::from_raw_os_error(errno),
        },
        None => Error::Load(in_one_line(&netqos_core::with_causes(error))),
    }
}

/// Of the many lines of a verifier's log the last one, which says what is wrong.
fn in_one_line(text: &str) -> String {
    let is_count = |line: &str| {
        ["processed ", "verification time ", "stack depth "]
            .iter()
            .any(|it| line.starts_with(it))
    };
    let lines = |text: &str| {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !is_count(line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    const LOG: &str = "Verifier output: ";
    match text.split_once(LOG) {
        Some((before, log)) => {
            let last = lines(log).pop().unwrap_or_default();
            format!("{} {LOG}{last}", lines(before).join(" "))
        }
        None => lines(text).join(" "),
    }
}

/// What the system said, in an error and its causes.
fn errnos<'e>(error: &'e (dyn std::error::Error + 'static)) -> impl Iterator<Item = i32> + 'e {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .filter_map(io::Error::raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_reads_no_btf_of_the_kernel_and_files_can_be_opened_afterwards() {
        let loader = format!("{:?}", loader());
        assert!(loader.starts_with("EbpfLoader { btf: None"), "{loader:.80}");
        assert!(fs::read("/proc/self/stat").is_ok());
    }

    #[test]
    fn of_a_verifiers_log_the_reason_is_told() {
        let said = "the BPF_PROG_LOAD syscall returned Permission denied (os error 13). \
                    Verifier output: 527: (bf) r2 = r7\n528: (85) call bpf_map_lookup_elem#1\n\
                    R2 type=mem expected=fp, pkt\nprocessed 1571 insns\n\n";
        assert_eq!(
            in_one_line(said),
            "the BPF_PROG_LOAD syscall returned Permission denied (os error 13). \
             Verifier output: R2 type=mem expected=fp, pkt"
        );
        assert_eq!(in_one_line("no map\nof this name"), "no map of this name");
    }
}
