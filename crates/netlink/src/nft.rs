//! nftables, as far as netqos says something to it: chains at the ingress hook of a link, and
//! rules that forward what came in there to another link.
//!
//! ```text
//!   table netdev netqos {                                                  Transaction::add_table
//!     chain from-veth1 {                                                             add_chain
//!       type filter hook ingress device "veth1" priority 2147483647
//!       iif "veth1" fwd to "bwp1" comment "netqos:net:c1:eth0"                       add_rule
//!     }
//!   }
//! ```
//!
//! The kernel runs this hook behind tc's ingress hooks (tcx, then clsact), and not at all for what
//! those took. A [`Transaction`] is granted as a whole or not at all. What is read back are the
//! [`Chain`]s and [`Rule`]s of a table; those of another form are reported as such, not refused.
//!
//! From 6.16 on a chain outlives the device of its hook, and takes hold of the next of that name.

mod chain;
mod rule;
mod transaction;

pub use chain::{Chain, IngressHook};
pub use rule::{Forward, Rule};
pub use transaction::Transaction;

use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::link::{gone, optional};
use crate::wire::{self, Request};
use crate::{Namespace, Result, Socket};

/// `include/uapi/linux/netfilter/nfnetlink.h`.
const NFNL_SUBSYS_NFTABLES: u16 = 10;
/// `include/uapi/linux/netfilter.h`.
const NFPROTO_NETDEV: u8 = 5;
/// Messages (`include/uapi/linux/netfilter/nf_tables.h`).
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_DELTABLE: u16 = 2;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_GETCHAIN: u16 = 4;
const NFT_MSG_DELCHAIN: u16 = 5;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_MSG_GETRULE: u16 = 7;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_USE: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
/// `sizeof(struct nfgenmsg)`.
const NFGENMSG: usize = 4;

/// A door to the nftables of one network namespace. It speaks of tables of the family `netdev`.
#[derive(Debug)]
pub struct Nft(Socket);

impl Nft {
    /// Opens it in the calling thread's network namespace.
    ///
    /// # Errors
    /// One that [`is_unsupported`](crate::Error::is_unsupported) when the kernel has no netfilter
    /// netlink.
    pub fn open() -> Result<Self> {
        Socket::speaking(NETLINK_NETFILTER).map(Self)
    }

    /// Opens it in this network namespace; the calling thread stays where it is.
    pub fn open_in(namespace: &Namespace) -> Result<Self> {
        let _inside = namespace.enter()?;
        Self::open()
    }

    /// Makes all changes of a transaction, or none.
    ///
    /// # Errors
    /// One that [`is_unsupported`](crate::Error::is_unsupported) when the kernel lacks nftables, or
    /// something that is used of it; and what the kernel says of the first change that it refuses.
    pub fn commit(&mut self, transaction: Transaction) -> Result<()> {
        let doing = transaction.doing();
        self.0.transacted(&|| doing.clone(), transaction.requests())
    }

    /// The chain of this name.
    pub fn chain(&mut self, table: &str, name: &str) -> Result<Option<Chain>> {
        let request = message(NFT_MSG_GETCHAIN, libc::NLM_F_ACK);
        let request = Chain::named(request, table, name);
        let doing = || format!("find chain {name} of table {table}");
        let found = self.0.fetched_if_any(&doing, request, Chain::read);
        optional(found).map(Option::flatten)
    }

    /// All rules of a table, or those of one of its chains.
    pub fn rules(&mut self, table: &str, chain: Option<&str>) -> Result<Vec<Rule>> {
        let request = message(NFT_MSG_GETRULE, libc::NLM_F_DUMP);
        let request = Rule::of(request, table, chain);
        let doing = || format!("list rules of table {table}");
        let found = self.0.dumped(&doing, &request, Rule::read);
        optional(found).map(Option::unwrap_or_default)
    }

    /// How many chains a table has; `None` when it is not there.
    pub fn chains_of(&mut self, table: &str) -> Result<Option<u32>> {
        let request = message(NFT_MSG_GETTABLE, libc::NLM_F_ACK).string(NFTA_TABLE_NAME, table);
        let doing = || format!("find table {table}");
        let found = self.0.fetched_if_any(&doing, request, chains_of_table);
        optional(found).map(Option::flatten)
    }

    /// Removes the table when it has no chains (any more). That it has some, or is gone, is no
    /// error.
    pub fn delete_empty_table(&mut self, table: &str) -> Result<()> {
        // Asked first, since a transaction that fails costs the kernel a grace period.
        if self.chains_of(table)? != Some(0) {
            return Ok(());
        }
        match self.commit(Transaction::on(table).delete_table_if_empty()) {
            // Somebody has just put a chain there.
            Err(error) if error.is_exists() => Ok(()),
            other => gone(other),
        }
    }
}

fn chains_of_table(payload: &[u8]) -> Option<u32> {
    number(wire::attribute(payload.get(NFGENMSG..)?, NFTA_TABLE_USE)?)
}

/// A message of nftables' about the family `netdev`, without attributes.
fn message(kind: u16, flags: i32) -> Request {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
    Request::new(kind, flags, &nfgenmsg(NFPROTO_NETDEV, 0))
}

/// The fixed part of a message: family, version, resource.
fn nfgenmsg(family: u8, resource: u16) -> [u8; NFGENMSG] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// Appends a number as nftables writes them.
fn with_number(request: Request, kind: u16, value: u32) -> Request {
    request.attribute(kind, &value.to_be_bytes())
}

/// A number as nftables writes them.
fn number(value: &[u8]) -> Option<u32> {
    wire::u32_at(value, 0).map(u32::from_be)
}

/// The attributes behind the fixed part.
fn attributes(payload: &[u8]) -> Option<impl Iterator<Item = (u16, &[u8])>> {
    payload.get(NFGENMSG..).map(wire::attributes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn the_chains_of_a_table_are_counted_in_network_order() {
        let table = with_number(message(NFT_MSG_NEWTABLE, 0), 3, 258);
        assert_eq!(chains_of_table(&arbitrary::payload(table)), Some(258));
        let none = message(NFT_MSG_NEWTABLE, 0).string(NFTA_TABLE_NAME, "t");
        assert_eq!(chains_of_table(&arbitrary::payload(none)), None);
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            // The fixed part is shorter here.
            for payload in [&payload[..], payload.get(16..).unwrap_or_default()] {
                let _ = chains_of_table(payload);
                let _ = Chain::read(payload);
                let _ = Rule::read(payload);
            }
        }
    }
}
