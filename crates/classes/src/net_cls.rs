//! cgroup v1's `net_cls`: which class a process on the host's network is of.
//!
//! A cgroup's number is inherited by those that are made below it, and not by those that are there: it
//! is written to each of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use netqos_netlink::Handle;

use crate::{Error, Result};

const FILE: &str = "net_cls.classid";
/// Pods' cgroups are below a cgroup whose name has this in it, wherever that is.
const PODS: &str = "kubepods";

/// The hierarchy, and which numbers in it are of the backend that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetCls<'a> {
    pub(crate) root: &'a Path,
    pub(crate) is_ours: fn(Handle) -> bool,
    /// Others may have given such numbers too: those above pods' cgroups, and beside them, stay.
    pub(crate) may_be_others: bool,
}

impl NetCls<'_> {
    /// Whether it is there.
    pub(crate) fn is_mounted(self) -> bool {
        self.root.join(FILE).exists()
    }

    /// The folder of a pod's cgroup, if it is there.
    pub(crate) fn folder(self, cgroup: &Path) -> Option<PathBuf> {
        let folder = self.root.join(cgroup.strip_prefix("/").unwrap_or(cgroup));
        folder.join(FILE).exists().then_some(folder)
    }

    /// The number of a cgroup.
    pub(crate) fn number(self, folder: &Path) -> Option<Handle> {
        read(folder).ok().flatten()
    }

    /// Makes the cgroups of pods have these numbers, and no others have one of ours; how many had not.
    pub(crate) fn hold(self, wanted: &BTreeMap<PathBuf, Handle>) -> Result<usize> {
        let mut changes = 0;
        let errors = self.hold_each(wanted, &mut changes);
        match errors.is_empty() {
            true => Ok(changes),
            false => Err(Error::Several(errors)),
        }
    }

    /// The same; the cgroups that could not be given their numbers, which stop no others.
    pub(crate) fn hold_each(
        self,
        wanted: &BTreeMap<PathBuf, Handle>,
        changes: &mut usize,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        if !self.is_mounted() {
            return errors;
        }
        let tops = match self.may_be_others {
            true => pods_below(self.root),
            false => below(self.root),
        };
        for folder in &tops {
            self.walk(folder, Handle::NONE, wanted, changes, &mut errors);
        }
        // A pod may have its cgroup elsewhere.
        let is_below = |folder: &Path| tops.iter().any(|top| folder.starts_with(top));
        for (folder, number) in wanted.iter().filter(|(folder, _)| !is_below(folder)) {
            self.walk(folder, *number, wanted, changes, &mut errors);
        }
        errors
    }

    /// Gives a cgroup and all below it their numbers: the next above that has one decides.
    fn walk(
        self,
        folder: &Path,
        inherited: Handle,
        wanted: &BTreeMap<PathBuf, Handle>,
        changes: &mut usize,
        errors: &mut Vec<Error>,
    ) {
        let number = wanted.get(folder).copied().unwrap_or(inherited);
        match self.put(folder, number) {
            Ok(changed) => *changes += usize::from(changed),
            Err(error) => errors.push(error),
        }
        for child in below(folder) {
            self.walk(&child, number, wanted, changes, errors);
        }
    }

    /// Gives one cgroup its number; whether that changed it. A cgroup that is gone has none.
    fn put(self, folder: &Path, number: Handle) -> Result<bool> {
        let Some(found) = read(folder)? else {
            return Ok(false);
        };
        if found == number || (number == Handle::NONE && !(self.is_ours)(found)) {
            return Ok(false);
        }
        let path = folder.join(FILE);
        match fs::write(&path, number.raw().to_string()) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(source) => Err(Error::File { path, source }),
        }
    }
}

/// The topmost cgroups of pods below one.
fn pods_below(folder: &Path) -> Vec<PathBuf> {
    let is_of_pods = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.contains(PODS))
    };
    let (mut found, others): (Vec<_>, Vec<_>) = below(folder).into_iter().partition(is_of_pods);
    found.extend(others.iter().flat_map(|folder| pods_below(folder)));
    found
}

fn read(folder: &Path) -> Result<Option<Handle>> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().ok().map(Handle::from_raw)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(Error::File { path, source }),
    }
}

fn is_gone(error: &io::Error) -> bool {
    // A cgroup that goes while its file is open answers that there is no such device.
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// The cgroups right below one; none of one that is gone.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
