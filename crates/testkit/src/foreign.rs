//! Other people's programs on the same links.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use aya::maps::Array;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle, qdisc_add_clsact};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, VerifierLogLevel};
use netqos_netlink::Socket;

use crate::Pod;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/foreign.o"));

/// What a foreign program says of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may not pass.
    Drop,
    /// It passes, and no program behind is asked.
    Accept,
    /// Those behind decide.
    Next,
    /// What is for a pod goes to the pod's end of its interface, past the host's (`bpf_redirect_peer`).
    Peer,
}

/// Where a foreign program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignHook {
    /// On clsact, at this preference.
    Clsact(u16),
    /// On tcx, before what is there.
    TcxFirst,
    /// On tcx, after what is there.
    TcxLast,
}

/// A program on a link, as long as this lives.
#[derive(Debug)]
pub struct ForeignProgram {
    object: Ebpf,
}

impl ForeignProgram {
    /// Attaches one to a link of the calling thread's network namespace.
    pub fn attach(
        link: &str,
        direction: TcAttachType,
        hook: ForeignHook,
        verdict: Verdict,
    ) -> Result<Self> {
        let mut object = aya::EbpfLoader::new()
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .load(OBJECT)
            .context("load the foreign programs")?;
        let name = match verdict {
            Verdict::Drop => "foreign_drop",
            Verdict::Accept => "foreign_accept",
            Verdict::Next => "foreign_next",
            Verdict::Peer => "foreign_peer",
        };
        let program: &mut SchedClassifier = object
            .program_mut(name)
            .ok_or_else(|| anyhow!("no {name}"))?
            .try_into()?;
        program.load()?;
        let options = match hook {
            ForeignHook::Clsact(priority) => {
                // There already, when others were first.
                let _ = qdisc_add_clsact(link);
                TcAttachOptions::Netlink(NlOptions {
                    priority,
                    handle: TcHandle::AUTO_ASSIGN,
                    classid: None,
                })
            }
            ForeignHook::TcxFirst => TcAttachOptions::TcxOrder(LinkOrder::first()),
            ForeignHook::TcxLast => TcAttachOptions::TcxOrder(LinkOrder::last()),
        };
        program
            .attach_with_options(link, direction, options)
            .with_context(|| format!("attach {name} to {link}"))?;
        Ok(Self { object })
    }

    /// Attaches one to the ingress of a link that hands to this pod what is for it.
    pub fn redirect_to(pod: &Pod, link: &str, hook: ForeignHook) -> Result<Self> {
        let mut program = Self::attach(link, TcAttachType::Ingress, hook, Verdict::Peer)?;
        let host_end = Socket::open()?.link_by_name(pod.host_link())?.index;
        let inside = pod.inside(|| Socket::open()?.link_by_name("eth0"))??;
        let (v4, v6): (Ipv4Addr, Ipv6Addr) = (pod.address().parse()?, pod.address6().parse()?);
        let addresses = [v4.to_ipv6_mapped(), v6].map(|address| address.octets());
        let mut value = [0; 44];
        value[..4].copy_from_slice(&host_end.to_ne_bytes());
        value[4..10].copy_from_slice(&inside.address);
        value[12..].copy_from_slice(addresses.as_flattened());
        let map = program
            .object
            .map_mut("to")
            .ok_or_else(|| anyhow!("no map"))?;
        Array::<_, [u8; 44]>::try_from(map)?.set(0, value, 0)?;
        Ok(program)
    }

    /// How many packets it has seen.
    pub fn seen(&self) -> Result<u64> {
        let map = self.object.map("seen").ok_or_else(|| anyhow!("no map"))?;
        Ok(Array::<_, u64>::try_from(map)?.get(&0, 0)?)
    }
}

/// Pins a map of other people's: eight bytes a value, one value.
pub fn foreign_map(path: impl AsRef<Path>) -> Result<()> {
    let object = aya::EbpfLoader::new()
        .load(OBJECT)
        .context("load the foreign programs")?;
    let map = object.map("seen").ok_or_else(|| anyhow!("no map"))?;
    Ok(map.pin(path)?)
}

/// Pins the map by which Cilium's bandwidth manager knows what pods are held to, as it does, in the BPF
/// file system of the node: with an entry for each endpoint and direction (0: egress, 1: ingress).
pub fn cilium_throttle(endpoints: &[(u32, u8)]) -> Result<()> {
    let folder = Path::new("/sys/fs/bpf/tc/globals");
    std::fs::create_dir_all(folder)?;
    let mut map = aya::maps::HashMap::<_, [u8; 8], [u8; 56]>::create(65_535, 0)?;
    for (endpoint, direction) in endpoints {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&endpoint.to_ne_bytes());
        key[4] = *direction;
        map.insert(key, [0; 56], 0)?;
    }
    let path = folder.join("cilium_throttle");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    Ok(map.pin(path)?)
}
