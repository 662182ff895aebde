//! Which links are the node's lines, and what each carries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_classes::{is_lines_ifb, uplink_of_ifb};
use netqos_core::BitRate;
use netqos_netlink::link::{Link, LinkData};
use netqos_netlink::{News, Result, Socket};

use super::cards::{LINKS, cards, speed};
use super::default_uplinks::default_uplinks;

/// Kinds of links that others are ports of, and that their ports send by.
const BUNDLES: [&str; 2] = ["bond", "team"];
/// The least time between two inspections for changes by another process, which may change uplinks all the time.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);

/// The node's lines.
#[derive(Debug)]
pub(crate) struct Lines {
    named: Vec<String>,
    links: PathBuf,
    /// As they were seen last, or before, with what each carries.
    speeds: BTreeMap<Arc<str>, Option<BitRate>>,
    /// What their cards carry together, where all are cards that say it.
    cards: Option<BitRate>,
    /// The numbers of their links; none of one that is away.
    numbers: BTreeMap<Arc<str>, u32>,
    /// The indexes of the ifbs that shape their ingress.
    ifbs: BTreeSet<u32>,
    /// The routing tables that rules chose at the last look.
    tables: BTreeSet<u32>,
    /// The link that each link sends by, if that is another: of a VLAN or a macvlan the one below, of a port its bond.
    lower: BTreeMap<u32, u32>,
    /// The tunnels by which other nodes' pods reach the node's, by index.
    tunnels: BTreeMap<u32, LinkData>,
    problem: Option<String>,
    heard: Heard,
    /// Another process changed the qdiscs, classes or filters of an uplink.
    is_changed: bool,
    /// When such a change was taken last.
    change_taken: Option<Instant>,
}

/// What was heard since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    /// Nothing that concerns a line.
    #[default]
    Nothing,
    /// Something by which other links may be lines, or carry something else.
    Something,
    /// A line came or went.
    Links,
}

/// What is others than at the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which links are lines, what they carry, or why that is not known.
    pub(crate) is_other: bool,
    /// A line or a tunnel is another link than before, came or went: what was done to it is not done any more.
    pub(crate) is_undone: bool,
}

impl Lines {
    /// Those of these names; where none is named, those that default routes leave by.
    pub(crate) fn new(named: Vec<String>) -> Self {
        Self {
            named,
            links: LINKS.into(),
            speeds: BTreeMap::new(),
            cards: None,
            numbers: BTreeMap::new(),
            ifbs: BTreeSet::new(),
            tables: BTreeSet::new(),
            lower: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            problem: None,
            heard: Heard::Nothing,
            is_changed: false,
            change_taken: None,
        }
    }

    /// The lines, with what each carries, where that is known.
    pub(crate) fn speeds(&self) -> &BTreeMap<Arc<str>, Option<BitRate>> {
        &self.speeds
    }

    /// What their network cards carry together; `None` where that is not known, as of virtual links.
    pub(crate) fn cards(&self) -> Option<BitRate> {
        self.cards
    }

    /// Returns true if packets that leave by this link leave by an uplink.
    pub(crate) fn leads_to_uplink(&self, link: u32) -> bool {
        let mut link = Some(link);
        // Links do not go in circles, and the kernel stacks at most eight.
        for _ in 0..=8 {
            let Some(index) = link else { return false };
            if self.numbers.values().any(|uplink| *uplink == index) {
                return true;
            }
            link = self.lower.get(&index).copied();
        }
        false
    }

    /// Why it is not known which links are lines.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Looks at the node. A line without a link, or whose speed is not to be read any more, is as it was
    /// seen last: one that is away for a while does not lose its shares.
    pub(crate) fn look(&mut self) -> Seen {
        let heard = std::mem::take(&mut self.heard);
        let before = (self.speeds.clone(), self.problem.take());
        let links = match self.find() {
            Ok((links, found)) if found.is_empty() => {
                self.problem = Some(match self.speeds.is_empty() {
                    true => {
                        "the node has no default route, by which its lines are known; name them \
                             (--line)"
                            .to_owned()
                    }
                    false => "the node has no default route any more; the lines that it had are \
                              divided as before"
                        .to_owned(),
                });
                Some(links)
            }
            Ok((links, found)) => {
                let last = std::mem::take(&mut self.speeds);
                let speeds = found.into_iter().map(|line| {
                    let speed = speed(&self.links, &line);
                    let speed = speed.or_else(|| last.get(&line).copied().flatten());
                    (line, speed)
                });
                self.speeds = speeds.collect();
                self.cards = cards(&self.links, &self.speeds);
                Some(links)
            }
            Err(why) => {
                self.problem = Some(format!(
                    "the node's lines cannot be looked for: {why}; those that were found before stay"
                ));
                None
            }
        };
        let mut is_undone = heard == Heard::Links;
        if let Some(links) = links {
            let ifbs = links.iter().filter(|link| is_lines_ifb(link));
            self.ifbs = ifbs.map(|link| link.index).collect();
            let tunnels = links.iter().filter(|link| link.is_tunnel());
            let tunnels = tunnels.map(|link| (link.index, link.data)).collect();
            // The programs know their ports.
            is_undone |= tunnels != self.tunnels;
            self.tunnels = tunnels;
            self.lower = links
                .iter()
                .filter_map(|link| Some((link.index, lower(link)?)))
                .collect();
            let links = links.into_iter().map(|link| (link.name.into(), link.index));
            let lines = links.filter(|(name, _)| self.speeds.contains_key(name));
            let numbers: BTreeMap<Arc<str>, u32> = lines.collect();
            // A line that is new, or none any more, is another plan anyway.
            is_undone |= numbers != self.numbers;
            self.numbers = numbers;
        }
        Seen {
            is_other: (&self.speeds, &self.problem) != (&before.0, &before.1),
            is_undone,
        }
    }

    /// Takes note of what became of links: most of it is of pods.
    pub(crate) fn hear(&mut self, news: &News) {
        let mut heard = Heard::Nothing;
        // A rule of a pod to a table that others choose already changes nothing.
        let is_rerouted = news.default_routes || !news.rule_tables.is_subset(&self.tables);
        if news.lost || (is_rerouted && self.named.is_empty()) {
            heard = Heard::Something;
        }
        let has_tunnel = |index: &u32| self.tunnels.contains_key(index);
        if !news.tunnels.iter().all(has_tunnel) || news.gone.iter().any(has_tunnel) {
            heard = Heard::Something;
        }
        for (number, name) in &news.there {
            let line = self.numbers.get(name.as_str());
            let had_another_name = || self.numbers.values().any(|it| it == number);
            heard = heard.max(match line {
                Some(is) if is == number => Heard::Something,
                Some(_) => Heard::Links,
                None if self.speeds.contains_key(name.as_str()) => Heard::Links,
                None if had_another_name() => Heard::Links,
                None => Heard::Nothing,
            });
        }
        let mut own = self.numbers.values().chain(&self.ifbs);
        self.is_changed |= own.any(|it| news.traffic_control.contains(it));
        // Another process may set an ifb down, rename or delete it.
        self.is_changed |= self.ifbs.iter().any(|it| news.there.contains_key(it));
        let ifbs = self.ifbs.len();
        self.ifbs.retain(|it| !news.gone.contains(it));
        self.is_changed |= self.ifbs.len() < ifbs;
        let is_own_ifb = |name: &str| {
            uplink_of_ifb(name).is_some_and(|uplink| self.numbers.values().any(|it| *it == uplink))
        };
        let created = news.there.iter().filter(|(_, name)| is_own_ifb(name));
        self.ifbs.extend(created.map(|(index, _)| *index));
        if self.numbers.values().any(|it| news.gone.contains(it)) {
            heard = Heard::Links;
        }
        self.heard = self.heard.max(heard);
    }

    /// Takes note that another process changed a filter of the classes that is not on an uplink.
    pub(crate) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// True when something was heard by which a look is due.
    pub(crate) fn is_to_look(&self) -> bool {
        self.heard != Heard::Nothing
    }

    /// Returns when a change by another process is to be inspected; `None` if there is none.
    pub(crate) fn change_due(&self) -> Option<Instant> {
        let taken = self.change_taken;
        let due = taken.map_or_else(Instant::now, |taken| taken + LEAST_INTERVAL);
        self.is_changed.then_some(due)
    }

    /// Returns true once for the changes by another process that are due.
    pub(crate) fn take_change(&mut self, now: Instant) -> bool {
        let taken = self.change_taken;
        let is_due = taken.is_none_or(|taken| taken + LEAST_INTERVAL <= now);
        if !self.is_changed || !is_due {
            return false;
        }
        self.is_changed = false;
        self.change_taken = Some(now);
        true
    }

    /// All links, and the uplinks among them.
    fn find(&mut self) -> Result<(Vec<Link>, BTreeSet<Arc<str>>)> {
        let mut socket = Socket::open()?;
        if !self.named.is_empty() {
            let links = socket.links()?;
            let uplinks = chosen(&links, &self.named, &BTreeSet::new());
            return Ok((links, uplinks));
        }
        let rules = socket.rule_tables()?;
        let routes = socket.default_routes()?;
        let links = socket.links()?;
        let leaving = default_uplinks(&rules, &routes, &links);
        self.tables = rules.tables;
        let uplinks = chosen(&links, &self.named, &leaving);
        Ok((links, uplinks))
    }
}

/// The link that a link sends by, if that is another one of this namespace.
fn lower(link: &Link) -> Option<u32> {
    let below = link.related.filter(|_| link.related_namespace.is_none());
    let below = below.filter(|_| !link.is_pair_end());
    link.master.or(below)
}

/// The lines among these links: those of these names, or else those that routes leave by. In place of a
/// bond's port stands the bond. In place of a VLAN by which a route leaves stands the link that it is on,
/// whose packets go by the same wire; one that is named is meant, unless the link that it is on is a line
/// itself: nobody's traffic is to be counted twice.
fn chosen(links: &[Link], named: &[String], routes: &BTreeSet<u32>) -> BTreeSet<Arc<str>> {
    let by_index: BTreeMap<u32, &Link> = links.iter().map(|link| (link.index, link)).collect();
    let bundle = |link: &'_ Link| {
        let master = by_index.get(&link.master?)?;
        BUNDLES.contains(&master.kind.as_str()).then_some(*master)
    };
    // A VLAN in a VLAN has more than one below it.
    let below = |link: &'_ Link| {
        let on = link.related.filter(|_| link.kind == "vlan")?;
        let below = *by_index.get(&on)?;
        Some(bundle(below).unwrap_or(below))
    };
    let meant = links.iter().filter_map(|link| {
        let is_named = named.contains(&link.name);
        if !is_named && !routes.contains(&link.index) {
            return None;
        }
        let mut line = bundle(link).unwrap_or(link);
        while let Some(lower) = below(line).filter(|_| !is_named) {
            line = lower;
        }
        Some((line.index, line))
    });
    let meant: BTreeMap<u32, &Link> = meant.collect();
    let is_on_another = |link: &Link| {
        let mut at = below(link);
        while let Some(lower) = at {
            if meant.contains_key(&lower.index) {
                return true;
            }
            at = below(lower);
        }
        false
    };
    let lines = meant.values().filter(|link| !is_on_another(link));
    let lines = lines.map(|link| Arc::from(link.name.as_str()));
    // One that is not there may come.
    let away = named
        .iter()
        .filter(|name| links.iter().all(|link| link.name != **name));
    lines
        .chain(away.map(|name| Arc::from(name.as_str())))
        .collect()
}

#[cfg(test)]
mod tests;
