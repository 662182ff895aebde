//! The pins of the classes: opened when they are there, made when they are not.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::layout::{Flow, FlowKey, Pod, Settings, key};
use super::leaves::Leaves;
use super::numbered::Numbered;
use crate::pins::{self, optional};
use crate::rules::Table;
use crate::{Error, Result, filesystem, sys};

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/classes.o"));
/// The folder of this layout.
const FOLDER: &str = "classes-v4";
const STAMP: &str = "netqos_stamp";
const CHOOSE: &str = "netqos_choose";
const EGRESS: &str = "netqos_class_egress";
const INGRESS: &str = "netqos_class_ingress";

/// The programs and tables of classes.
#[derive(Debug)]
pub struct Classes {
    stamp: Option<OwnedFd>,
    choose: Option<OwnedFd>,
    egress: Option<OwnedFd>,
    ingress: Option<OwnedFd>,
    settings: Table<u32, Settings>,
    addresses: Table<[u8; 16], u32>,
    /// Pods by number.
    pub pods: Numbered<Pod>,
    /// The numbers of pods, by the host's ends of their interfaces.
    pub links: Table<u32, u32>,
    /// The numbers of pods on the host's network, by the ids of their cgroups.
    pub cgroups: Table<u64, u32>,
    /// Flows that have parts of their own.
    pub flows: Table<FlowKey, Flow>,
    /// The slots of each line.
    pub leaves: Leaves,
}

impl Classes {
    /// Opens what is pinned, whichever build of this layout pinned it. `None` when none has since the
    /// node started.
    pub fn open(bpffs: &Path) -> Result<Option<Self>> {
        // Where one is missing, whoever made them was interrupted; the rest is made then.
        optional(Self::open_all(&folder(bpffs)))
    }

    fn open_all(folder: &Path) -> Result<Self> {
        let at = |name: &str| folder.join(name);
        let program = |kind| optional(sys::get(&at(&pin_name(kind))));
        Ok(Self {
            stamp: program("stamp")?,
            choose: program("choose")?,
            egress: program("egress")?,
            ingress: program("ingress")?,
            settings: Table::open(&at("settings"))?,
            addresses: Table::open(&at("addresses"))?,
            pods: Numbered::open(&at("pods"))?,
            links: Table::open(&at("links"))?,
            cgroups: Table::open(&at("cgroups"))?,
            flows: Table::open(&at("pod_flows"))?,
            leaves: Leaves::open(folder)?,
        })
    }

    /// Opens what is pinned, and loads and pins this build's programs first where they are not, in
    /// place of another's. Removes the pins of other layouts, whose programs go on until this layout's take
    /// their places. Mounts the BPF file system where none is.
    ///
    /// # Errors
    /// The kernel refuses the programs, or there can be no BPF file system.
    pub fn ensure(bpffs: &Path) -> Result<Self> {
        let folder = folder(bpffs);
        let (loaded, load) = (|| Self::loaded(bpffs), || load(&folder));
        let classes = filesystem::ensure_loaded(bpffs, &folder, "", loaded, load)?;
        // Also if an earlier agent pinned this layout: it may have been killed before it removed the others.
        remove_layouts(bpffs, |name| name != FOLDER)?;
        Ok(classes)
    }

    fn loaded(bpffs: &Path) -> Result<Option<Self>> {
        Ok(Self::open(bpffs)?.filter(|found| found.egress.is_some()))
    }

    /// The program for the host's ends of pods' interfaces.
    ///
    /// # Errors
    /// It is another build's that is loaded; [`Classes::ensure`] loads this one's.
    pub fn stamp(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.stamp.as_ref())
    }

    /// The program for a line's tcx egress.
    ///
    /// # Errors
    /// As for [`stamp`](Self::stamp).
    pub fn choose(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.choose.as_ref())
    }

    /// The program that is a filter of a line's tree.
    ///
    /// # Errors
    /// As for [`stamp`](Self::stamp).
    pub fn egress(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.egress.as_ref())
    }

    /// The program for what comes in by a line.
    ///
    /// # Errors
    /// As for [`stamp`](Self::stamp).
    pub fn ingress(&self) -> Result<BorrowedFd<'_>> {
        pins::own(self.ingress.as_ref())
    }

    /// The kernel's number for [`stamp`](Self::stamp).
    pub fn stamp_id(&self) -> Result<u32> {
        pins::program_id(self.stamp()?)
    }

    /// The kernel's number for [`egress`](Self::egress).
    pub fn egress_id(&self) -> Result<u32> {
        pins::program_id(self.egress()?)
    }

    /// The kernel's number for [`ingress`](Self::ingress).
    pub fn ingress_id(&self) -> Result<u32> {
        pins::program_id(self.ingress()?)
    }

    /// What the programs are told of the node.
    pub fn settings(&self) -> Result<Settings> {
        Ok(self.settings.get(&0)?.unwrap_or_default())
    }

    /// Tells the programs of the node.
    pub fn set(&self, settings: &Settings) -> Result<()> {
        self.settings.put(&0, settings)
    }

    /// The addresses of pods, and the pods' numbers.
    pub fn addresses(&self) -> Result<Vec<(IpAddr, u32)>> {
        let address = |bytes: [u8; 16]| IpAddr::from(bytes).to_canonical();
        let all = self.addresses.all()?.into_iter();
        Ok(all.map(|(bytes, pod)| (address(bytes), pod)).collect())
    }

    /// Says whose an address is.
    pub fn put_address(&self, address: IpAddr, pod: u32) -> Result<()> {
        self.addresses.put(&key(address), &pod)
    }

    /// Forgets whose an address was.
    pub fn remove_address(&self, address: IpAddr) -> Result<bool> {
        self.addresses.remove(&key(address))
    }

    /// Removes the pins of every layout. What is still attached lives on until it is not.
    pub fn unpin(bpffs: &Path) -> Result<()> {
        remove_layouts(bpffs, |_| true)?;
        // The last one of netqos' folders takes the folder along.
        let _ = fs::remove_dir(bpffs.join("netqos"));
        Ok(())
    }
}

/// Removes the directories of pins of these layouts, by their names.
fn remove_layouts(bpffs: &Path, is_meant: impl Fn(&str) -> bool) -> Result<()> {
    let netqos = bpffs.join("netqos");
    let entries = match fs::read_dir(&netqos) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::at(&netqos))?,
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = |name: &str| name.starts_with("classes-") && is_meant(name);
        if name.to_str().is_some_and(is_ours) {
            let path = entry.path();
            filesystem::removed(&path, fs::remove_dir_all(&path))?;
        }
    }
    Ok(())
}

fn folder(bpffs: &Path) -> PathBuf {
    bpffs.join("netqos").join(FOLDER)
}

fn load(folder: &Path) -> Result<()> {
    let mut object = pins::load_object(folder, OBJECT, None)?;
    // The last is the one by which they are known to be complete.
    for (kind, program) in [
        ("stamp", STAMP),
        ("choose", CHOOSE),
        ("ingress", INGRESS),
        ("egress", EGRESS),
    ] {
        let program = pins::load_program(&mut object, program)?;
        let own = pin_name(kind);
        pins::remove_others(folder, kind, "")?;
        sys::pin(program.as_fd(), &folder.join(&own))?;
    }
    Ok(())
}

/// A pin's name with a digest of the object, so that another build's program is another file.
fn pin_name(kind: &str) -> String {
    format!("{kind}-{}", env!("NETQOS_CLASSES"))
}
