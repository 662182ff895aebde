//! Device information files of the Network Plumbing Working Group, version 1.1.0: what a device plugin says about a
//! device, for the plugins of an attachment and for `network-status`.
//!
//! A broken file is left out of `network-status` with a line on standard error, as Multus has it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use netqos_api::multinet::{DeviceInfoFiles, RecordedAttachment};
use netqos_api::npwg::NetworkStatus;
use serde_json::{Map, Value};

/// The capability whose argument is the path of the attachment's file.
const CAPABILITY: &str = "CNIDeviceInfoFile";
/// The files of attachments.
const OF_ATTACHMENTS: &str = "/var/run/k8s.cni.cncf.io/devinfo/cni";
/// The files of device plugins.
const OF_DEVICES: &str = "/var/run/k8s.cni.cncf.io/devinfo/dp";
/// The most bytes of a file. All of a pod's go into one annotation.
const MAX_BYTES: u64 = 16 << 10;

/// Gives the attachment its file, if one of its plugins declares the capability or it has a device. `device` is a
/// resource with a device that the kubelet gave to the pod.
///
/// # Errors
/// Returns an error if the resource leads out of the directory.
pub fn give(
    attachment: &mut RecordedAttachment,
    container_id: &str,
    device: Option<(&str, &str)>,
) -> Result<(), String> {
    let is_declared = super::compose::declares(&attachment.list, CAPABILITY);
    let Some(nad) = { attachment.nad.as_deref() }.filter(|_| is_declared || device.is_some())
    else {
        return Ok(());
    };
    let name = format!("{nad}-{container_id}_{}", attachment.interface).replace('/', "-");
    let of_device = match device {
        Some((resource, device)) => {
            if device.contains('/') || resource.split('/').any(|it| it == "..") {
                return Err(format!("device {device:?} of {resource:?} is a path"));
            }
            let resource = resource.replace('/', "-");
            Some(Path::new(OF_DEVICES).join(format!("{resource}-{device}-device.json")))
        }
        None => None,
    };
    let file = Path::new(OF_ATTACHMENTS).join(name);
    if is_declared {
        let path = file.to_string_lossy().into_owned();
        let arguments = &mut attachment.capability_args;
        arguments.insert(CAPABILITY.to_owned(), path.into());
    }
    attachment.device_info = Some(DeviceInfoFiles { file, of_device });
    Ok(())
}

/// Copies the file of the device plugin, before the plugins of the attachment run.
///
/// # Errors
/// Returns an error if the copy cannot be written.
pub fn copy(attachment: &RecordedAttachment) -> io::Result<()> {
    let Some(files) = &attachment.device_info else {
        return Ok(());
    };
    // Of an earlier attachment of this name, which nothing has undone.
    remove(attachment)?;
    let Some(info) = files.of_device.as_deref().and_then(read_or_say) else {
        return Ok(());
    };
    fs::create_dir_all(OF_ATTACHMENTS)?;
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&files.file)?;
    file.write_all(Value::Object(info).to_string().as_bytes())
}

/// Writes what the attachment's file says into its entries: what its plugins left there.
pub fn describe(attachment: &RecordedAttachment, entries: &mut [NetworkStatus]) {
    let Some(files) = &attachment.device_info else {
        return;
    };
    let info = read_or_say(&files.file);
    let info = info.or_else(|| files.of_device.as_deref().and_then(read_or_say));
    for entry in entries {
        entry.device_info = info.clone().map(Value::Object);
    }
}

/// Removes the attachment's file. After a reboot there is none.
///
/// # Errors
/// Returns an error if it cannot be removed.
pub fn remove(attachment: &RecordedAttachment) -> io::Result<()> {
    let Some(files) = &attachment.device_info else {
        return Ok(());
    };
    match fs::remove_file(&files.file) {
        Err(error) if !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Removes the files of a sandbox whose attachments have no record, as of one that Multus attached.
pub fn remove_of_container(container_id: &str) {
    let of_container = format!("-{container_id}_");
    let files = fs::read_dir(OF_ATTACHMENTS).into_iter().flatten().flatten();
    let own = files.filter(|it| it.file_name().to_string_lossy().contains(&of_container));
    for file in own {
        let _ = fs::remove_file(file.path());
    }
}

/// The path of an attachment's file, for messages.
pub fn path(attachment: &RecordedAttachment) -> PathBuf {
    let files = attachment.device_info.as_ref();
    files.map(|it| it.file.clone()).unwrap_or_default()
}

/// Returns true if the file or its directory does not exist.
fn is_missing(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind())
}

fn read_or_say(path: &Path) -> Option<Map<String, Value>> {
    match read(path) {
        Ok(info) => Some(info),
        Err(error) if is_missing(&error) => None,
        Err(error) => {
            super::say(&format!(
                "device information {} is left out: {error}",
                path.display()
            ));
            None
        }
    }
}

/// Reads a file. A link is refused.
fn read(path: &Path) -> io::Result<Map<String, Value>> {
    let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let named = fs::symlink_metadata(path)?;
    if !named.is_file() {
        return Err(invalid("not a regular file"));
    }
    let file = File::open(path)?;
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(invalid("replaced while it was read"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(invalid("longer than 16 KiB"));
    }
    serde_json::from_slice(&bytes).map_err(|why| invalid(&format!("not an object in JSON: {why}")))
}
