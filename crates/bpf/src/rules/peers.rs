//! The maps of peers: one for each network, as large as it needs to be.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use super::{Peer, Table};
use crate::{Error, Result, sys};

/// A map of peers has room for at least so many.
const LEAST_ROOM: u32 = 1024;

/// The addresses of peers on each network, and the class of each.
#[derive(Debug)]
pub struct Networks {
    /// Network to map.
    outer: OwnedFd,
    /// Those that have been looked at.
    inner: HashMap<u32, Inner>,
}

#[derive(Debug)]
struct Inner {
    peers: Table<Peer, u64>,
    room: u32,
    used: u32,
}

impl Networks {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            outer: sys::get_table::<u32, u32>(path)?,
            inner: HashMap::new(),
        })
    }

    /// All peers of a network.
    pub fn all(&mut self, network: u32) -> Result<Vec<(IpAddr, u64)>> {
        let Some(inner) = self.inner(network)? else {
            return Ok(Vec::new());
        };
        let own = |(peer, class): (Peer, u64)| (peer.into(), class);
        Ok(inner.peers.all()?.into_iter().map(own).collect())
    }

    /// The networks that have a map.
    pub fn networks(&self) -> Result<Vec<u32>> {
        // SAFETY: the keys' size was checked when the map was opened.
        unsafe { sys::keys(self.outer.as_fd()) }
    }

    /// The memory that a network's map takes in the kernel, in bytes.
    pub fn bytes(&mut self, network: u32) -> Result<u64> {
        let Some(inner) = self.inner(network)? else {
            return Ok(0);
        };
        let descriptor = inner.peers.as_fd().as_raw_fd().to_string();
        let path = Path::new("/proc/self/fdinfo").join(descriptor);
        let text = std::fs::read_to_string(&path).map_err(Error::at(&path))?;
        let memory = text.lines().find_map(|line| line.strip_prefix("memlock:"));
        Ok(memory
            .and_then(|bytes| bytes.trim().parse().ok())
            .unwrap_or_default())
    }

    /// The class of an address.
    pub fn get(&mut self, network: u32, address: IpAddr) -> Result<Option<u64>> {
        match self.inner(network)? {
            Some(inner) => inner.peers.get(&address.into()),
            None => Ok(None),
        }
    }

    /// Writes the class of an address: one write, where there is room, and none where it is so
    /// already. Says how many.
    pub fn put(&mut self, network: u32, address: IpAddr, class: u64) -> Result<u64> {
        let mut inner = self.with_room(network, 1)?;
        let key = address.into();
        match inner.peers.get(&key)? {
            Some(there) if there == class => return Ok(0),
            Some(_) => {}
            None => {
                if inner.used >= inner.room {
                    inner = self.grow(network, 1)?;
                }
                inner.used += 1;
            }
        }
        inner.peers.put(&key, &class)?;
        Ok(1)
    }

    /// Writes the classes of many, of which so many are not there yet.
    pub fn put_all(&mut self, network: u32, peers: &[(IpAddr, u64)], fresh: usize) -> Result<()> {
        let more = u32::try_from(fresh).unwrap_or(u32::MAX);
        let inner = self.with_room(network, more)?;
        let own = |(address, class): &(IpAddr, u64)| (Peer::from(*address), *class);
        let written = inner.peers.put_all(peers.iter().map(own));
        inner.used += more;
        if written.is_err() {
            // How many there are is to be found out anew.
            self.inner.remove(&network);
        }
        written
    }

    /// Takes addresses out, all of which are there.
    pub fn remove_all(&mut self, network: u32, addresses: &[IpAddr]) -> Result<()> {
        let Some(inner) = self.inner(network)? else {
            return Ok(());
        };
        let keys: Vec<Peer> = addresses.iter().copied().map(Peer::from).collect();
        inner.peers.remove_all(&keys)?;
        let fewer = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        inner.used = inner.used.saturating_sub(fewer);
        Ok(())
    }

    /// True when no address of this network is known.
    pub fn is_empty(&mut self, network: u32) -> Result<bool> {
        Ok(self.inner(network)?.is_none_or(|inner| inner.used == 0))
    }

    /// Takes a network out, with all its peers.
    pub fn forget(&mut self, network: u32) -> Result<()> {
        self.inner.remove(&network);
        // SAFETY: the key's size was checked when the map was opened.
        unsafe { sys::delete(self.outer.as_fd(), &network) }.map(drop)
    }

    fn with_room(&mut self, network: u32, more: u32) -> Result<&mut Inner> {
        let is_enough = self
            .inner(network)?
            .is_some_and(|inner| inner.used.saturating_add(more) <= inner.room);
        if is_enough {
            self.inner(network)?.ok_or_else(vanished)
        } else {
            self.grow(network, more)
        }
    }

    /// Puts a larger map in the place of a network's. Programs find the one or the other, each
    /// with all that the old one had.
    fn grow(&mut self, network: u32, more: u32) -> Result<&mut Inner> {
        let peers = match self.inner(network)? {
            Some(inner) => inner.peers.all()?,
            None => Vec::new(),
        };
        let used = u32::try_from(peers.len()).unwrap_or(u32::MAX);
        let needed = used.saturating_add(more);
        // A sixteenth more than needed: a map takes memory for all that it has room for.
        let room = needed.saturating_add(needed / 16).max(LEAST_ROOM);
        let map = sys::create_hash(size_of::<Peer>(), size_of::<u64>(), room, "peers")?;
        let table = Table::new(map);
        table.put_all(peers)?;
        // SAFETY: the sizes were checked when the map was opened; the value is a descriptor.
        unsafe {
            let descriptor = table.as_fd().as_raw_fd() as u32;
            sys::update(self.outer.as_fd(), &network, &descriptor, 0)
        }?;
        let inner = Inner {
            peers: table,
            room,
            used,
        };
        self.inner.insert(network, inner);
        self.inner.get_mut(&network).ok_or_else(vanished)
    }

    fn inner(&mut self, network: u32) -> Result<Option<&mut Inner>> {
        if !self.inner.contains_key(&network) {
            // SAFETY: the sizes were checked when the map was opened.
            let id: Option<u32> = unsafe { sys::lookup(self.outer.as_fd(), &network, 0) }?;
            let Some(id) = id else {
                return Ok(None);
            };
            let map = sys::map_by_id(id)?;
            sys::check_sizes::<Peer, u64>(map.as_fd(), Path::new("peers"))?;
            let room = sys::map_room(map.as_fd())?;
            let peers: Table<Peer, u64> = Table::new(map);
            let used = u32::try_from(peers.all()?.len()).unwrap_or(u32::MAX);
            self.inner.insert(network, Inner { peers, room, used });
        }
        Ok(self.inner.get_mut(&network))
    }
}

fn vanished() -> Error {
    Error::Command {
        command: "find the map of a network",
        source: io::ErrorKind::NotFound.into(),
    }
}
