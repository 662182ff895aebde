//! The hook on an endpoint's interface, and the number that it gives to the program.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use netqos_api::{HookChoice, calico_ifb_name};
use netqos_bpf::rules::Rules;
use netqos_bpf::{TcxHook, TcxLink};
use netqos_core::plan::Interface;
use netqos_core::{Attachment, EndpointId};
use netqos_netlink::filter::{Bpf, Installed, Place};
use netqos_netlink::link::{Link, gone, optional};
use netqos_netlink::{Handle, Socket};
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, HostLinks, Side, host_link, sees_all};
use crate::error::Doing;
use crate::hook::{HookQdisc, ensure_clsact, remove_empty_clsact};
use crate::record::SideName;
use crate::{Documents, Error, HookKind, Paths, Result};

/// Our filter's handle and name; its preference is the lowest that is free, since what stands
/// before us would see a packet twice that goes through a rule's queue.
const HANDLE: u32 = 0x6e72;
const NAME: &str = "netqos_rules";
/// What follows the tag of an attachment in the names of its pins: that of the tcx link of its
/// rules, and that of one which is about to take its place.
pub(super) const RULES: &str = ":rules";
pub(super) const RULES_NEW: &str = ":rules:new";

/// What stands at an endpoint's interface. Written down before it is made. Limits read of it
/// whether its clsact is ours (`clsact.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Site {
    /// The endpoint, as it is printed.
    pub(super) endpoint: String,
    pub(super) number: u16,
    pub(super) attachment: Attachment,
    pub(super) netns: PathBuf,
    pub(super) side: SideName,
    /// The interface that carries the hook.
    pub(super) link: String,
    pub(super) index: u32,
    pub(super) mtu: u32,
    pub(super) hook: HookKind,
    /// True when its clsact is ours.
    pub(super) made_clsact: bool,
}

/// What became of a program at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the first in line.
    First,
    /// Somebody else's comes before it.
    Behind,
    /// It is not there any more.
    Gone,
}

/// The programs on the tcx hook of a host's link.
#[derive(Debug)]
pub(super) struct HookPrograms {
    /// The link, by index.
    pub(super) link: u32,
    /// Their IDs, in the order in which they run.
    ids: Vec<u32>,
}

impl HookPrograms {
    /// Returns true if the hook carries the same programs in the same order.
    pub(super) fn is_unchanged(&self) -> bool {
        let now = TcxHook::Ingress.programs(self.link);
        now.is_ok_and(|ids| ids == self.ids)
    }
}

/// An endpoint's interface, found.
pub(super) struct Found {
    side: Side,
    name: SideName,
    pub(super) link: Link,
}

impl Found {
    /// Finds it: the host's end of a pair, or else the pod's own.
    pub(super) fn find(interface: &Interface) -> Result<(Attachment, Self)> {
        let attachment =
            Attachment::try_new(&interface.network, &interface.container, &interface.name)?;
        let mut host = Side::host()?;
        // Wherever the pod has its own end by now.
        let end = interface.ends.map(|ends| host_link(&mut host, ends));
        if let Some(link) = end.transpose()?.flatten().filter(sees_all) {
            let name = SideName::Host;
            let side = host;
            return Ok((attachment, Self { side, name, link }));
        }
        let mut pod = Side::pod(&interface.netns)?;
        let endpoint = Endpoint::locate(
            &mut host,
            &mut pod,
            &interface.name,
            interface.ends,
            HostLinks::Unknown,
        )?;
        let found = match endpoint.host_hooks().cloned() {
            Some(link) => Self {
                side: host,
                name: SideName::Host,
                link,
            },
            None => Self {
                side: pod,
                name: SideName::Pod,
                link: endpoint.pod()?.clone(),
            },
        };
        Ok((attachment, found))
    }

    /// The end on the host that this site is at, as long as it is there: the pod's interface is its
    /// other end then. Otherwise gives the host's side back.
    pub(super) fn at_host(mut side: Side, site: &Site) -> std::result::Result<Self, Side> {
        if site.side != SideName::Host {
            return Err(side);
        }
        match side.socket.link_by_index(site.index) {
            Ok(link) if link.name == site.link && link.is_pair_end() && sees_all(&link) => {
                Ok(Self {
                    side,
                    name: SideName::Host,
                    link,
                })
            }
            _ => Err(side),
        }
    }

    /// The side on which it was found.
    pub(super) fn into_side(self) -> Side {
        self.side
    }

    /// Which way traffic from the pod passes the interface.
    fn hooks(&self) -> (TcxHook, Handle) {
        match self.name {
            SideName::Host => (TcxHook::Ingress, Handle::CLSACT_INGRESS),
            SideName::Pod => (TcxHook::Egress, Handle::CLSACT_EGRESS),
        }
    }

    /// The programs on the tcx hook of a site at the host's end of a veth; `None` for any other site. (A netkit pair
    /// runs programs of its own before those.)
    pub(super) fn programs(&self, site: &Site) -> Option<HookPrograms> {
        let is_at_veth = self.name == SideName::Host && self.link.kind == "veth";
        if site.hook != HookKind::Tcx || !is_at_veth {
            return None;
        }
        let link = self.link.index;
        let ids = TcxHook::Ingress.programs(link).ok()?;
        Some(HookPrograms { link, ids })
    }

    /// Whether this kernel has tcx hooks.
    pub(super) fn can_tcx(&mut self) -> Result<bool> {
        let (tcx, _) = self.hooks();
        self.side.inside(|| tcx.programs(self.link.index).is_ok())
    }

    /// Returns true if Calico limits what comes from the pod at this end on the host: it needs the place of clsact.
    pub(super) fn is_limited_by_calico(&mut self) -> Result<bool> {
        if self.name != SideName::Host {
            return Ok(false);
        }
        let ifb = calico_ifb_name(&self.link.name);
        let ifb = optional(self.side.socket.link_by_name(&ifb)).doing("find link")?;
        Ok(ifb.is_some())
    }

    /// Chooses a hook: the current one; else an existing clsact, which is quick, unless another program would
    /// precede ours. Adding clsact takes the link down for a moment and loses packets to a running pod; tcx does
    /// not.
    fn choose(&mut self, choice: HookChoice, before: Option<&Site>) -> Result<HookKind> {
        let (tcx, clsact) = self.hooks();
        let can_tcx = self.can_tcx()?;
        match choice {
            HookChoice::Tcx if can_tcx => return Ok(HookKind::Tcx),
            HookChoice::Tcx => return Err(netqos_bpf::Error::NoTcx.into()),
            HookChoice::Clsact => return Ok(HookKind::Clsact),
            HookChoice::None => return Ok(HookKind::None),
            HookChoice::Auto if can_tcx && self.is_limited_by_calico()? => {
                return Ok(HookKind::Tcx);
            }
            HookChoice::Auto => {}
        }
        if let Some(before) =
            before.filter(|before| before.index == self.link.index && before.side == self.name)
        {
            return Ok(before.hook);
        }
        // Also where its record was lost: on both hooks it would meet each packet twice.
        if ours(&mut self.side.socket, &self.link, clsact)?.is_some() {
            return Ok(HookKind::Clsact);
        }
        if self.side.inside(|| tcx.has_rules(self.link.index))? {
            return Ok(HookKind::Tcx);
        }
        let has_clsact = HookQdisc::read(&mut self.side.socket, &self.link)? == HookQdisc::Clsact;
        let has_foreign = self.side.inside(|| tcx.has_foreign(self.link.index))?;
        let taken = self
            .side
            .socket
            .taken_preferences(&self.link, clsact)
            .doing("list filters")?;
        Ok(
            if can_tcx && (!has_clsact || has_foreign || taken.contains(&1)) {
                HookKind::Tcx
            } else {
                HookKind::Clsact
            },
        )
    }

    /// What shall stand there, from what an earlier process wrote down.
    pub(super) fn plan(
        &mut self,
        endpoint: &EndpointId,
        attachment: Attachment,
        netns: &Path,
        number: u16,
        choice: HookChoice,
        before: Option<&Site>,
    ) -> Result<Site> {
        let hook = self.choose(choice, before)?;
        if hook == HookKind::Clsact && self.is_limited_by_calico()? {
            return Err(Error::CalicosHook(self.link.name.clone()));
        }
        let made_before = before.is_some_and(|b| b.index == self.link.index && b.made_clsact);
        let is_absent = HookQdisc::read(&mut self.side.socket, &self.link)? == HookQdisc::Absent;
        Ok(Site {
            endpoint: endpoint.to_string(),
            number,
            attachment,
            netns: netns.to_owned(),
            side: self.name,
            link: self.link.name.clone(),
            index: self.link.index,
            mtu: self.link.mtu,
            hook,
            made_clsact: made_before || (hook == HookKind::Clsact && is_absent),
        })
    }

    /// Puts the program there, unless it stands there already; says whether it did.
    pub(super) fn attach(&mut self, site: &Site, rules: &Rules) -> Result<bool> {
        if site.hook == HookKind::None || self.is_there(site, rules)? {
            return Ok(false);
        }
        self.put(site, rules)?;
        Ok(true)
    }

    /// Whether the program stands there, and nobody before it, who would see packets twice that go
    /// through a rule's queue, or could keep them from it.
    pub(super) fn standing(&mut self, site: &Site, rules: &Rules) -> Result<Standing> {
        if site.hook == HookKind::None {
            return Ok(Standing::First);
        }
        if site.hook == HookKind::Clsact && self.is_limited_by_calico()? {
            return Ok(Standing::Gone);
        }
        if (self.name, self.link.index) != (site.side, site.index) || !self.is_there(site, rules)? {
            return Ok(Standing::Gone);
        }
        let (tcx, hook) = self.hooks();
        let index = self.link.index;
        let is_behind = match site.hook {
            HookKind::Tcx => self.side.inside(|| Rules::has_foreign_before(tcx, index))?,
            _ => {
                let own = ours(&mut self.side.socket, &self.link, hook)?;
                let taken = self
                    .side
                    .socket
                    .taken_preferences(&self.link, hook)
                    .doing("list filters")?;
                let is_first = |own: Installed| {
                    let mut taken = taken.iter();
                    taken.all(|other| *other >= own.place.preference)
                };
                !own.is_some_and(is_first) || self.side.inside(|| tcx.has_foreign(index))?
            }
        };
        Ok(match is_behind {
            true => Standing::Behind,
            false => Standing::First,
        })
    }

    fn is_there(&mut self, site: &Site, rules: &Rules) -> Result<bool> {
        // On both hooks each packet would come to it twice.
        let (_, hook) = self.hooks();
        let filter = ours(&mut self.side.socket, &self.link, hook)?;
        if site.hook == HookKind::Clsact {
            let program = rules.program_id()?;
            let is_own = filter
                .as_ref()
                .and_then(Installed::bpf)
                .is_some_and(|bpf| bpf.program_id == program && bpf.argument == site.number);
            return Ok(is_own && !self.has_pin(site, rules)?);
        }
        if filter.is_some() {
            return Ok(false);
        }
        let held = TcxLink::open(&link_path(rules, &site.attachment))?;
        Ok(match held {
            Some(held) => {
                held.ifindex()? == Some(self.link.index)
                    && Rules::endpoint_at(&held)? == Some(site.number)
                    && TcxLink::open(&fresh_path(rules, &site.attachment))?.is_none()
            }
            None => false,
        })
    }

    fn has_pin(&self, site: &Site, rules: &Rules) -> Result<bool> {
        let attachment = &site.attachment;
        for path in [link_path(rules, attachment), fresh_path(rules, attachment)] {
            if TcxLink::open(&path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts the program there before all others, and takes away what of it stood elsewhere on the
    /// hook: there is no moment without it.
    pub(super) fn put(&mut self, site: &Site, rules: &Rules) -> Result<()> {
        let (tcx, hook) = self.hooks();
        let path = link_path(rules, &site.attachment);
        let fresh = fresh_path(rules, &site.attachment);
        if site.hook == HookKind::Clsact {
            let place = match ours(&mut self.side.socket, &self.link, hook)? {
                Some(there) => there.place,
                None => self.free_place(hook)?,
            };
            ensure_clsact(&mut self.side.socket, &self.link)?;
            let filter = Bpf {
                program: rules.program()?,
                name: NAME,
                argument: site.number,
            };
            self.side
                .socket
                .put_filter(&self.link, place, &filter)
                .doing("add filter")?;
            return release(&[fresh, path]);
        }
        self.make_room(site, rules)?;
        let program = rules.program_tcx(site.number)?;
        let index = self.link.index;
        let link = self
            .side
            .inside(|| TcxLink::attach(program.as_fd(), index, tcx, &fresh))??;
        link.rename(&path)?;
        remove_filters(&mut self.side.socket, &self.link, hook).map(drop)
    }

    /// Makes room for a new link. One that a killed process has left there may be the only one that
    /// carries the program: it takes the other's place, until the new one stands before it.
    fn make_room(&self, site: &Site, rules: &Rules) -> Result<()> {
        let Some(left) = TcxLink::open(&fresh_path(rules, &site.attachment))? else {
            return Ok(());
        };
        let is_here = left.ifindex()? == Some(self.link.index)
            && Rules::endpoint_at(&left)? == Some(site.number);
        match is_here {
            true => left.rename(&link_path(rules, &site.attachment)).map(drop)?,
            false => left.detach()?,
        }
        Ok(())
    }

    fn free_place(&mut self, hook: Handle) -> Result<Place> {
        let taken = self
            .side
            .socket
            .taken_preferences(&self.link, hook)
            .doing("list filters")?;
        Ok(Place {
            hook,
            preference: (1..u16::MAX)
                .find(|free| !taken.contains(free))
                .unwrap_or(1),
            handle: HANDLE,
        })
    }
}

impl Site {
    /// Takes the program away from the interface, where that still is; other filters, and a clsact
    /// that is not ours, stay. Returns true if the interface is there: its packets may be under way in the program.
    pub(super) fn detach(&self, rules: &Rules) -> Result<bool> {
        release(&[
            fresh_path(rules, &self.attachment),
            link_path(rules, &self.attachment),
        ])?;
        let Some(mut side) = (match self.side {
            SideName::Host => Some(Side::host()?),
            SideName::Pod => Side::pod_to_clean(&self.netns)?,
        }) else {
            return Ok(false);
        };
        let Some(link) = optional(side.socket.link_by_index(self.index)).doing("find link")? else {
            return Ok(false);
        };
        // The pod can rename its links.
        if self.side == SideName::Host && link.name != self.link {
            return Ok(false);
        }
        let hook = match self.side {
            SideName::Host => Handle::CLSACT_INGRESS,
            SideName::Pod => Handle::CLSACT_EGRESS,
        };
        remove_filters(&mut side.socket, &link, hook)?;
        if self.made_clsact {
            remove_empty_clsact(&mut side.socket, &link)?;
        }
        Ok(true)
    }

    /// Where they are written down, by their numbers.
    fn documents(paths: &Paths) -> Documents {
        Documents::new(paths.rules())
    }

    /// Writes it down, whole or not at all.
    pub(super) fn write(&self, paths: &Paths) -> Result<()> {
        Self::documents(paths).write(&self.number.to_string(), self)
    }

    /// Forgets it.
    pub(super) fn forget(&self, paths: &Paths) -> Result<()> {
        Self::documents(paths).remove(&self.number.to_string())
    }

    /// All that are written down; what a killed writer left goes. One that cannot be read is set
    /// aside under its name plus `.corrupt`.
    pub(super) fn all(paths: &Paths) -> Vec<Self> {
        let documents = Self::documents(paths);
        // It stands in nobody's way.
        let _ = documents.remove_unfinished();
        let names = documents.names().unwrap_or_default();
        let read = |name: String| documents.read(&name).ok().flatten();
        names.into_iter().filter_map(read).collect()
    }
}

/// Where the tcx link of an attachment's rules is pinned.
fn link_path(rules: &Rules, attachment: &Attachment) -> PathBuf {
    rules.link_path(&format!("{}{RULES}", attachment.tag()))
}

/// Where a link is pinned that is about to take the place of the other.
fn fresh_path(rules: &Rules, attachment: &Attachment) -> PathBuf {
    rules.link_path(&format!("{}{RULES_NEW}", attachment.tag()))
}

/// Takes the programs away that are held by these pins.
pub(super) fn release(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        if let Some(held) = TcxLink::open(path)? {
            held.detach()?;
        }
    }
    Ok(())
}

/// Takes our filters away from this hook of a link. Says how many there were.
pub(super) fn remove_filters(socket: &mut Socket, link: &Link, hook: Handle) -> Result<u64> {
    let mut removed = 0;
    while let Some(there) = ours(socket, link, hook)? {
        gone(socket.delete_filter(link, "bpf", there.place)).doing("delete filter")?;
        removed += 1;
    }
    Ok(removed)
}

/// Our filter on this hook of a link.
fn ours(socket: &mut Socket, link: &Link, hook: Handle) -> Result<Option<Installed>> {
    let filters = socket.filters(link, hook).doing("list filters")?;
    let is_ours = |filter: &Installed| {
        filter.place.handle == HANDLE && filter.bpf().is_some_and(|bpf| bpf.name == NAME)
    };
    Ok(filters.into_iter().find(is_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_found_whatever_else_is_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path(), "/sys/fs/bpf");
        assert_eq!(Site::all(&paths), []);
        let site = Site {
            endpoint: "a/b eth0".to_owned(),
            number: 7,
            attachment: Attachment::try_new("net", "c1", "eth0").unwrap(),
            netns: "/run/netns/x".into(),
            side: SideName::Host,
            link: "veth1".to_owned(),
            index: 3,
            mtu: 1500,
            hook: HookKind::Tcx,
            made_clsact: false,
        };
        site.write(&paths).unwrap();
        let rules = Site::documents(&paths);
        for (name, text) in [("8.json", "{"), ("9.new", "{\"end"), ("7.new", "")] {
            std::fs::write(rules.folder().join(name), text).unwrap();
        }
        assert_eq!(Site::all(&paths), std::slice::from_ref(&site));
        let mut left = rules.files().unwrap();
        left.sort();
        assert_eq!(left, ["7.json", "8.json.corrupt"]);
        site.forget(&paths).unwrap();
        assert_eq!(Site::all(&paths), []);
    }
}
