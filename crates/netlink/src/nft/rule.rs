//! Rules: what a chain does with a packet. One kind is understood: what came in at one link is
//! forwarded to another.

use super::{NFTA_LIST_ELEM, attributes, number, with_number};
use crate::wire::{self, Request};

/// Attributes of rules and of their expressions (`include/uapi/linux/netfilter/nf_tables.h`).
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_RULE_USERDATA: u16 = 7;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_FWD_SREG_DEV: u16 = 1;
const NFT_META_IIF: u32 = 4;
const NFT_CMP_EQ: u32 = 0;
const NFT_REG_1: u32 = 1;
/// The comment among the user data of a rule, as the `nft` command writes and shows it: kind and
/// length in a byte each, then zero-terminated text (libnftnl, `include/libnftnl/udata.h`).
const NFTNL_UDATA_RULE_COMMENT: u8 = 0;
/// As much text as its length can say.
const COMMENT_MAX: usize = u8::MAX as usize - 1;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of its chain.
    pub chain: String,
    /// What people are told about it, at most 254 bytes; empty: nothing.
    pub comment: String,
    /// What it does; `None` when that is something else.
    pub forward: Option<Forward>,
}

/// What came in at one link goes out at another.
///
/// The first is asked for by its index: a chain is bound to a name, which may be another link's
/// one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The index of the link at which the packet came in.
    pub from: u32,
    /// The index of the link that gets it.
    pub to: u32,
}

impl Rule {
    /// Appends what names the rules of a chain, or of all.
    pub(super) fn of(request: Request, table: &str, chain: Option<&str>) -> Request {
        let request = request.string(NFTA_RULE_TABLE, table);
        match chain {
            Some(chain) => request.string(NFTA_RULE_CHAIN, chain),
            None => request,
        }
    }

    /// Appends what describes this one.
    pub(super) fn described(&self, request: Request, table: &str) -> Request {
        let request = Self::of(request, table, Some(&self.chain));
        let request = match &self.forward {
            Some(forward) => request.nest(NFTA_RULE_EXPRESSIONS, |r| forward.described(r)),
            None => request,
        };
        if self.comment.is_empty() {
            return request;
        }
        let text = &self.comment.as_bytes()[..self.comment.len().min(COMMENT_MAX)];
        let header = [NFTNL_UDATA_RULE_COMMENT, text.len() as u8 + 1];
        request.attribute(NFTA_RULE_USERDATA, &[&header, text, &[0]].concat())
    }

    /// Reads what stands behind the header of an `NFT_MSG_NEWRULE` message; `None` when it names no
    /// chain. What is cut off or malformed is left out.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut chain = None;
        let mut comment = String::new();
        let mut forward = None;
        for (kind, value) in attributes(payload)? {
            match kind {
                NFTA_RULE_CHAIN => chain = Some(wire::text(value)),
                NFTA_RULE_EXPRESSIONS => forward = Forward::read(value),
                NFTA_RULE_USERDATA => comment = comment_in(value).unwrap_or_default(),
                _ => {}
            }
        }
        Some(Self {
            chain: chain?,
            comment,
            forward,
        })
    }
}

impl Forward {
    fn described(self, request: Request) -> Request {
        let request = expression(request, "meta", |request| {
            let request = with_number(request, NFTA_META_DREG, NFT_REG_1);
            with_number(request, NFTA_META_KEY, NFT_META_IIF)
        });
        let request = expression(request, "cmp", |request| {
            let request = with_number(request, NFTA_CMP_SREG, NFT_REG_1);
            let request = with_number(request, NFTA_CMP_OP, NFT_CMP_EQ);
            value(request, NFTA_CMP_DATA, self.from)
        });
        let request = expression(request, "immediate", |request| {
            let request = with_number(request, NFTA_IMMEDIATE_DREG, NFT_REG_1);
            value(request, NFTA_IMMEDIATE_DATA, self.to)
        });
        expression(request, "fwd", |request| {
            with_number(request, NFTA_FWD_SREG_DEV, NFT_REG_1)
        })
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut expressions = wire::attributes(bytes)
            .filter(|(kind, _)| *kind == NFTA_LIST_ELEM)
            .map(|(_, one)| one);
        let mut next = |wanted: &str| {
            let one = expressions.next()?;
            let name = wire::text(wire::attribute(one, NFTA_EXPR_NAME)?);
            (name == wanted).then(|| wire::attribute(one, NFTA_EXPR_DATA))?
        };
        let (meta, cmp, immediate, fwd) = (
            next("meta")?,
            next("cmp")?,
            next("immediate")?,
            next("fwd")?,
        );
        let is =
            |bytes, kind, wanted| wire::attribute(bytes, kind).and_then(number) == Some(wanted);
        let is_forward = expressions.next().is_none()
            && is(meta, NFTA_META_DREG, NFT_REG_1)
            && is(meta, NFTA_META_KEY, NFT_META_IIF)
            && is(cmp, NFTA_CMP_SREG, NFT_REG_1)
            && is(cmp, NFTA_CMP_OP, NFT_CMP_EQ)
            && is(immediate, NFTA_IMMEDIATE_DREG, NFT_REG_1)
            && is(fwd, NFTA_FWD_SREG_DEV, NFT_REG_1);
        let value = |bytes, kind| {
            wire::u32_at(
                wire::attribute(wire::attribute(bytes, kind)?, NFTA_DATA_VALUE)?,
                0,
            )
        };
        let forward = Self {
            from: value(cmp, NFTA_CMP_DATA)?,
            to: value(immediate, NFTA_IMMEDIATE_DATA)?,
        };
        is_forward.then_some(forward)
    }
}

fn expression(request: Request, name: &str, data: impl FnOnce(Request) -> Request) -> Request {
    request.nest(NFTA_LIST_ELEM, |request| {
        request
            .string(NFTA_EXPR_NAME, name)
            .nest(NFTA_EXPR_DATA, data)
    })
}

/// What a register holds, which is a number as the machine writes it.
fn value(request: Request, kind: u16, value: u32) -> Request {
    request.nest(kind, |request| request.number(NFTA_DATA_VALUE, value))
}

fn comment_in(mut user_data: &[u8]) -> Option<String> {
    while let [kind, length, rest @ ..] = user_data {
        let (value, next) = rest.split_at_checked(usize::from(*length))?;
        if *kind == NFTNL_UDATA_RULE_COMMENT {
            return Some(wire::text(value));
        }
        user_data = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{NFT_MSG_NEWRULE, message};
    use super::*;
    use crate::arbitrary;

    fn echoed(rule: &Rule) -> Rule {
        let request = message(NFT_MSG_NEWRULE, 0);
        Rule::read(&arbitrary::payload(rule.described(request, "table"))).unwrap()
    }

    #[test]
    fn only_a_forward_is_one() {
        let forward = Forward { from: 3, to: 4 };
        let whole = Request::attributes_only(|request| forward.described(request));
        assert_eq!(Forward::read(&whole), Some(forward));
        let expressions: Vec<_> = wire::attributes(&whole).map(|(_, one)| one).collect();
        let of = |expressions: &[&[u8]]| {
            let bytes = Request::attributes_only(|request| {
                let append = |request: Request, one: &&[u8]| request.attribute(NFTA_LIST_ELEM, one);
                expressions.iter().fold(request, append)
            });
            Forward::read(&bytes)
        };
        assert_eq!(of(&expressions), Some(forward));
        for without in 0..expressions.len() {
            let mut some = expressions.clone();
            some.remove(without);
            assert_eq!(of(&some), None, "without expression {without}");
            assert_eq!(
                of(&[&expressions[..], &[expressions[without]]].concat()),
                None
            );
        }
        // The last number of the first expression is a key, the one before a register; so is the
        // last of all.
        let end = 4 + expressions[0].len();
        for at in [end - 1, end - 9, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(Forward::read(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn bytes_that_are_others_do_no_harm() {
        let whole = Request::attributes_only(|r| Forward { from: 3, to: 4 }.described(r));
        for at in 0..whole.len() {
            for byte in [0, 1, 5, 0x7F, 0xFF] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = Forward::read(&changed);
            }
            assert_eq!(Forward::read(&whole[..at]), None, "{at} bytes of it");
        }
    }

    #[test]
    fn a_comment_is_found_among_other_user_data_and_never_longer_than_can_be_said() {
        let data = [&[7, 2, 1, 1][..], &[0, 3, b'h', b'i', 0]].concat();
        assert_eq!(comment_in(&data).as_deref(), Some("hi"));
        assert_eq!(comment_in(&data[..8]), None);
        let long = Rule {
            chain: "c".to_owned(),
            comment: "x".repeat(400),
            forward: None,
        };
        assert_eq!(echoed(&long).comment.len(), COMMENT_MAX);
    }

    proptest! {
        #[test]
        fn rules_round_trip(chain in "[a-z][a-z/0-9-]{0,90}", comment in "[ -~]{0,200}",
                            ends: Option<(u32, u32)>) {
            let forward = ends.map(|(from, to)| Forward { from, to });
            let rule = Rule { chain, comment, forward };
            prop_assert_eq!(echoed(&rule), rule);
        }
    }
}
