//! The name of the ifb device through which a pod's egress is shaped the well-known plugin's way.

use sha2::{Digest, Sha512};

/// The device's name for this container on this network: `bwp` and twelve hexadecimal digits of a
/// hash, 15 bytes in all, the most that the kernel allows.
///
/// The same as the well-known plugin's (first 15 characters of `bwp` + hex(sha512(network +
/// container))), so that either plugin finds and removes what the other one made.
pub fn ifb_name(network: &str, container: &str) -> String {
    let hash = Sha512::new()
        .chain_update(network)
        .chain_update(container)
        .finalize();
    let digits: String = hash
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("bwp{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_well_known_plugins_name() {
        // The first is in the plugin's own test suite, the others are what sha512sum says.
        for (network, container, name) in [
            ("cni-plugin-bandwidth-test", "dummy", "bwpa8eda89404b7"),
            (
                "cni-plugin-bandwidth-test",
                "container-id",
                "bwpfd1bd0cfaef7",
            ),
            ("", "", "bwpcf83e1357eef"),
        ] {
            assert_eq!(ifb_name(network, container), name);
        }
    }
}
