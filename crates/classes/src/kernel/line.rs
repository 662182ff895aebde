//! The way out of a line: a tree at its root, and what chooses among its classes: a program on tcx, before
//! the tree and without its lock. Behind it, and where the kernel has no tcx, the same is the tree's
//! filter: others' programs may end the line of those on tcx before ours, or write another priority.

use std::collections::BTreeSet;

use netqos_bpf::classes::{Classes, Slot, choose_no_more};
use netqos_netlink::filter::{BpfClassifier, Place};
use netqos_netlink::link::{Link, gone};
use netqos_netlink::{Handle, Socket};

use super::form::Forms;
use super::ingress;
use super::stalls::Stalls;
use super::tree::{self, Root};
use crate::error::Doing;
use crate::{Error, Result};

const NAME: &str = "netqos_class";
/// Links that hand no packet on with its priority, unless it is to a port of theirs: cards, which have no kind, and
/// these. Behind all others the queue of a link, or the tag of a VLAN, would read a class' number as what it is not.
const END_PRIORITY: [&str; 4] = ["", "dummy", "tun", "veth"];

/// Makes the tree at the line's root what it should be.
pub(super) fn apply(
    socket: &mut Socket,
    link: &Link,
    forms: &Forms,
    programs: &Classes,
    is_by_tcx: bool,
    stalls: &mut Stalls,
) -> Result<usize> {
    let made = tree::apply(socket, Root::of_line(link), forms, programs, stalls);
    if let Err(Error::ForeignQdisc { .. }) = made {
        // What is somebody else's now is not to be told of our classes.
        choose_no_more(link.index)?;
    }
    let mut changes = made?;
    changes += filter(socket, link, programs)?;
    let may_be_chosen = is_by_tcx && ends_priority(link, &socket.links().doing("list links")?);
    let is_new = match may_be_chosen {
        true => programs.choose_at(link.index)?,
        false => choose_no_more(link.index)?,
    };
    Ok(changes + usize::from(is_new))
}

/// Whether a link hands no packet on with its priority. One that another link is a port of does, whatever it is: so
/// the network card of Hyper-V, which has no kind, to the function of a real card that is given to the machine.
fn ends_priority(link: &Link, links: &[Link]) -> bool {
    let is_master = links.iter().any(|it| it.master == Some(link.index));
    END_PRIORITY.contains(&link.kind.as_str()) && !is_master
}

/// Has the program be the tree's filter.
fn filter(socket: &mut Socket, link: &Link, programs: &Classes) -> Result<usize> {
    let program = programs.egress()?;
    let id = programs.egress_id()?;
    let root = Root::of_line(link).root();
    // The only one of our tree.
    let place = Place {
        hook: root,
        preference: 1,
        handle: 1,
    };
    let there = socket.filters(link, root).doing("list filters")?;
    let is_there = there.iter().any(|filter| {
        let bpf = filter.bpf();
        filter.place == place && bpf.is_some_and(|bpf| bpf.name == NAME && bpf.program_id == id)
    });
    if is_there {
        return Ok(0);
    }
    let filter = BpfClassifier {
        program,
        name: NAME,
        major: root.major(),
    };
    socket
        .put_filter(link, place, &filter)
        .doing("put the filter that chooses classes")?;
    Ok(1)
}

/// Removes the parts that no slot is for any more, both ways.
pub(super) fn prune(socket: &mut Socket, link: &Link, keep: &BTreeSet<Slot>) -> Result<usize> {
    let mut removed = tree::prune(socket, Root::of_line(link), keep)?;
    if let Some(ifb) = ingress::of_line(socket, link)? {
        removed += tree::prune(socket, Root::of_ifb(link, &ifb), keep)?;
    }
    Ok(removed)
}

/// Takes our tree away from a link, if there is one; the kernel puts its own qdisc in the place.
pub(super) fn leave(socket: &mut Socket, link: &Link) -> Result<usize> {
    if ingress::is_ifb(link) {
        return Ok(0);
    }
    let changes = usize::from(choose_no_more(link.index)?);
    let root = Root::of_line(link);
    if !root.is_ours(socket)? {
        return Ok(changes);
    }
    gone(socket.delete_qdisc(link, Handle::ROOT, root.root())).doing("remove the classes")?;
    Ok(changes + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hands_priorities_on_is_not_given_the_number_of_a_class() {
        let link = |index, kind: &str, master| {
            let header = [0; 16];
            let mut link = Link::read(&header).unwrap();
            (link.index, link.kind, link.master) = (index, kind.to_owned(), master);
            link
        };
        for (kind, ends) in [
            ("bond", false),
            ("team", false),
            ("vlan", false),
            ("bridge", false),
            ("openvswitch", false),
            ("macvlan", false),
            ("vxlan", false),
            // A card of the machine has none.
            ("", true),
            ("veth", true),
        ] {
            // A port of another link is no master.
            let line = link(2, kind, Some(7));
            let other = link(3, "", Some(7));
            assert_eq!(ends_priority(&line, &[line.clone(), other]), ends, "{kind}");
            let port = link(3, "", Some(2));
            assert!(!ends_priority(&line, &[line.clone(), port]), "{kind}");
        }
    }
}
