//! A backstop behind a detour: what passes by the redirect is sent the same way after all.
//!
//! The redirect is the last of the ingress hook, so that programs of others may drop before it.
//! One that ends the chain instead keeps packets from it, and they would go on without a limit.
//! The kernel hands them to nftables' ingress hook next:
//!
//! ```text
//!   device ─► tcx ─► clsact … redirect ─► nftables … backstop ─► bridge, IP
//!                 └──── "accept" ─────────────┘│         │ fwd
//!                                   redirect ──┴─► ifb ◄─┘
//!                                                   └─► behind all of these hooks
//! ```
//!
//! What the redirect took never gets here, so in the ordinary case this costs nothing; what
//! somebody dropped does not either. What comes out of the ifb passes none of these hooks again.
//!
//! One table for a network namespace, `netdev netqos`; in it one chain for each device, last in
//! line, with one rule that bears our tag. A kernel may lack it: the limit then holds as far as
//! the redirect is reached. Nothing is opened or asked where there is no detour.

use netqos_netlink::link::{Link, gone};
use netqos_netlink::nft::{Chain, Forward, IngressHook, Rule, Transaction};
use netqos_netlink::{Error as Refusal, Nft};

use crate::endpoint::Side;
use crate::error::Doing;
use crate::{Result, kernel};

/// The table's name.
const TABLE: &str = "netqos";
/// What every tag begins with.
const TAGGED: &str = "netqos:";
/// Behind the chains of others, who decide first.
const LAST: i32 = i32::MAX;
/// What is said before the version from which on an ifb takes what nftables forwards.
const TOO_OLD: &str = "before kernel 5.7 an ifb drops what nftables forwards to it";

/// Catches at `from` what should have gone to `to`. Right already, it is not touched. Why it
/// cannot be had, when it cannot.
pub(crate) fn apply(side: &Side, from: &Link, to: &Link, tag: &str) -> Result<Option<String>> {
    if !is_safe() {
        return Ok(Some(TOO_OLD.to_owned()));
    }
    match put(side, from, to, tag) {
        Err(why) if is_lacking(&why) => Ok(Some(why.to_string())),
        made => made.map(|()| None).doing("add to nftables"),
    }
}

/// Tries it in this namespace.
pub(crate) fn probe(nft: &mut Nft, from: &Link, to: &Link) -> std::result::Result<(), String> {
    if !is_safe() {
        return Err(TOO_OLD.to_owned());
    }
    let (chain, rule) = wanted(from, to, "");
    let transaction = Transaction::on(TABLE)
        .add_table()
        .add_chain(&chain)
        .add_rule(&rule);
    nft.commit(transaction).map_err(|why| why.to_string())
}

/// What is missing or changed; `None` when all is right.
pub(crate) fn fault(side: &Side, from: &Link, to: &Link, tag: &str) -> Result<Option<String>> {
    let (chain, rule) = wanted(from, to, tag);
    let name = &chain.name;
    let read = || {
        let mut nft = open(side)?;
        Ok(match nft.chain(TABLE, name)? {
            None => Some(format!(
                "nftables has no chain {name} in table netdev {TABLE}"
            )),
            Some(there) if there != chain => Some(format!("chain {name} is at another hook")),
            Some(_) if nft.rules(TABLE, Some(name))? != [rule] => {
                Some(format!("chain {name} has another rule, or none"))
            }
            Some(_) => None,
        })
    };
    let fault: netqos_netlink::Result<Option<String>> = read();
    Ok(fault.doing("read nftables")?.map(|what| {
        let device = &from.name;
        format!("what other programs keep from the redirect of {device} is not caught: {what}")
    }))
}

/// Takes it away; the link may be gone. One that is another's by now, on a link of the same name,
/// stays.
///
/// The kernel lets a socket by which something was removed not be closed before a grace period is
/// over. So it is handed out, to be closed when the ifb is deleted, which takes as long.
pub(crate) fn teardown(side: &Side, from: &str, tag: &str) -> Result<Option<Nft>> {
    let remove = |nft: &mut Nft| {
        let name = chain_name(from);
        let is_anothers = |rule: &Rule| rule.comment.starts_with(TAGGED) && rule.comment != tag;
        if nft.chain(TABLE, &name)?.is_some()
            && !nft.rules(TABLE, Some(&name))?.iter().any(is_anothers)
        {
            gone(nft.commit(Transaction::on(TABLE).delete_chain(&name)))?;
        }
        nft.delete_empty_table(TABLE)
    };
    if_any(open(side).and_then(|mut nft| remove(&mut nft).map(|()| nft)))
}

/// Takes away all that carry such a tag, whether or not their links are there.
pub(crate) fn strip(side: &Side, is_meant: &dyn Fn(&str) -> bool) -> Result<()> {
    let remove = || {
        let mut nft = open(side)?;
        for rule in nft.rules(TABLE, None)? {
            if is_meant(&rule.comment) {
                gone(nft.commit(Transaction::on(TABLE).delete_chain(&rule.chain)))?;
            }
        }
        nft.delete_empty_table(TABLE)
    };
    if_any(remove()).map(drop)
}

/// Where nothing could have been made, nothing is left to remove.
fn if_any<T>(removed: netqos_netlink::Result<T>) -> Result<Option<T>> {
    match removed {
        Err(why) if is_lacking(&why) => Ok(None),
        other => other.map(Some).doing("remove from nftables"),
    }
}

fn put(side: &Side, from: &Link, to: &Link, tag: &str) -> netqos_netlink::Result<()> {
    let (chain, rule) = wanted(from, to, tag);
    let mut nft = open(side)?;
    let there = nft.chain(TABLE, &chain.name)?;
    let mut transaction = Transaction::on(TABLE).add_table();
    if let Some(there) = &there {
        if there == &chain && nft.rules(TABLE, Some(&chain.name))? == [rule.clone()] {
            return Ok(());
        }
        transaction = transaction.delete_chain(&chain.name);
    }
    nft.commit(transaction.add_chain(&chain).add_rule(&rule))
}

fn open(side: &Side) -> netqos_netlink::Result<Nft> {
    match &side.namespace {
        Some(namespace) => Nft::open_in(namespace),
        None => Nft::open(),
    }
}

/// Before 5.7 (and the fixes of its time in older series) an ifb drops what comes to it in another
/// way than by mirred ("netfilter: nft_fwd_netdev: allow to redirect to ifb via ingress").
fn is_safe() -> bool {
    kernel::is_at_least(5, 7)
}

/// True when the kernel says that it has no such thing. Of a message for a subsystem that it does
/// not have it says "invalid argument".
fn is_lacking(error: &Refusal) -> bool {
    error.is_unsupported() || matches!(error.errno(), Some(libc::EINVAL | libc::EPROTONOSUPPORT))
}

fn wanted(from: &Link, to: &Link, comment: &str) -> (Chain, Rule) {
    let chain = Chain {
        name: chain_name(&from.name),
        hook: Some(IngressHook {
            device: from.name.clone(),
            priority: LAST,
        }),
    };
    let rule = Rule {
        chain: chain.name.clone(),
        comment: comment.to_owned(),
        forward: Some(Forward {
            from: from.index,
            to: to.index,
        }),
    };
    (chain, rule)
}

/// The name of a device's chain: one that the `nft` command can read back, whatever the device is
/// called. A slash, which no device's name has, stands before the number of what it cannot.
fn chain_name(device: &str) -> String {
    let mut name = "from-".to_owned();
    for byte in device.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            other => name.push_str(&format!("/{other:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_chain_can_be_read_by_nft_and_is_no_other_devices() {
        for (device, name) in [
            ("veth1a2b", "from-veth1a2b"),
            ("eth0.100", "from-eth0.100"),
            ("12@if3", "from-12/40if3"),
            ("é", "from-/c3/a9"),
        ] {
            assert_eq!(chain_name(device), name);
        }
        assert_ne!(chain_name("a@"), chain_name("a40"));
    }
}
