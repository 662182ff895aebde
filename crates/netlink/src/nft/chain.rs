//! Chains: what the kernel runs at a hook.

use super::{attributes, number, with_number};
use crate::wire::{self, Request};

/// Attributes of chains and of their hooks (`include/uapi/linux/netfilter/nf_tables.h`).
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_HOOK_DEV: u16 = 3;
/// `enum nf_dev_hooks` (`include/uapi/linux/netfilter.h`).
const NF_NETDEV_INGRESS: u32 = 0;
/// The only type of chain that netdev tables have.
const TYPE: &str = "filter";

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name, unique in its table.
    pub name: String,
    /// Where it is run; `None` when that is not the ingress hook of one device.
    pub hook: Option<IngressHook>,
}

/// The hook for what comes in at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressHook {
    /// The device's name.
    pub device: String,
    /// Its place among the chains of the hook: lower ones run first.
    pub priority: i32,
}

impl Chain {
    /// Appends what names a chain.
    pub(super) fn named(request: Request, table: &str, name: &str) -> Request {
        request
            .string(NFTA_CHAIN_TABLE, table)
            .string(NFTA_CHAIN_NAME, name)
    }

    /// Appends what describes this one.
    pub(super) fn described(&self, request: Request, table: &str) -> Request {
        let request = Self::named(request, table, &self.name);
        let Some(hook) = &self.hook else {
            return request;
        };
        request
            .string(NFTA_CHAIN_TYPE, TYPE)
            .nest(NFTA_CHAIN_HOOK, |request| {
                let request = with_number(request, NFTA_HOOK_HOOKNUM, NF_NETDEV_INGRESS);
                with_number(request, NFTA_HOOK_PRIORITY, hook.priority as u32)
                    .string(NFTA_HOOK_DEV, &hook.device)
            })
    }

    /// Reads what stands behind the header of an `NFT_MSG_NEWCHAIN` message; `None` when it names no
    /// chain. What is cut off or malformed is left out.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut name = None;
        let mut hook = None;
        for (kind, value) in attributes(payload)? {
            match kind {
                NFTA_CHAIN_NAME => name = Some(wire::text(value)),
                NFTA_CHAIN_HOOK => hook = IngressHook::read(value),
                _ => {}
            }
        }
        Some(Self { name: name?, hook })
    }
}

impl IngressHook {
    fn read(bytes: &[u8]) -> Option<Self> {
        if number(wire::attribute(bytes, NFTA_HOOK_HOOKNUM)?)? != NF_NETDEV_INGRESS {
            return None;
        }
        Some(Self {
            // Named so only when there is one.
            device: wire::text(wire::attribute(bytes, NFTA_HOOK_DEV)?),
            priority: number(wire::attribute(bytes, NFTA_HOOK_PRIORITY)?)? as i32,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{NFT_MSG_NEWCHAIN, message};
    use super::*;
    use crate::arbitrary;

    fn echoed(chain: &Chain) -> Option<Chain> {
        let request = message(NFT_MSG_NEWCHAIN, 0);
        Chain::read(&arbitrary::payload(chain.described(request, "table")))
    }

    #[test]
    fn only_the_ingress_hook_is_one() {
        let with_hook = |hook: u32| {
            let request = message(NFT_MSG_NEWCHAIN, 0);
            let request = Chain::named(request, "t", "c").nest(NFTA_CHAIN_HOOK, |request| {
                let request = with_number(request, NFTA_HOOK_HOOKNUM, hook);
                with_number(request, NFTA_HOOK_PRIORITY, 7).string(NFTA_HOOK_DEV, "eth0")
            });
            Chain::read(&arbitrary::payload(request)).unwrap().hook
        };
        assert!(with_hook(NF_NETDEV_INGRESS).is_some());
        assert_eq!(with_hook(1), None);
    }

    proptest! {
        #[test]
        fn chains_round_trip(name in "[a-z][a-z/0-9-]{0,90}", device in "[!-~]{1,15}",
                             priority: i32, has_hook: bool) {
            let hook = has_hook.then_some(IngressHook { device, priority });
            let chain = Chain { name, hook };
            prop_assert_eq!(echoed(&chain), Some(chain));
        }
    }
}
