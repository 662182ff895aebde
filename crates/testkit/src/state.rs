//! Everything that a limit could leave on a node, as text: for comparing before and after.

use std::fmt::{Display, Write};
use std::fs;
use std::path::Path;

use anyhow::Result;
use netqos_bpf::{Pins, TcxHook};
use netqos_netlink::{Namespace, Nft, Socket};

use crate::{Node, Pod};

/// Flags of links that say whether there is a carrier.
const CARRIER: [&str; 3] = ["NO-CARRIER", "LOWER_UP", "M-DOWN"];
/// What stands before a word that changes by itself.
const BEFORE_VOLATILE: [&str; 2] = ["direct_packets_stat", "state"];

/// What a node and some of its pods held at a moment, in lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(Vec<String>);

impl State {
    /// Asserts that nothing has changed since `before`.
    ///
    /// # Panics
    /// When something has; the message is `what` and the lines that differ.
    #[track_caller]
    pub fn assert_is(&self, before: &Self, what: impl Display) {
        let only_in = |one: &Self, other: &Self| -> Vec<String> {
            let lines = one.0.iter().filter(|line| !other.0.contains(line));
            lines.cloned().collect()
        };
        let (gone, new) = (only_in(before, self), only_in(self, before));
        assert!(
            self == before,
            "{what}: it is not as it was\ngone: {gone:#?}\nnew: {new:#?}"
        );
    }

    /// The same without the lines that start with this.
    #[must_use]
    pub fn without(mut self, beginning: &str) -> Self {
        self.0.retain(|line| !line.starts_with(beginning));
        self
    }
}

impl Node {
    /// The node's links with their qdiscs, filters and programs, those of these pods, the records
    /// and their text, the pins, and the limiters without their counters.
    pub fn state(&self, pods: &[&Pod]) -> Result<State> {
        let mut text = self.links_and_queues()?;
        for pod in pods {
            let _inside = Namespace::open(pod.netns())?.enter()?;
            writeln!(text, "--- in {}", pod.name())?;
            text.push_str(&self.links_and_queues()?);
        }
        for file in self.files("/run/netqos") {
            // A socket has no text. Files of pods say nothing of what is programmed.
            if !Path::new(&file).is_file() || file.starts_with("/run/netqos/multinet-pods/") {
                continue;
            }
            writeln!(text, "{file}: {}", fs::read_to_string(&file)?)?;
        }
        for file in self.files("/sys/fs/bpf") {
            writeln!(text, "{file}")?;
        }
        if let Some(pins) = Pins::open(Path::new("/sys/fs/bpf"))? {
            for (id, limiter) in pins.limiters().all()? {
                writeln!(text, "limiter {id}: {:?}", limiter.settings)?;
            }
        }
        Ok(State(text.lines().map(lasting).collect()))
    }

    fn links_and_queues(&self) -> Result<String> {
        let mut text = self.run("ip", &["-d", "link", "show"])?;
        text.push_str(&self.run("tc", &["qdisc", "show"])?);
        let mut socket = Socket::open()?;
        for link in socket.links()? {
            for (name, hook) in [("ingress", TcxHook::Ingress), ("egress", TcxHook::Egress)] {
                let filters = self.run("tc", &["filter", "show", "dev", &link.name, name])?;
                // A kernel without tcx has none.
                let programs = hook.programs(link.index).unwrap_or_default();
                if !filters.is_empty() || !programs.is_empty() {
                    writeln!(text, "{} {name}: tcx {programs:?}, {filters}", link.name)?;
                }
            }
        }
        // A kernel without nftables has none.
        if let Ok(mut nft) = Nft::open()
            && let Ok(Some(chains)) = nft.chains_of("netqos")
        {
            writeln!(
                text,
                "nftables: {chains} chains, {:?}",
                nft.rules("netqos", None)?
            )?;
        }
        Ok(text)
    }
}

/// The line without what changes by itself: a counter of HTB's, and what the kernel gets to know
/// of a carrier some time after its other end came up.
fn lasting(line: &str) -> String {
    let mut last = "";
    let kept = line.split(' ').filter_map(|word| {
        let before = std::mem::replace(&mut last, word);
        match word
            .strip_prefix('<')
            .and_then(|word| word.strip_suffix('>'))
        {
            Some(flags) => {
                let flags = flags.split(',').filter(|flag| !CARRIER.contains(flag));
                Some(flags.collect::<Vec<_>>().join(","))
            }
            None => (!BEFORE_VOLATILE.contains(&before)).then(|| word.to_owned()),
        }
    });
    kept.collect::<Vec<_>>().join(" ")
}
