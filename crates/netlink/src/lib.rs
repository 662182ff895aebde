//! A small synchronous netlink socket, and what netqos says over it.
//!
//! ```text
//!   Namespace ──► Socket ──► link::{Link, LinkChange}      RTM_*LINK
//!                        ├─► route                         RTM_GETROUTE
//!                        ├─► qdisc::{Tbf, PfifoFast, …}    RTM_*QDISC   one file each
//!                        ├─► class::HtbClass                RTM_*TCLASS
//!                        └─► filter::{Bpf, Redirect}       RTM_*TFILTER
//!              ├► Nft ─────► nft::{Chain, Rule}             NFT_MSG_*
//!              └► Listener ─► News                      RTNLGRP_LINK, …_ROUTE
//! ```
//!
//! A call sends one request and waits for its answer; the kernel's own explanation (extended
//! acknowledgement) is part of the error. Nothing in here decides anything: policy is
//! `netqos-datapath`'s.
//!
//! Why its own message codecs: `netlink-packet-route` knows neither TBF nor pfifo_fast, and it
//! refuses a whole message for one attribute that it does not expect, which a program that runs
//! on every node cannot afford. The socket and the attribute framing are the netlink crates'.

#[cfg(test)]
mod arbitrary;
pub mod class;
mod default_route;
mod error;
pub mod filter;
mod handle;
pub mod link;
mod listen;
mod namespace;
pub mod nft;
pub mod psched;
pub mod qdisc;
pub mod route;
mod socket;
mod wire;
pub mod wireguard;

pub use error::{Error, Result};
pub use handle::Handle;
pub use listen::{Listener, News};
pub use namespace::{Entered, Namespace};
pub use nft::Nft;
pub use socket::Socket;
