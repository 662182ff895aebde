//! `bpf`: an eBPF program that decides about the packet itself (`net/sched/cls_bpf.c`).

use std::os::fd::{AsRawFd, BorrowedFd};

use super::redirect::{redirected, redirecting};
use super::{Filter, Installed};
use crate::Handle;
use crate::wire::{self, Request};

/// Attributes of cls_bpf (`include/uapi/linux/pkt_cls.h`).
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_CLASSID: u16 = 3;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// The program's result is the action.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// A program in direct-action mode.
#[derive(Clone, Copy, Debug)]
pub struct Bpf<'p> {
    /// The loaded program, of type `BPF_PROG_TYPE_SCHED_CLS`.
    pub program: BorrowedFd<'p>,
    /// A name, for people and for finding it again.
    pub name: &'p str,
    /// A number which the program finds in `tc_classid` of its context: so one program serves many
    /// filters, each with an argument of its own.
    pub argument: u16,
}

/// A program that chooses among the classes of the qdisc that it is a filter of: it writes the minor
/// number to `tc_classid` of its context.
#[derive(Clone, Copy, Debug)]
pub struct BpfClassifier<'p> {
    /// The loaded program, of type `BPF_PROG_TYPE_SCHED_CLS`.
    pub program: BorrowedFd<'p>,
    /// A name, for people and for finding it again.
    pub name: &'p str,
    /// The major number of those classes.
    pub major: u16,
}

/// A program that chooses packets, which are taken out and handed to another link's qdisc: those for
/// which it does not return 0.
#[derive(Clone, Copy, Debug)]
pub struct BpfRedirect<'p> {
    /// The loaded program, of type `BPF_PROG_TYPE_SCHED_CLS`.
    pub program: BorrowedFd<'p>,
    /// A name, for people and for finding it again.
    pub name: &'p str,
    /// The index of the link that gets the packets.
    pub to: u32,
}

/// A `bpf` filter as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledBpf {
    /// Its name.
    pub name: String,
    /// Its argument.
    pub argument: u16,
    /// The kernel's number for the program.
    pub program_id: u32,
    /// Where it sends packets, when it does.
    pub redirects_to: Option<u32>,
}

impl Filter for Bpf<'_> {
    const KIND: &'static str = "bpf";

    fn options(&self) -> Vec<u8> {
        direct_action(self.program, self.name, self.argument.into())
    }
}

impl Filter for BpfClassifier<'_> {
    const KIND: &'static str = "bpf";

    fn options(&self) -> Vec<u8> {
        direct_action(self.program, self.name, Handle::new(self.major, 0).raw())
    }
}

impl Filter for BpfRedirect<'_> {
    const KIND: &'static str = "bpf";

    fn options(&self) -> Vec<u8> {
        Request::attributes_only(|request| {
            let request = with_program(request, self.program, self.name);
            redirecting(request, TCA_BPF_ACT, self.to)
        })
    }
}

fn with_program(request: Request, program: BorrowedFd<'_>, name: &str) -> Request {
    let descriptor = program.as_raw_fd() as u32;
    let request = request.number(TCA_BPF_FD, descriptor);
    request.string(TCA_BPF_NAME, name)
}

/// The settings of a program whose result is the action, with what it finds in `tc_classid`.
fn direct_action(program: BorrowedFd<'_>, name: &str, class: u32) -> Vec<u8> {
    Request::attributes_only(|request| {
        with_program(request, program, name)
            .number(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
            .number(TCA_BPF_CLASSID, class)
    })
}

impl Installed {
    /// The settings, when this is a `bpf` filter.
    pub fn bpf(&self) -> Option<InstalledBpf> {
        if self.kind != Bpf::KIND {
            return None;
        }
        let mut found = InstalledBpf::default();
        for (kind, value) in wire::attributes(&self.options) {
            match kind {
                TCA_BPF_NAME => found.name = wire::text(value),
                TCA_BPF_CLASSID => found.argument = wire::u32_at(value, 0)? as u16,
                TCA_BPF_ACT => found.redirects_to = redirected(value),
                TCA_BPF_ID => found.program_id = wire::u32_at(value, 0)?,
                _ => {}
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;
    use crate::filter::tests::echoed;

    /// The kernel takes a descriptor and answers with a number, so that can't be compared.
    #[test]
    fn the_programs_number_is_read() {
        let null = File::open("/dev/null").unwrap();
        let mut filter = echoed(&Bpf {
            program: null.as_fd(),
            name: "netqos_rank",
            argument: 1,
        });
        let number = Request::attributes_only(|request| request.number(TCA_BPF_ID, 0x0001_0203));
        filter.options.extend(number);
        assert_eq!(filter.bpf().unwrap().program_id, 0x0001_0203);
        // A number that is cut off is none, and neither is the rest to be trusted.
        filter.options.truncate(filter.options.len() - 2);
        assert_eq!(filter.bpf().unwrap().program_id, 0);
        filter.kind = "flower".to_owned();
        assert_eq!(filter.bpf(), None);
    }

    proptest! {
        #[test]
        fn settings_round_trip(name in "[a-z_]{0,40}", argument: u16) {
            let null = File::open("/dev/null").unwrap();
            let found = echoed(&Bpf { program: null.as_fd(), name: &name, argument }).bpf().unwrap();
            let expected = InstalledBpf { name, argument, ..InstalledBpf::default() };
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn redirects_round_trip(name in "[a-z_]{0,40}", to: u32) {
            let null = File::open("/dev/null").unwrap();
            let filter = BpfRedirect { program: null.as_fd(), name: &name, to };
            let found = echoed(&filter).bpf().unwrap();
            let expected = InstalledBpf { name, redirects_to: Some(to), ..InstalledBpf::default() };
            prop_assert_eq!(found, expected);
        }
    }
}
