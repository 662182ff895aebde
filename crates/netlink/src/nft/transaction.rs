//! Changes that are made together.

use std::iter;

use super::{
    Chain, NFNL_SUBSYS_NFTABLES, NFT_MSG_DELCHAIN, NFT_MSG_DELTABLE, NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, Rule, message, nfgenmsg,
};
use crate::wire::Request;

/// What stands around the changes (`include/uapi/linux/netfilter/nfnetlink.h`).
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
/// Of a deletion: only what is empty (`include/uapi/linux/netlink.h`).
const NLM_F_NONREC: i32 = 0x100;

/// Changes to one table, in their order.
#[derive(Debug)]
pub struct Transaction<'t> {
    table: &'t str,
    changes: Vec<Change<'t>>,
}

#[derive(Debug)]
enum Change<'t> {
    AddTable,
    DeleteTable,
    AddChain(&'t Chain),
    DeleteChain(&'t str),
    AddRule(&'t Rule),
}

impl<'t> Transaction<'t> {
    /// No change yet.
    pub fn on(table: &'t str) -> Self {
        Self {
            table,
            changes: Vec::new(),
        }
    }

    /// Makes the table, if it is not there.
    pub fn add_table(self) -> Self {
        self.and(Change::AddTable)
    }

    /// Removes the table, which must have no chains.
    pub fn delete_table_if_empty(self) -> Self {
        self.and(Change::DeleteTable)
    }

    /// Makes a chain, which must not be there.
    pub fn add_chain(self, chain: &'t Chain) -> Self {
        self.and(Change::AddChain(chain))
    }

    /// Removes the chain of this name, which must be there, with its rules.
    pub fn delete_chain(self, name: &'t str) -> Self {
        self.and(Change::DeleteChain(name))
    }

    /// Puts a rule behind those of its chain.
    pub fn add_rule(self, rule: &'t Rule) -> Self {
        self.and(Change::AddRule(rule))
    }

    fn and(mut self, change: Change<'t>) -> Self {
        self.changes.push(change);
        self
    }

    /// What is being done, in words.
    pub(super) fn doing(&self) -> String {
        let changes: Vec<String> = self.changes.iter().map(|c| c.words(self.table)).collect();
        changes.join(", ")
    }

    /// The messages, the last of which is acknowledged.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        let around = |kind| {
            let resource = nfgenmsg(libc::AF_UNSPEC as u8, NFNL_SUBSYS_NFTABLES);
            Request::new(kind, 0, &resource)
        };
        let last = self.changes.len().saturating_sub(1);
        let changes = self.changes.iter().enumerate().map(move |(at, change)| {
            let flags = if at == last { libc::NLM_F_ACK } else { 0 };
            change.request(self.table, flags)
        });
        iter::once(around(NFNL_MSG_BATCH_BEGIN))
            .chain(changes)
            .chain(iter::once(around(NFNL_MSG_BATCH_END)))
    }
}

impl Change<'_> {
    fn words(&self, table: &str) -> String {
        match self {
            Self::AddTable => format!("add table netdev {table}"),
            Self::DeleteTable => format!("delete table netdev {table}"),
            Self::AddChain(chain) => format!("add chain {}", chain.name),
            Self::DeleteChain(name) => format!("delete chain {name}"),
            Self::AddRule(rule) => format!("add rule to {}", rule.chain),
        }
    }

    fn request(&self, table: &str, flags: i32) -> Request {
        let start = |kind, more| message(kind, flags | more);
        match self {
            Self::AddTable => {
                start(NFT_MSG_NEWTABLE, libc::NLM_F_CREATE).string(NFTA_TABLE_NAME, table)
            }
            Self::DeleteTable => {
                start(NFT_MSG_DELTABLE, NLM_F_NONREC).string(NFTA_TABLE_NAME, table)
            }
            Self::AddChain(chain) => {
                let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
                chain.described(start(NFT_MSG_NEWCHAIN, flags), table)
            }
            Self::DeleteChain(name) => Chain::named(start(NFT_MSG_DELCHAIN, 0), table, name),
            Self::AddRule(rule) => {
                let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
                rule.described(start(NFT_MSG_NEWRULE, flags), table)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NFPROTO_NETDEV;
    use super::*;
    use crate::wire;

    #[test]
    fn changes_stand_between_a_beginning_and_an_end_and_the_last_is_acknowledged() {
        let chain = Chain {
            name: "c".to_owned(),
            hook: None,
        };
        let transaction = Transaction::on("t")
            .add_table()
            .delete_chain("c")
            .add_chain(&chain);
        assert_eq!(
            transaction.doing(),
            "add table netdev t, delete chain c, add chain c"
        );
        let sent = transaction.requests().map(|request| {
            let bytes = request.finish(1);
            let (message, _) = wire::split_message(&bytes).unwrap();
            let is_acknowledged = i32::from(message.flags) & libc::NLM_F_ACK != 0;
            (message.kind, message.payload[..4].to_vec(), is_acknowledged)
        });
        let around = |kind| (kind, vec![0, 0, 0, 10], false);
        let change = |kind, last| (10 << 8 | kind, vec![NFPROTO_NETDEV, 0, 0, 0], last);
        assert_eq!(
            sent.collect::<Vec<_>>(),
            [
                around(16),
                change(NFT_MSG_NEWTABLE, false),
                change(NFT_MSG_DELCHAIN, false),
                change(NFT_MSG_NEWCHAIN, true),
                around(17),
            ]
        );
    }
}
