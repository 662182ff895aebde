//! How many bytes slices take.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::plan::PeerSet;

/// The most that a slice may take, as the JSON that a watch sends of it.
const MOST: usize = 2_048;

/// What is in a slice beside its addresses, its namespace and its network, with what a server adds:
/// uid, versions, time and who manages which fields. A test of `netqos-k8s` holds it to that.
const BESIDE: usize = 720;

/// The bytes that the addresses of a slice of this set may take.
pub(super) fn room(set: &PeerSet, controller: &Arc<str>) -> usize {
    let mut network = Count(0);
    // Counting does not fail.
    let _ = write!(network, "{}", set.network);
    MOST.saturating_sub(BESIDE + set.home(controller).len() + network.0)
}

/// What an address takes: its text, quotes and a comma.
pub(super) fn of(address: IpAddr) -> usize {
    let mut count = Count(3);
    let _ = write!(count, "{address}");
    count.0
}

/// How many bytes were written.
struct Count(usize);

impl fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_what_it_takes_in_json() {
        for text in [
            "10.0.0.1",
            "255.255.255.255",
            "fd00::1",
            "2001:db8:1:2:3:4:5:6",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(of(address), serde_json::to_string(text).unwrap().len() + 1);
        }
    }
}
