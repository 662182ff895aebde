//! ipsets: whose addresses are of which class.

use std::collections::{BTreeMap, BTreeSet};

use netqos_core::classes::TrafficClass;
use netqos_netlink::Handle;

use super::command::{run, run_with};
use super::names::{self, Family};
use crate::{Error, Result};

/// What the sets of one family hold: of each set by name, its addresses, and of those of
/// [`Family::parts_set`] the class of each.
pub(super) type Sets = BTreeMap<String, BTreeMap<String, Option<Handle>>>;

/// All sets of a family, by name, and how each is made.
pub(super) fn definitions(family: Family) -> BTreeMap<String, String> {
    let made = |more: &str| format!("hash:net family {}{more}", family.inet());
    let classes = TrafficClass::ALL.map(|class| (family.class_set(class), made("")));
    let parts = (family.parts_set(), made(" skbinfo"));
    classes.into_iter().chain([parts]).collect()
}

/// The sets of a family as they are; those that are not there are not among them.
///
/// # Errors
/// One of these names is somebody else's set.
pub(super) fn read(family: Family) -> Result<Sets> {
    let mut sets = Sets::new();
    for (name, definition) in there(family)? {
        let text = run("ipset", &["save", &name])?;
        sets.insert(name.clone(), parse(&text, &name, &definition)?);
    }
    Ok(sets)
}

/// The definitions of those sets of a family whose names are there.
fn there(family: Family) -> Result<BTreeMap<String, String>> {
    let names = match run("ipset", &["list", "-name"]) {
        // A kernel without sets has none of ours.
        Err(error) if error.is_unsupported() => return Ok(BTreeMap::new()),
        names => names?,
    };
    let names: BTreeSet<&str> = names.lines().collect();
    let mut there = definitions(family);
    there.retain(|name, _| names.contains(&**name));
    Ok(there)
}

/// Reads what `ipset save` says of one set.
fn parse(text: &str, name: &str, definition: &str) -> Result<BTreeMap<String, Option<Handle>>> {
    let mut addresses = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("create"), Some(_)) => {
                let made: Vec<&str> = words.collect();
                if !is_made_by(&made, definition) {
                    return Err(Error::ForeignSet {
                        name: name.to_owned(),
                        made: made.join(" "),
                        wanted: definition.to_owned(),
                    });
                }
            }
            (Some("add"), Some(_)) => {
                let address = words.next().unwrap_or_default().to_owned();
                let class = words.skip_while(|word| *word != "skbprio").nth(1);
                addresses.insert(address, class.and_then(handle));
            }
            _ => {}
        }
    }
    Ok(addresses)
}

/// Whether a set is of the type, the family and with the extensions that are wanted.
fn is_made_by(made: &[&str], definition: &str) -> bool {
    let wanted: Vec<&str> = definition.split_whitespace().collect();
    let has_parts = |words: &[&str]| words.contains(&"skbinfo");
    made.get(..3) == wanted.get(..3) && has_parts(made) == has_parts(&wanted)
}

/// `1:2`, in hexadecimal digits.
fn handle(text: &str) -> Option<Handle> {
    let (major, minor) = text.split_once(':')?;
    let number = |text| u16::from_str_radix(text, 16).ok();
    Some(Handle::new(number(major)?, number(minor)?))
}

/// What `ipset restore` is told so that the sets of a family hold at least this; how much that changes.
pub(super) fn additions(family: Family, found: &Sets, wanted: &Sets) -> (String, usize) {
    let mut script = Script::default();
    let definitions = definitions(family);
    for (name, addresses) in wanted {
        let there = found.get(name);
        if there.is_none() {
            let definition = definitions.get(name).map_or("", String::as_str);
            script.say(format!("create {name} {definition}"));
        }
        for (address, class) in addresses {
            if there.and_then(|there| there.get(address)) != Some(class) {
                let class = class.map(|class| format!(" skbprio {class}"));
                let class = class.unwrap_or_default();
                script.say(format!("add {name} {address}{class}"));
            }
        }
    }
    (script.text, script.changes)
}

/// What `ipset restore` is told so that the sets hold no more than this.
pub(super) fn removals(found: &Sets, wanted: &Sets) -> (String, usize) {
    let mut script = Script::default();
    for (name, addresses) in found {
        let wanted = wanted.get(name);
        let stale = |address: &&String| wanted.is_none_or(|wanted| !wanted.contains_key(*address));
        for address in addresses.keys().filter(stale) {
            script.say(format!("del {name} {address}"));
        }
    }
    (script.text, script.changes)
}

/// Makes these changes, if any.
pub(super) fn change((script, changes): (String, usize)) -> Result<usize> {
    if changes > 0 {
        // What is there already is written over.
        run_with("ipset", &["-exist", "restore"], &script)?;
    }
    Ok(changes)
}

/// The sets of these names that are somebody else's.
pub(super) fn foreign(family: Family) -> Result<BTreeSet<String>> {
    let mut foreign = BTreeSet::new();
    for (name, definition) in there(family)? {
        let text = run("ipset", &["save", &name])?;
        if parse(&text, &name, &definition).is_err() {
            foreign.insert(name);
        }
    }
    Ok(foreign)
}

/// Removes those sets of a family that are ours, which nothing may name any more; how many there were.
pub(super) fn destroy(family: Family) -> Result<usize> {
    let mut destroyed = 0;
    for (name, definition) in there(family)? {
        let text = run("ipset", &["save", &name])?;
        if parse(&text, &name, &definition).is_ok() {
            run("ipset", &["destroy", &name])?;
            destroyed += 1;
        }
    }
    Ok(destroyed)
}

/// The classes that are in use by addresses, of pods with a part of their own.
pub(super) fn parts(sets: &Sets, family: Family) -> BTreeMap<String, Handle> {
    let there = sets.get(&family.parts_set()).into_iter().flatten();
    there
        .filter_map(|(address, class)| Some((address.clone(), (*class)?)))
        .filter(|(_, class)| names::is_part(*class))
        .collect()
}

#[derive(Default)]
struct Script {
    text: String,
    changes: usize,
}

impl Script {
    fn say(&mut self, line: String) {
        self.text.push_str(&line);
        self.text.push('\n');
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address, and the number of its part.
    type Address = (&'static str, Option<u16>);

    fn sets(sets: &[(&str, &[Address])]) -> Sets {
        let of = |addresses: &[Address]| {
            let address =
                |(address, part): &Address| ((*address).to_owned(), part.map(names::minor));
            addresses.iter().map(address).collect()
        };
        sets.iter()
            .map(|(name, them)| ((*name).to_owned(), of(them)))
            .collect()
    }

    #[test]
    fn what_ipset_saves_is_read() {
        let text = "create pod_class hash:net family inet hashsize 1024 maxelem 65536 skbinfo \
                    bucketsize 12 initval 0x7dc88ebe\nadd pod_class 10.0.0.5 skbprio 1:101\n\
                    add pod_class 10.1.0.0/16\n";
        let definition = &definitions(Family::V4)["pod_class"];
        let found = parse(text, "pod_class", definition).unwrap();
        let expected = [("10.0.0.5", Some(0x101)), ("10.1.0.0/16", None)];
        assert_eq!(found, sets(&[("a", &expected)])["a"]);
        assert_eq!(
            parts(&Sets::from([("pod_class".to_owned(), found)]), Family::V4),
            BTreeMap::from([("10.0.0.5".to_owned(), names::minor(0x101))])
        );
    }

    #[test]
    fn somebody_elses_set_is_told() {
        let definition = &definitions(Family::V4)["ls_class"];
        for (made, is_ours) in [
            ("hash:net family inet hashsize 64 maxelem 9", true),
            ("hash:ip family inet hashsize 1024 maxelem 65536", false),
            ("hash:net family inet6 hashsize 1024", false),
            (
                "hash:net family inet hashsize 1024 maxelem 65536 skbinfo",
                false,
            ),
            ("list:set size 8", false),
        ] {
            let found = parse(&format!("create ls_class {made}\n"), "ls_class", definition);
            assert_eq!(found.is_ok(), is_ours, "{made}: {found:?}");
        }
    }

    #[test]
    fn only_what_differs_is_changed() {
        let found = sets(&[
            ("be_class", &[("10.0.0.1", None), ("10.0.0.2", None)]),
            ("pod_class", &[("10.0.0.1", Some(0x100))]),
        ]);
        let wanted = sets(&[
            ("be_class", &[("10.0.0.2", None)]),
            ("ls_class", &[("10.0.0.1", None)]),
            ("pod_class", &[("10.0.0.1", Some(0x101))]),
        ]);
        assert_eq!(additions(Family::V4, &found, &found), (String::new(), 0));
        assert_eq!(removals(&found, &found), (String::new(), 0));
        let expected = "create ls_class hash:net family inet\nadd ls_class 10.0.0.1\n\
                        add pod_class 10.0.0.1 skbprio 1:101\n";
        assert_eq!(
            additions(Family::V4, &found, &wanted),
            (expected.to_owned(), 3)
        );
        assert_eq!(
            removals(&found, &wanted),
            ("del be_class 10.0.0.1\n".to_owned(), 1)
        );
    }
}
