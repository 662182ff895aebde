//! The name of the ifb device through which a pod's egress is shaped the well-known plugin's way.

use sha2::{Digest, Sha512};

/// The most characters of a link's name.
const LENGTH: usize = 15;
/// How the names of Calico's ifbs begin.
pub const CALICO_IFB: &str = "bwcali";

/// The device's name for this container on this network: `bwp` and twelve hexadecimal digits of a
/// hash, 15 bytes in all, the most that the kernel allows.
///
/// The same as the well-known plugin's (first 15 characters of `bwp` + hex(sha512(network +
/// container))), so that either plugin finds and removes what the other one made.
pub fn ifb_name(network: &str, container: &str) -> String {
    let hash = Sha512::new().chain_update(network).chain_update(container);
    name("bwp", hash)
}

/// The name of the ifb by which Calico limits what comes from the pod at this host link: the first 15 characters of
/// [`CALICO_IFB`] + hex(sha512(link)) (Felix, `dataplane/linux/qos`).
pub fn calico_ifb_name(link: &str) -> String {
    name(CALICO_IFB, Sha512::new().chain_update(link))
}

fn name(prefix: &str, hash: Sha512) -> String {
    let digits = hash.finalize();
    let digits = digits.iter().map(|byte| format!("{byte:02x}"));
    let mut name: String = [prefix.to_owned()].into_iter().chain(digits).collect();
    name.truncate(LENGTH);
    name
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
        // By sha512sum.
        assert_eq!(calico_ifb_name("cali0ef24b1c2a3"), "bwcali0fb1f5a1f");
    }
}
