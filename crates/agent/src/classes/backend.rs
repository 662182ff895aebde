//! Who can divide lines, by name.

use std::fs;
use std::path::{Path, PathBuf};

use netqos_api::koordinator::BackendKind;
use netqos_classes::{ClassBackend, Kernel, KernelOptions, Nobody, Result, Tc, TerwayQos};
use netqos_datapath::Paths;

/// Who divides a node's lines where neither its label, nor its NodeSLO, nor a flag says another.
pub const DEFAULT_CLASS_BACKEND: BackendKind = BackendKind::Kernel;

/// Where cgroups are mounted, unless somebody says otherwise.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// The backend of this name, which keeps what it has to below these folders, and finds cgroups where they
/// are mounted at or below that one.
///
/// # Errors
/// It cannot be had on this node.
pub fn class_backend(
    kind: BackendKind,
    paths: &Paths,
    cgroups: &Path,
) -> Result<Box<dyn ClassBackend>> {
    class_backend_as(kind, KernelOptions::new(paths.clone(), cgroups), cgroups)
}

/// The same; that of the kernel with these options.
pub(crate) fn class_backend_as(
    kind: BackendKind,
    kernel: KernelOptions,
    cgroups: &Path,
) -> Result<Box<dyn ClassBackend>> {
    Ok(match kind {
        BackendKind::Kernel => Box::new(Kernel::open(kernel)?),
        BackendKind::Tc => Box::new(Tc::new(cgroups.join("net_cls"))),
        BackendKind::TerwayQos => Box::new(TerwayQos::default()),
        BackendKind::None => Box::new(Nobody),
    })
}

/// The file that says which backend has anything in force. It does so before that backend makes the first
/// thing, and until it has removed the last one.
pub fn backend_record(run: &Path) -> PathBuf {
    run.join("class-backend")
}

/// Which backend has anything in force that an agent put there; `None` where it is none.
pub fn recorded_backend(run: &Path) -> Option<BackendKind> {
    let text = fs::read_to_string(backend_record(run)).ok()?;
    text.trim().parse().ok()
}

/// Writes down which backend is going to have something in force, or that none has.
///
/// # Errors
/// It could not be written: what was written before stands there.
#[cfg(feature = "daemon")]
pub(crate) fn write_down(run: &Path, kind: BackendKind) -> std::io::Result<()> {
    let path = backend_record(run);
    if kind == BackendKind::None {
        return match fs::remove_file(path) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        };
    }
    let fresh = run.join(".class-backend.new");
    fs::write(&fresh, format!("{kind}\n"))?;
    fs::rename(fresh, path)
}
