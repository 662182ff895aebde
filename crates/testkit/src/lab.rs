//! What a lab with an agent needs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};

/// The agent that this environment variable names, or that of this build. `None` if the test has to be skipped, since
/// CNI plugins are missing.
pub fn lab_agent(variable: &str) -> Option<PathBuf> {
    let plugins = ["bridge", "host-local", "ptp", "static"];
    let missing = plugins.map(|name| Path::new("/usr/lib/cni").join(name));
    let Some(missing) = missing.iter().find(|path| !path.is_file()) else {
        let named = std::env::var_os(variable).map(PathBuf::from);
        let built = || crate::executable("netqos-agent", "netqos-agent").unwrap();
        return Some(named.unwrap_or_else(built));
    };
    let said = format!(
        "{} is missing (containernetworking-plugins)",
        missing.display()
    );
    assert!(std::env::var_os("NETQOS_REQUIRE_ROOT").is_none(), "{said}");
    eprintln!("skipped: {said}");
    None
}
