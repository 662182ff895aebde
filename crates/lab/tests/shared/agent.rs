//! What a lab with an agent needs.

use std::path::{Path, PathBuf};

/// The agent, which stands beside the tests where the whole workspace was built. `None`: skipped, which
/// is said.
pub(crate) fn agent() -> Option<PathBuf> {
    let plugins = ["bridge", "host-local", "ptp", "static"];
    let missing = plugins.map(|name| Path::new("/usr/lib/cni").join(name));
    let agent = std::env::var_os(netqos_lab::AGENT).map_or_else(
        || {
            let test = std::env::current_exe().unwrap();
            test.ancestors().nth(2).unwrap().join("netqos-agent")
        },
        PathBuf::from,
    );
    let missing = missing.iter().chain([&agent]).find(|path| !path.is_file());
    let Some(missing) = missing else {
        return Some(agent);
    };
    let said = format!(
        "{} is missing: cargo build -p netqos-agent, and containernetworking-plugins",
        missing.display()
    );
    assert!(std::env::var_os("NETQOS_REQUIRE_ROOT").is_none(), "{said}");
    eprintln!("skipped: {said}");
    None
}
