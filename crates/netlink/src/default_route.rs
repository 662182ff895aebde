//! Default routes, replaced.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::link::Link;
use crate::route::{RTA_OIF, RTMSG, default_route};
use crate::wire::{self, Request};
use crate::{Result, Socket};

/// The attribute of a route with its gateway (`include/uapi/linux/rtnetlink.h`).
const RTA_GATEWAY: u16 = 5;

/// A route as the kernel reports it.
struct Reported(Vec<u8>);

impl Socket {
    /// Makes the default routes of table `main` lead through a link by these gateways. All other default routes of their
    /// families go; without a gateway those of both families.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a route, such as of a gateway that the link does not reach.
    pub fn replace_default_routes(&mut self, link: &Link, gateways: &[IpAddr]) -> Result<()> {
        let families: BTreeSet<i32> = match gateways {
            [] => [libc::AF_INET, libc::AF_INET6].into(),
            _ => gateways.iter().map(family).collect(),
        };
        for family in families {
            for route in self.main_default_routes(family)? {
                self.acknowledged(&|| "remove a default route".to_owned(), route.removal())?;
            }
        }
        for gateway in gateways {
            let doing = || format!("add a default route by {gateway} through {}", link.name);
            self.acknowledged(&doing, addition(link, gateway))?;
        }
        Ok(())
    }

    fn main_default_routes(&mut self, family: i32) -> Result<Vec<Reported>> {
        self.routes(family, |payload| {
            let (table, _) = default_route(payload)?;
            (table == libc::RT_TABLE_MAIN.into()).then(|| Reported(payload.to_vec()))
        })
    }
}

impl Reported {
    /// The kernel removes a route by what it reports of it, as `ip route flush` does.
    fn removal(&self) -> Request {
        let (fixed, attributes) = self.0.split_at(RTMSG.min(self.0.len()));
        let request = Request::new(libc::RTM_DELROUTE, libc::NLM_F_ACK, fixed);
        wire::attributes(attributes).fold(request, |it, (kind, value)| it.attribute(kind, value))
    }
}

fn addition(link: &Link, gateway: &IpAddr) -> Request {
    let mut rtmsg = [0; RTMSG];
    rtmsg[0] = family(gateway) as u8;
    rtmsg[4] = libc::RT_TABLE_MAIN;
    rtmsg[5] = libc::RTPROT_BOOT;
    rtmsg[6] = libc::RT_SCOPE_UNIVERSE;
    rtmsg[7] = libc::RTN_UNICAST;
    let octets = match gateway {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND | libc::NLM_F_ACK;
    Request::new(libc::RTM_NEWROUTE, flags, &rtmsg)
        .attribute(RTA_GATEWAY, &octets)
        .number(RTA_OIF, link.index)
}

const fn family(address: &IpAddr) -> i32 {
    match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}
