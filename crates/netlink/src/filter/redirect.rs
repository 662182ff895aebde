//! `u32` that matches everything, with the action `mirred`: sends every packet through another link.

use super::{Filter, Installed};
use crate::Handle;
use crate::wire::{self, Request};

/// Attributes of u32 and of actions (`include/uapi/linux/pkt_cls.h`).
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// `include/uapi/linux/tc_act/tc_mirred.h`.
const TCA_EGRESS_REDIR: u32 = 1;
const TC_ACT_STOLEN: u32 = 4;
/// `struct tc_u32_sel` with one key that masks everything away: it matches every packet.
const MATCH_ALL: [u8; 32] = {
    let mut selector = [0; 32];
    selector[0] = 1; // flags: TC_U32_TERMINAL
    selector[2] = 1; // nkeys
    selector
};

/// Every packet is taken out and handed to another link's qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The index of the link that gets the packets.
    pub to: u32,
}

impl Filter for Redirect {
    const KIND: &'static str = "u32";

    fn options(&self) -> Vec<u8> {
        Request::attributes_only(|request| {
            let request = request
                .number(TCA_U32_CLASSID, Handle::new(1, 1).raw())
                .attribute(TCA_U32_SEL, &MATCH_ALL);
            redirecting(request, TCA_U32_ACT, self.to)
        })
    }
}

/// Appends the action that hands a packet to another link's qdisc.
pub(super) fn redirecting(request: Request, actions: u16, to: u32) -> Request {
    // `struct tc_mirred`: index, capab, action, refcnt, bindcnt, eaction, ifindex.
    let parameters = wire::words([0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to]);
    request.nest(actions, |request| {
        request.nest(1, |request| {
            request
                .string(TCA_ACT_KIND, "mirred")
                .nest(TCA_ACT_OPTIONS, |request| {
                    request.attribute(TCA_MIRRED_PARMS, &parameters)
                })
        })
    })
}

/// Where the first of these actions that redirects sends packets.
pub(super) fn redirected(actions: &[u8]) -> Option<u32> {
    let parameters = wire::attributes(actions).find_map(|(_, action)| {
        let kind = wire::attribute(action, TCA_ACT_KIND).map(wire::text)?;
        if kind != "mirred" {
            return None;
        }
        let options = wire::attribute(action, TCA_ACT_OPTIONS)?;
        wire::attribute(options, TCA_MIRRED_PARMS)
    })?;
    let is_redirect = wire::u32_at(parameters, 20) == Some(TCA_EGRESS_REDIR);
    is_redirect.then_some(wire::u32_at(parameters, 24)?)
}

impl Installed {
    /// Where its first redirecting action sends packets, when this is a `u32` with `mirred`.
    pub fn redirect(&self) -> Option<Redirect> {
        if self.kind != Redirect::KIND {
            return None;
        }
        let to = redirected(wire::attribute(&self.options, TCA_U32_ACT)?)?;
        Some(Redirect { to })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::tests::echoed;

    /// A `u32` with these actions, each a kind and what mirred does with which link.
    fn with_actions(actions: &[(&str, u32, u32)]) -> Installed {
        let mut filter = echoed(&Redirect { to: 1 });
        filter.options = Request::attributes_only(|request| {
            request.nest(TCA_U32_ACT, |request| {
                let numbered = (1..).zip(actions);
                numbered.fold(request, |request, (number, (kind, does, to))| {
                    let parameters = wire::words([0, 0, 0, 0, 0, *does, *to]);
                    request.nest(number, |request| {
                        request
                            .string(TCA_ACT_KIND, kind)
                            .nest(TCA_ACT_OPTIONS, |request| {
                                request.attribute(TCA_MIRRED_PARMS, &parameters)
                            })
                    })
                })
            })
        });
        filter
    }

    #[test]
    fn only_a_redirect_is_one() {
        /// `include/uapi/linux/tc_act/tc_mirred.h`.
        const TCA_EGRESS_MIRROR: u32 = 2;
        for (actions, to) in [
            (&[][..], None),
            (&[("gact", TCA_EGRESS_REDIR, 5)], None),
            (&[("mirred", TCA_EGRESS_MIRROR, 5)], None),
            (&[("mirred", TCA_EGRESS_REDIR, 5)], Some(5)),
            (
                &[("skbedit", 0, 9), ("mirred", TCA_EGRESS_REDIR, 5)],
                Some(5),
            ),
        ] {
            let found = with_actions(actions).redirect();
            assert_eq!(found, to.map(|to| Redirect { to }), "{actions:?}");
        }
    }

    proptest! {
        #[test]
        fn settings_round_trip(to: u32) {
            let redirect = Redirect { to };
            prop_assert_eq!(echoed(&redirect).redirect(), Some(redirect));
        }
    }
}
