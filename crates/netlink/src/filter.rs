//! Filters: what hangs on the hooks of `clsact`, and of the older `ingress`.

mod bpf;
mod redirect;

pub use bpf::{Bpf, BpfClassifier, BpfRedirect, InstalledBpf};
pub use redirect::Redirect;

use crate::link::Link;
use crate::qdisc::{TCA_KIND, TCA_OPTIONS, TCMSG, tcmsg};
use crate::wire::{self, Request};
use crate::{Handle, Result, Socket};

/// Every protocol (`ETH_P_ALL`), in network byte order as the kernel wants it here.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Where a filter stands: the hook, then its preference (lower runs first), then its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The hook: [`Handle::CLSACT_INGRESS`], [`Handle::CLSACT_EGRESS`], or a qdisc with classes, which
    /// its filters choose from.
    pub hook: Handle,
    /// The preference; all filters with the same one are of one kind.
    pub preference: u16,
    /// The filter's own number.
    pub handle: u32,
}

/// A kind of filter, with its settings.
pub trait Filter {
    /// The name by which the kernel knows it.
    const KIND: &'static str;

    /// The settings as attributes.
    #[doc(hidden)]
    fn options(&self) -> Vec<u8>;
}

/// A filter as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its kind's name.
    pub kind: String,
    /// Where it stands.
    pub place: Place,
    options: Vec<u8>,
}

impl Installed {
    /// Reads what stands behind the header of an `RTM_NEWTFILTER` message; `None` when it is of
    /// another link than the one of this number, or too short. What is cut off or malformed is left
    /// out.
    pub fn read(payload: &[u8], index: u32) -> Option<Self> {
        if wire::u32_at(payload, 4)? != index {
            return None;
        }
        let mut filter = Self {
            kind: String::new(),
            place: Place {
                handle: wire::u32_at(payload, 8)?,
                hook: Handle::from_raw(wire::u32_at(payload, 12)?),
                preference: (wire::u32_at(payload, 16)? >> 16) as u16,
            },
            options: Vec::new(),
        };
        for (kind, value) in wire::attributes(payload.get(TCMSG..)?) {
            match kind {
                TCA_KIND => filter.kind = wire::text(value),
                TCA_OPTIONS => filter.options = value.to_vec(),
                _ => {}
            }
        }
        Some(filter)
    }
}

/// A request about the filter of a kind at a place.
fn request(message: u16, flags: i32, link: &Link, place: Place, kind: &str) -> Request {
    let handle = Handle::from_raw(place.handle);
    let info = u32::from(place.preference) << 16 | u32::from(ALL_PROTOCOLS);
    let header = tcmsg(link, place.hook, handle, info);
    Request::new(message, libc::NLM_F_ACK | flags, &header).string(TCA_KIND, kind)
}

fn put_request<F: Filter>(link: &Link, place: Place, filter: &F) -> Request {
    let flags = libc::NLM_F_CREATE;
    request(libc::RTM_NEWTFILTER, flags, link, place, F::KIND)
        .attribute(TCA_OPTIONS, &filter.options())
}

impl Socket {
    /// All filters on this hook of a link. A hook without qdisc has none.
    pub fn filters(&mut self, link: &Link, hook: Handle) -> Result<Vec<Installed>> {
        let listed = self.listed_filters(link, hook)?;
        // Each preference is listed once without a filter, as the list that holds the filters; u32
        // also lists its hash tables, whose handles have no node part.
        let is_filter = |filter: &Installed| match filter.kind.as_str() {
            "u32" => filter.place.handle & 0xFFF != 0,
            _ => filter.place.handle != 0,
        };
        Ok(listed.into_iter().filter(is_filter).collect())
    }

    /// The preferences on this hook of a link that are taken: there can be filters of one kind and
    /// one protocol only at each, even where the last of them has gone.
    pub fn taken_preferences(&mut self, link: &Link, hook: Handle) -> Result<Vec<u16>> {
        let listed = self.listed_filters(link, hook)?;
        let preferences = listed.iter().map(|filter| filter.place.preference);
        Ok(preferences.collect())
    }

    /// Everything that the kernel lists as a filter.
    fn listed_filters(&mut self, link: &Link, hook: Handle) -> Result<Vec<Installed>> {
        self.listed("filters", libc::RTM_GETTFILTER, link, hook, Installed::read)
    }

    /// Puts this filter in place, over one of the same kind that stands there.
    pub fn put_filter<F: Filter>(&mut self, link: &Link, place: Place, filter: &F) -> Result<()> {
        let doing = || format!("add filter {} to {}", F::KIND, link.name);
        self.acknowledged(&doing, put_request(link, place, filter))
    }

    /// Removes the filter at this place.
    pub fn delete_filter(&mut self, link: &Link, kind: &str, place: Place) -> Result<()> {
        let request = request(libc::RTM_DELTFILTER, 0, link, place, kind);
        let doing = || format!("delete filter {kind} of {}", link.name);
        self.acknowledged(&doing, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary;
    use proptest::prelude::*;

    /// The kernel's view of a filter that was just asked for.
    pub(super) fn echoed<F: Filter>(filter: &F) -> Installed {
        let place = Place {
            hook: Handle::CLSACT_INGRESS,
            preference: 81,
            handle: 0x6e71,
        };
        let link = arbitrary::link(7);
        let payload = arbitrary::payload(put_request(&link, place, filter));
        assert_eq!(Installed::read(&payload, 8), None, "of another link");
        let found = Installed::read(&payload, 7).unwrap();
        assert_eq!((found.kind.as_str(), found.place), (F::KIND, place));
        found
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let index = wire::u32_at(&payload, 4).unwrap_or_default();
            let Some(mut filter) = Installed::read(&payload, index) else { return Ok(()) };
            for kind in [Bpf::KIND, Redirect::KIND, ""] {
                filter.kind = kind.to_owned();
                prop_assert!(filter.bpf().is_none() || kind == Bpf::KIND);
                prop_assert!(filter.redirect().is_none() || kind == Redirect::KIND);
            }
        }
    }
}
