//! What the well-known bandwidth plugin makes: recognised, checked by its own arithmetic, and
//! removed as completely as it would, and more.
//!
//! It puts a TBF with handle `1:` at the root of the host's veth, and for egress an ifb named by
//! [`ifb_name`], a TBF at its root, an `ingress` qdisc on the veth and a `u32` filter of
//! preference 1 that redirects everything.

use netqos_api::bandwidth::CHOOSE_BURSTS;
use netqos_api::ifb_name;
use netqos_core::{Attachment, Direction, Limit, Limits};
use netqos_netlink::filter::Installed as Filter;
use netqos_netlink::link::{Link, gone, optional};
use netqos_netlink::qdisc::{Installed, InstalledTbf};
use netqos_netlink::{Handle, Socket};

use crate::endpoint::{Endpoint, HostLinks};
use crate::error::Doing;
use crate::hook::HookQdisc;
use crate::limits::Request;
use crate::queue::Found;
use crate::{Error, Result, queue, unfilter};

/// Where a redirect leads whose device is gone: its own DEL leaves such, which drop everything.
const NOWHERE: u32 = 0;
/// Its queue's length in microseconds.
const LATENCY: f64 = 25_000.0;
const MICROSECONDS: f64 = 1_000_000.0;
/// Ticks of the packet scheduler in a microsecond.
const TICKS: f64 = 15.625;

/// True when traffic that comes in through `from` is redirected to `to`.
pub(crate) fn leads_to(socket: &mut Socket, from: &Link, to: &Link) -> Result<bool> {
    Ok(!redirects(socket, from, to.index)?.is_empty())
}

fn redirects(socket: &mut Socket, from: &Link, to: u32) -> Result<Vec<Filter>> {
    let filters = socket
        .filters(from, Handle::CLSACT_INGRESS)
        .doing("list filters")?;
    let leads_there = |filter: &Filter| filter.redirect().is_some_and(|r| r.to == to);
    Ok(filters.into_iter().filter(leads_there).collect())
}

/// The ifb that the well-known plugin made for this attachment, if it did. One of netqos' own
/// carries a tag.
fn its_ifb(socket: &mut Socket, attachment: &Attachment) -> Result<Option<Link>> {
    let name = ifb_name(attachment.network(), attachment.container());
    let found = optional(socket.link_by_name(&name)).doing("get ifb device")?;
    Ok(found.filter(|ifb| ifb.kind == "ifb" && ifb.alias.as_deref().unwrap_or("").is_empty()))
}

/// Removes its egress way, when this veth has one: netqos' own takes its place.
pub(crate) fn retire(socket: &mut Socket, host: &Link, attachment: &Attachment) -> Result<()> {
    let Some(ifb) = its_ifb(socket, attachment)? else {
        return unhook(socket, host, NOWHERE);
    };
    if !leads_to(socket, host, &ifb)? {
        return Ok(());
    }
    unhook(socket, host, ifb.index)?;
    gone(socket.delete_link(&ifb)).doing("delete ifb device")
}

/// Removes the filter that leads to the ifb, and its `ingress` qdisc when nothing else is on it.
fn unhook(socket: &mut Socket, host: &Link, ifb: u32) -> Result<()> {
    let is_its_own = HookQdisc::read(socket, host)? == HookQdisc::Ingress;
    if ifb == NOWHERE && !is_its_own {
        return Ok(());
    }
    let leads_there = |filter: &Filter| filter.redirect().is_some_and(|r| r.to == ifb);
    let has_any = !redirects(socket, host, ifb)?.is_empty();
    unfilter::remove(socket, host, Handle::CLSACT_INGRESS, leads_there)?;
    if is_its_own
        && (has_any || ifb != NOWHERE)
        && socket
            .filters(host, Handle::CLSACT_INGRESS)
            .doing("list filters")?
            .is_empty()
    {
        gone(socket.delete_qdisc(host, Handle::CLSACT, Handle::new(0xFFFF, 0)))
            .doing("delete ingress qdisc")?;
    }
    Ok(())
}

/// DEL of a pod that it made: the ifb goes, and the veth, while it lives, is restored.
pub(crate) fn teardown(
    socket: &mut Socket,
    attachment: &Attachment,
    host_links: HostLinks<'_>,
    limits: &Limits,
) -> Result<()> {
    let ifb = its_ifb(socket, attachment)?;
    let listed = match host_links {
        HostLinks::Listed(names) => names,
        HostLinks::Unknown => &[],
    };
    let mut veths = Vec::new();
    for name in listed {
        veths.extend(optional(socket.link_by_name(name)).doing("get host device")?);
    }
    if let (Some(_), true) = (&ifb, listed.is_empty()) {
        veths = socket.links().doing("list links")?;
    }
    for veth in veths.iter().filter(|link| link.kind == "veth") {
        let is_claimed = veth.alias.as_deref().is_some_and(|alias| !alias.is_empty());
        let leads_there = match &ifb {
            Some(ifb) => leads_to(socket, veth, ifb)?,
            None => false,
        };
        if let (Some(ifb), true) = (&ifb, leads_there) {
            unhook(socket, veth, ifb.index)?;
        } else if ifb.is_none() {
            unhook(socket, veth, NOWHERE)?;
        }
        if is_claimed {
            continue;
        }
        // A limit on the pod's veth is its work when its redirect is there, or by the numbers.
        let is_its_work =
            |found: &Found| leads_there || limits.ingress.is_some_and(|limit| made(found, &limit));
        if is_its_work(&Found::read_left(socket, veth)?) {
            queue::teardown(socket, veth)?;
        }
    }
    match ifb {
        Some(ifb) => gone(socket.delete_link(&ifb)).doing("delete ifb device"),
        None => Ok(()),
    }
}

/// True when what was found is what it makes of this limit.
pub(crate) fn made(found: &Found, limit: &Limit) -> bool {
    found
        .tbf()
        .is_some_and(|tbf| its_tbfs(limit).contains(&tbf))
}

/// CHECK of a pod that it made, by its own arithmetic.
pub(crate) fn check(socket: &mut Socket, endpoint: &Endpoint, request: &Request<'_>) -> Result<()> {
    let Some(host) = &endpoint.host else {
        return Err(Error::QdiscMissing);
    };
    if let Some(limit) = request.limits.ingress {
        check_tbf(socket, host, &limit)?;
    }
    if let Some(limit) = request.limits.egress {
        let name = ifb_name(request.attachment.network(), request.attachment.container());
        let ifb = socket
            .link_by_name(&name)
            .map_err(|error| Error::IfbMissing(error.to_string()))?;
        check_tbf(socket, &ifb, &limit)?;
        if !leads_to(socket, host, &ifb)? {
            return Err(Error::Changed {
                direction: Direction::Egress,
                link: host.name.clone(),
                what: format!("traffic is not redirected to {name}"),
            });
        }
    }
    Ok(())
}

fn check_tbf(socket: &mut Socket, link: &Link, limit: &Limit) -> Result<()> {
    let root = socket.qdisc_at(link, Handle::ROOT).doing("list qdiscs")?;
    let found = root
        .as_ref()
        .and_then(Installed::tbf)
        .ok_or(Error::QdiscMissing)?;
    let wanted = its_tbfs(limit);
    if wanted.contains(&found) {
        return Ok(());
    }
    if wanted.iter().all(|tbf| tbf.rate != found.rate) {
        return Err(Error::RateDiffers);
    }
    if wanted.iter().all(|tbf| tbf.limit != found.limit) {
        return Err(Error::LimitDiffers);
    }
    Err(Error::BufferDiffers)
}

/// What it makes of a limit, wrapping round at 32 bits as it does; several where the runtime's
/// "no burst" hides which number it was.
fn its_tbfs(limit: &Limit) -> Vec<InstalledTbf> {
    let rate = limit.rate.bytes_per_second();
    let of_burst = |burst: u64| {
        let burst = burst as u32;
        let microseconds = (f64::from(burst) * MICROSECONDS / rate as f64) as u64 as u32;
        InstalledTbf {
            rate,
            limit: ((rate as f64 * LATENCY / MICROSECONDS) as u64 as u32).wrapping_add(burst),
            buffer: (f64::from(microseconds) * TICKS) as u64 as u32,
            largest: None,
        }
    };
    match limit.burst {
        Some(burst) => vec![of_burst(burst.bytes())],
        None => CHOOSE_BURSTS
            .iter()
            .map(|bits| of_burst(bits / 8))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netqos_core::{BitRate, ByteCount};

    #[test]
    fn its_arithmetic_wraps_as_it_does() {
        let limit = |bits, burst| Limit {
            burst: Some(ByteCount::from_bits(burst)),
            ..Limit::of(BitRate::from_bits_per_second(bits))
        };
        let ordinary = its_tbfs(&limit(100_000_000, 1_000_000))[0];
        let expected = InstalledTbf {
            rate: 12_500_000,
            limit: 437_500,
            buffer: 156_250,
            largest: None,
        };
        assert_eq!(ordinary, expected);
        // CRI-O's burst: the queue wraps round to less than a packet.
        assert_eq!(
            its_tbfs(&limit(10_000_000, 34_359_738_359))[0].limit,
            31_248
        );
    }
}
