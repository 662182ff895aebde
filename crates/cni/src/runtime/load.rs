//! Lists from files: `/etc/cni/net.d`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{NetworkConfigList, PluginConfig, RuntimeError};

/// The files that hold a list.
const LIST: &str = "conflist";
/// The files that hold a single plugin, the form before 1.0.0.
const SINGLE: [&str; 2] = ["conf", "json"];
/// The files that hold one more plugin of a list, in the folder of its name.
const DROP_IN: &str = "conf";

/// A file of a directory, with the list in it.
pub type ListFile = (PathBuf, Result<NetworkConfigList, RuntimeError>);

impl NetworkConfigList {
    /// Reads a file: a list with the plugins in its folder (`<name>/*.conf` beside the file), or,
    /// when the file's name ends in `.conf` or `.json`, a single plugin.
    pub fn from_file(path: &Path) -> Result<Self, RuntimeError> {
        let text = read(path)?;
        let list = if has_extension(path, &SINGLE) {
            Self::parse_single(&text)
        } else {
            Self::parse(&text).and_then(|list| list.with_drop_ins(path))
        };
        let list = list.map_err(|error| match error {
            known @ (RuntimeError::InFile { .. } | RuntimeError::Read { .. }) => known,
            error => error.in_file(path),
        })?;
        if list.plugins.is_empty() {
            return Err(RuntimeError::NoPlugins.in_file(path));
        }
        Ok(list)
    }

    /// The network of this name in a folder: the first among the lists, then among the files of a
    /// single plugin, each in the order of their names. A broken file before it is an error.
    pub fn load(dir: &Path, name: &str) -> Result<Self, RuntimeError> {
        let files: Vec<_> = files(dir, &[LIST])?
            .into_iter()
            .chain(files(dir, &SINGLE)?)
            .collect();
        if files.is_empty() {
            return Err(RuntimeError::NoConfigurations {
                dir: dir.to_owned(),
            });
        }
        for file in files {
            let list = Self::from_file(&file)?;
            if list.name == name {
                return Ok(list);
            }
        }
        Err(RuntimeError::NetworkNotFound {
            name: name.to_owned(),
            dir: dir.to_owned(),
        })
    }

    /// The network that a cluster uses by default: the first file of any form, in the order of
    /// their names, as containerd has it.
    pub fn load_default(dir: &Path) -> Result<Self, RuntimeError> {
        Self::load_first(dir, |_| true)
    }

    /// All files of a directory that a runtime reads, in the order of their names.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read. One that does not exist has no files.
    pub fn all(dir: &Path) -> Result<Vec<ListFile>, RuntimeError> {
        let [conf, json] = SINGLE;
        let files = files(dir, &[LIST, conf, json])?.into_iter();
        let all = files.map(|file| {
            let list = Self::from_file(&file);
            (file, list)
        });
        Ok(all.collect())
    }

    /// The first list of a directory, in the order of the names of all files, for which `is_meant` returns true. A
    /// broken file before it is an error.
    pub fn load_first(
        dir: &Path,
        is_meant: impl Fn(&NetworkConfigList) -> bool,
    ) -> Result<Self, RuntimeError> {
        let [conf, json] = SINGLE;
        for file in files(dir, &[LIST, conf, json])? {
            let list = Self::from_file(&file)?;
            if is_meant(&list) {
                return Ok(list);
            }
        }
        Err(RuntimeError::NoConfigurations {
            dir: dir.to_owned(),
        })
    }

    fn with_drop_ins(mut self, path: &Path) -> Result<Self, RuntimeError> {
        if self.load_only_inlined_plugins {
            return Ok(self);
        }
        // A name that CNI does not allow could lead out of the folder.
        crate::names::check_network_name(&self.name).map_err(RuntimeError::Request)?;
        let dir = path
            .parent()
            .unwrap_or_else(|| Path::new(""))
            .join(&self.name);
        for file in files(&dir, &[DROP_IN])? {
            let plugin =
                PluginConfig::parse(&read(&file)?).map_err(|error| error.in_file(&file))?;
            self.plugins.push(plugin);
        }
        Ok(self)
    }
}

/// The files of a folder with one of these extensions, by name; none when there is no folder.
fn files(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, RuntimeError> {
    let fail = |error| RuntimeError::Read {
        path: dir.to_owned(),
        error,
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        let path = entry.path();
        if has_extension(&path, extensions) && !entry.file_type().map_err(fail)?.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extensions.contains(&extension))
}

fn read(path: &Path) -> Result<Vec<u8>, RuntimeError> {
    fs::read(path).map_err(|error| RuntimeError::Read {
        path: path.to_owned(),
        error,
    })
}
