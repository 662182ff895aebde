//! What CNI allows as names: the checks that plugin and runtime share, with their codes and texts.

use crate::{CniError, ErrorCode};

/// The kernel's `IFNAMSIZ` without the terminating zero.
const MAX_INTERFACE_NAME: usize = 15;

/// A container id: `^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`.
pub(crate) fn check_container_id(id: &str) -> Result<(), CniError> {
    if id.is_empty() {
        return Err(CniError::new(
            ErrorCode::UNKNOWN_CONTAINER,
            "missing containerID",
        ));
    }
    if !is_identifier(id) {
        return Err(CniError::environment("invalid characters in containerID").with_details(id));
    }
    Ok(())
}

/// A network name: the same characters.
pub(crate) fn check_network_name(name: &str) -> Result<(), CniError> {
    if name.is_empty() {
        return Err(CniError::invalid_config("missing network name"));
    }
    if !is_identifier(name) {
        return Err(
            CniError::invalid_config("invalid characters found in network name").with_details(name),
        );
    }
    Ok(())
}

/// An interface name that the kernel takes (`dev_valid_name` in net/core/dev.c).
pub(crate) fn check_interface_name(name: &str) -> Result<(), CniError> {
    let problem = if name.is_empty() {
        "interface name is empty"
    } else if name.len() > MAX_INTERFACE_NAME {
        "interface name is too long"
    } else if name == "." || name == ".." {
        "interface name is . or .."
    } else if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
        "interface name contains / or : or whitespace characters"
    } else {
        return Ok(());
    };
    Err(CniError::environment(problem))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}
