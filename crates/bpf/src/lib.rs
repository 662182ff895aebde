//! The eBPF programs of netqos, their maps, and how they are loaded, pinned and reached.
//!
//! ```text
//!   bpf/rank.bpf.c ─clang─► object ─aya, once in a boot─► <bpffs>/netqos/v1/
//!                                                           rank-<digest>          program
//!                                                           limiters flows ranks   maps
//!                                                           links/<tag>        tcx links
//!   CNI plugin ──── raw bpf(2) on what is pinned ───────────►  (no ELF, no verifier)
//! ```
//!
//! What is pinned outlives the process, so enforcement does not depend on anybody running. The
//! folder carries the version of the maps' layout, the programs a digest of the object: a newer
//! netqos adds its programs beside the old ones and shares the maps, and one with another layout
//! shares nothing.

#[cfg(feature = "classes")]
pub mod classes;
mod error;
mod filesystem;
#[cfg(test)]
mod header;
mod layout;
mod map;
mod others;
mod pins;
#[cfg(feature = "rules")]
pub mod rules;
mod sys;
mod tcx;

pub use error::{Error, Result};
pub use filesystem::Scratch;
pub use layout::{Counters, LAYOUT, Limiter, Settings};
pub use map::Limiters;
pub use others::CiliumBandwidth;
pub use pins::{Pins, Programs};
#[cfg(feature = "classes")]
pub use tcx::can_be_told as can_tell_tcx;
#[cfg(feature = "rules")]
pub use tcx::redirect_to_peer;
pub use tcx::{TcxHook, TcxLink, has_netkit_programs};
