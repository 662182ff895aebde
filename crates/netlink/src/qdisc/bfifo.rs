//! `bfifo`: a queue that is bounded in bytes (`net/sched/sch_fifo.c`).

use super::{Installed, Options, Qdisc};
use crate::wire;

/// First in, first out, up to so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bfifo {
    /// Bytes that may wait, each frame of a GSO packet with its own header.
    pub limit: u32,
}

impl Qdisc for Bfifo {
    const KIND: &'static str = "bfifo";

    fn options(&self) -> Options {
        // `struct tc_fifo_qopt`, without an attribute around it.
        Options::structure(&self.limit.to_ne_bytes())
    }
}

impl Installed {
    /// The settings, when this is a bfifo.
    pub fn bfifo(&self) -> Option<Bfifo> {
        if self.kind != Bfifo::KIND {
            return None;
        }
        let limit = wire::u32_at(&self.options, 0)?;
        Some(Bfifo { limit })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Handle;
    use crate::qdisc::tests::echoed;

    proptest! {
        #[test]
        fn what_is_asked_for_is_recognised(limit: u32) {
            let bfifo = Bfifo { limit };
            let found = echoed(Handle::new(1, 2), Handle::new(2, 0), &bfifo);
            prop_assert_eq!(found.bfifo(), Some(bfifo));
            prop_assert_eq!(found.tbf(), None);
        }
    }
}
