//! Maps of others, looked at and never written to.

use std::os::fd::AsFd as _;
use std::path::Path;

use crate::pins::optional;
use crate::{Result, sys};

/// The pods' rates of Cilium's bandwidth manager, in a BPF file system. It pins the map where the
/// manager is on, and removes it where it is off.
const THROTTLE: &str = "tc/globals/cilium_throttle";
/// Those of what pods receive, where a version has a map of their own for them.
const INGRESS_THROTTLE: &str = "tc/globals/cilium_ingress_throttle";
/// How long its keys are: the number of an endpoint in four bytes, a direction, and zeroes. In older
/// versions it is one number of eight bytes, of which no endpoint fills more than two.
const KEY: u32 = 8;
/// Where a key has the direction, and which one is ingress.
const DIRECTION: (usize, u8) = (4, 1);
/// Where `struct bpf_map_info` has the size of a key.
const INFO_KEY_SIZE: usize = 8;

/// Which directions Cilium's bandwidth manager limits on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CiliumBandwidth {
    /// What pods send.
    pub egress: bool,
    /// What they receive: known once it limits a pod so.
    pub ingress: bool,
}

impl CiliumBandwidth {
    /// What is pinned says it, in a BPF file system that is mounted there.
    ///
    /// # Errors
    /// A map is there and cannot be read.
    pub fn look(bpffs: &Path) -> Result<Self> {
        let Some(map) = optional(sys::get_to_read(&bpffs.join(THROTTLE)))? else {
            return Ok(Self::default());
        };
        let own = optional(sys::get_to_read(&bpffs.join(INGRESS_THROTTLE)))?.is_some();
        let info = sys::info::<16>(map.as_fd())?;
        let (at, ingress) = DIRECTION;
        let in_keys = if sys::word(&info, INFO_KEY_SIZE) == KEY {
            // SAFETY: plain bytes, as many as a key of this map has.
            let keys: Vec<[u8; KEY as usize]> = unsafe { sys::keys(map.as_fd()) }?;
            keys.iter().any(|key| key[at] == ingress)
        } else {
            false
        };
        Ok(Self {
            egress: true,
            ingress: own || in_keys,
        })
    }
}
