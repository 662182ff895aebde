//! The list, by default `00-netqos.conflist`, through which a runtime calls `netqos-multinet` for each pod.
//!
//! A runtime passes only what the list declares, so the list has to declare what the default network takes. The command
//! line writes it, which an init container of the agent executes at each start; `netqos check` reports what it lacks.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use netqos_cni::runtime::{NetworkConfigList, RuntimeError};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

/// The `type` of the plugin, and the name of its list.
pub const PLUGIN: &str = "netqos-multinet";
/// The name of its file by default: the first of a directory in the order of names.
pub const LIST: &str = "00-netqos.conflist";
/// The directory of lists that runtimes and the plugin use by default.
pub const LIST_DIRECTORY: &str = "/etc/cni/net.d";
/// The key of the plugin's configuration with the default network, a file or a list.
pub const DEFAULT_NETWORK: &str = "defaultNetwork";

/// The command that writes the list of this path anew.
pub fn install_command(list: &Path) -> String {
    let directory = list.parent().filter(|it| *it != Path::new(LIST_DIRECTORY));
    let name = list.file_name().filter(|it| *it != LIST).map(Path::new);
    let options = [("--conf-dir", directory), ("--list-name", name)];
    let options =
        options.map(|(option, value)| value.map(|it| format!(" {option} {}", it.display())));
    let options: String = options.into_iter().flatten().collect();
    format!("netqos install-plugin --multinet --to PLUGIN_DIRECTORY{options}")
}

/// The tries to write it while others do.
const TRIES: usize = 5;

/// The capabilities that CNI's CONVENTIONS.md and containerd know. A runtime passes only what a list declares; the plugin
/// passes to each attachment what that one's list declares.
const CAPABILITIES: [&str; 11] = [
    "aliases",
    "bandwidth",
    "cgroupPath",
    "deviceID",
    "dns",
    "infinibandGUID",
    "io.kubernetes.cri.pod-annotations",
    "ipRanges",
    "ips",
    "mac",
    "portMappings",
];

/// The reason that the list is not written.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A file or the directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A list of that name exists that netqos has not written.
    #[error("{} is not netqos's list: rename or remove the file, and try again", .0.display())]
    Foreign(PathBuf),
}

/// A list that declares all that the default network takes.
#[derive(Debug)]
pub struct WrittenList {
    /// Its file.
    pub path: PathBuf,
    /// False if it was so already.
    pub is_changed: bool,
    /// The default network, or the reason that none exists.
    pub default_network: Result<NetworkConfigList, RuntimeError>,
}

/// Writes the list with this path, or adds to it the capabilities that the default network declares. Keys and capabilities
/// that an administrator wrote stay. A capability that the default network declares no longer stays too: the plugin passes
/// none to a plugin that does not declare it. `default_network` is the file of the default network, in place of the first
/// other list of the directory.
///
/// # Errors
/// Returns an error if the list cannot be written, or another one has its name.
pub fn write_list(path: &Path, default_network: Option<&Path>) -> Result<WrittenList, ListError> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| failed(path, error));
    let directory = absolute(directory_of(path))?;
    let default_file = default_network.map(absolute).transpose()?;
    let locked = lock(&directory)?;
    for _ in 0..TRIES {
        let before = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(text.map_err(|error| failed(path, error))?),
        };
        let mut plugin = read_list(path)?.unwrap_or_else(bare_plugin);
        if directory != Path::new(LIST_DIRECTORY) {
            // The plugin reads the default network there.
            let in_list = plugin.entry("confDir");
            in_list.or_insert_with(|| json!(directory));
        }
        if let Some(file) = &default_file {
            plugin.insert(DEFAULT_NETWORK.to_owned(), json!(file));
        }
        let default_network = find_default_network(&directory, &plugin);
        declare(&mut plugin, default_network.as_ref().ok());
        let list = match &before {
            Some(before) => {
                let list = serde_json::from_slice(before);
                let mut list: Value = list.map_err(|error| failed(path, error.into()))?;
                list["plugins"] = json!([plugin]);
                list
            }
            None => list_with(&plugin),
        };
        let text = format!("{list:#}\n");
        let is_changed = before.as_deref() != Some(text.as_bytes());
        if !is_changed || replace(path, &locked, before.as_deref(), &text)? {
            return Ok(WrittenList {
                path: path.to_owned(),
                is_changed,
                default_network,
            });
        }
    }
    let why = io::Error::other("another process changes it all the time");
    Err(failed(path, why))
}

/// The temporary name of a list. Runtimes read no file of this ending.
pub fn unfinished_list(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.netqos-new"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Keeps other processes from writing or removing the list until the result is dropped.
///
/// # Errors
/// Returns an error if the directory cannot be opened.
pub fn lock(directory: &Path) -> Result<File, ListError> {
    let open = || -> io::Result<File> {
        let opened = File::open(directory)?;
        flock(&opened, FlockOperation::LockExclusive)?;
        Ok(opened)
    };
    open().map_err(|source| failed(directory, source))
}

/// The configuration of the plugin without any key of an administrator.
pub fn bare_plugin() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), PLUGIN.into())])
}

/// Returns the list with the plugin of this configuration. Runtimes that know 1.1.0 call GC and STATUS.
pub fn list_with(plugin: &Map<String, Value>) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["1.0.0", "1.1.0"],
        "name": PLUGIN,
        "plugins": [plugin],
    })
}

/// Returns the configuration of the plugin in the list of this file, or `None` if the file does not exist.
///
/// # Errors
/// Returns an error if the file cannot be read, or has another list.
pub fn read_list(path: &Path) -> Result<Option<Map<String, Value>>, ListError> {
    let exists = path.try_exists().map_err(|error| failed(path, error))?;
    if !exists {
        // A container does not see the file to which a link leads out of the directory.
        return match path.is_symlink() {
            true => Err(ListError::Foreign(path.to_owned())),
            false => Ok(None),
        };
    }
    let list = match NetworkConfigList::from_file(path) {
        Ok(list) => list,
        Err(RuntimeError::Read { error, .. }) => return Err(failed(path, error)),
        Err(_) => return Err(ListError::Foreign(path.to_owned())),
    };
    match <[_; 1]>::try_from(list.plugins) {
        Ok([plugin]) if plugin.kind == PLUGIN => Ok(Some(plugin.raw)),
        _ => Err(ListError::Foreign(path.to_owned())),
    }
}

/// Returns true if a list calls the plugin.
pub fn calls_plugin(list: &NetworkConfigList) -> bool {
    list.plugins.iter().any(|it| it.kind == PLUGIN)
}

/// Adds the known capabilities, and those of the default network.
fn declare(plugin: &mut Map<String, Value>, default_network: Option<&NetworkConfigList>) {
    let of_default = default_network.into_iter().flat_map(|list| &list.plugins);
    let of_default = of_default.flat_map(|plugin| &plugin.capabilities);
    let of_default = of_default.filter(|(_, is_declared)| **is_declared);
    let of_default = of_default.map(|(name, _)| name.as_str());
    let capabilities: BTreeSet<&str> = CAPABILITIES.into_iter().chain(of_default).collect();
    let declared = plugin.entry("capabilities").or_insert_with(|| json!({}));
    for capability in capabilities {
        // One that an administrator has set to false stays false.
        if declared.get(capability).is_none() {
            declared[capability] = true.into();
        }
    }
}

/// Writes the list in place of the text `before`. Returns false, and leaves it, if it has another text by now: administrators
/// take no lock.
fn replace(
    path: &Path,
    locked: &File,
    before: Option<&[u8]>,
    text: &str,
) -> Result<bool, ListError> {
    let unfinished = unfinished_list(path);
    let rename = |flags| renameat_with(CWD, &unfinished, CWD, path, flags);
    let mut holds_theirs = false;
    let mut write = || -> io::Result<bool> {
        let mut file = File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        let flags = match before {
            None => RenameFlags::NOREPLACE,
            Some(_) => RenameFlags::EXCHANGE,
        };
        match rename(flags) {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::NOENT) => return Ok(false),
            // The file system cannot.
            Err(Errno::INVAL) => fs::rename(&unfinished, path)?,
            Err(error) => return Err(error.into()),
        }
        if let (Some(before), Ok(replaced)) = (before, fs::read(&unfinished))
            && replaced != before
        {
            // Of an administrator, who may even have written once more since.
            holds_theirs = true;
            rename(RenameFlags::EXCHANGE)?;
            if fs::read(&unfinished)? != text.as_bytes() {
                rename(RenameFlags::EXCHANGE)?;
            }
            holds_theirs = false;
            return Ok(false);
        }
        locked.sync_all()?;
        Ok(true)
    };
    let written = write();
    if !holds_theirs {
        // The first error matters.
        let _ = fs::remove_file(&unfinished);
    }
    written.map_err(|error| failed(path, error))
}

/// The default network, as the plugin finds it.
fn find_default_network(
    directory: &Path,
    plugin: &Map<String, Value>,
) -> Result<NetworkConfigList, RuntimeError> {
    let directory = match (plugin.get(DEFAULT_NETWORK), plugin.get("confDir")) {
        (Some(Value::String(file)), _) => return NetworkConfigList::from_file(Path::new(file)),
        (Some(list), _) => return NetworkConfigList::parse(list.to_string().as_bytes()),
        (None, Some(Value::String(directory))) => Path::new(directory),
        (None, _) => directory,
    };
    NetworkConfigList::load_first(directory, |list| !calls_plugin(list))
}

fn failed(path: &Path, source: io::Error) -> ListError {
    ListError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(tempfile::TempDir);

    impl Directory {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn list(&self) -> PathBuf {
            self.0.path().join(LIST)
        }

        fn put(&self, name: &str, document: &Value) {
            fs::write(self.0.path().join(name), document.to_string()).unwrap();
        }

        /// A default network that declares these capabilities.
        fn put_default(&self, capabilities: &[&str]) {
            let capabilities: Map<String, Value> = { capabilities.iter() }
                .map(|it| ((*it).to_owned(), true.into()))
                .collect();
            let plugin = json!({"type": "bridge", "capabilities": capabilities});
            self.put(
                "10-net.conflist",
                &json!({"cniVersion": "1.0.0", "name": "net", "plugins": [plugin]}),
            );
        }

        fn plugin(&self) -> Value {
            let text = fs::read(self.list()).unwrap();
            let list: Value = serde_json::from_slice(&text).unwrap();
            list["plugins"][0].clone()
        }

        /// Writes the list. Returns true if it has changed.
        fn update(&self) -> bool {
            let updated = write_list(&self.list(), None).unwrap();
            let names = fs::read_dir(self.0.path()).unwrap().flatten();
            let is_left = |name: std::ffi::OsString| name.to_string_lossy().starts_with('.');
            assert!(!names.map(|it| it.file_name()).any(is_left));
            updated.is_changed
        }
    }

    #[test]
    fn list_declares_what_the_default_network_takes_when_that_appears_changes_or_goes() {
        let directory = Directory::new();
        assert!(write_list(&directory.list(), None).unwrap().is_changed);
        let mut plugin = directory.plugin();
        plugin["hostPaths"] = json!(["/dev/vfio"]);
        plugin["capabilities"]["mac"] = json!(false);
        directory.put(LIST, &list_with(plugin.as_object().unwrap()));
        directory.update();
        assert!(!directory.update());

        directory.put_default(&["example.org/a", "mac"]);
        assert!(directory.update());
        assert!(!directory.update());
        directory.put_default(&["example.org/a", "example.org/b"]);
        assert!(directory.update());
        fs::remove_file(directory.0.path().join("10-net.conflist")).unwrap();
        assert!(!directory.update());
        let plugin = directory.plugin();
        for (capability, is_declared) in [
            ("example.org/a", true),
            ("example.org/b", true),
            ("io.kubernetes.cri.pod-annotations", true),
            ("mac", false),
        ] {
            assert_eq!(
                plugin["capabilities"][capability], is_declared,
                "{capability}"
            );
        }
        assert_eq!(plugin["hostPaths"], json!(["/dev/vfio"]));
        // A half-written one.
        fs::write(directory.0.path().join("05-net.conflist"), "{").unwrap();
        assert!(!directory.update());
    }

    #[test]
    fn keys_of_the_list_stay() {
        let directory = Directory::new();
        directory.update();
        let mut list = list_with(directory.plugin().as_object().unwrap());
        list["disableCheck"] = true.into();
        directory.put(LIST, &list);
        directory.put_default(&["example.org/a"]);
        assert!(directory.update());
        let text = fs::read(directory.list()).unwrap();
        let updated: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(updated["disableCheck"], true);
        assert_eq!(updated["name"], list["name"]);
    }

    #[test]
    fn default_network_of_the_plugins_keys_counts() {
        let directory = Directory::new();
        let elsewhere = Directory::new();
        elsewhere.put_default(&["example.org/elsewhere"]);
        directory.put_default(&["example.org/here"]);
        let file = elsewhere.0.path().join("10-net.conflist");
        let inline: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for (key, value) in [
            ("defaultNetwork", json!(file)),
            ("defaultNetwork", inline),
            ("confDir", json!(elsewhere.0.path())),
        ] {
            let mut plugin = bare_plugin();
            plugin.insert(key.to_owned(), value);
            directory.put(LIST, &list_with(&plugin));
            assert!(directory.update());
            let declared = &directory.plugin()["capabilities"];
            assert_eq!(declared["example.org/elsewhere"], true, "{key}");
            assert_eq!(declared.get("example.org/here"), None, "{key}");
        }
    }

    #[test]
    fn list_that_is_not_netqos_is_left_alone() {
        let directory = Directory::new();
        directory.put_default(&["example.org/a"]);
        let foreign =
            json!({"cniVersion": "1.0.0", "name": "own", "plugins": [{"type": "bridge"}]});
        let both = json!({"name": "own", "plugins": [{"type": PLUGIN}, {"type": "tuning"}]});
        for list in [foreign.to_string(), both.to_string(), "{".to_owned()] {
            fs::write(directory.list(), &list).unwrap();
            let written = write_list(&directory.list(), None);
            assert!(matches!(written, Err(ListError::Foreign(_))), "{list}");
            assert_eq!(fs::read_to_string(directory.list()).unwrap(), list);
        }
    }
}
