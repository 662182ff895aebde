//! Handles: the 32-bit names of qdiscs, classes and filters (`include/uapi/linux/pkt_sched.h`).

use std::fmt;

/// `major:minor`, as `tc` prints it. A qdisc's own handle has minor 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u32);

impl Handle {
    /// No handle: of a qdisc, the one that the kernel puts on a device by itself.
    pub const NONE: Self = Self(0);
    /// `TC_H_ROOT`: the parent of a device's root qdisc.
    pub const ROOT: Self = Self(0xFFFF_FFFF);
    /// `TC_H_INGRESS` and `TC_H_CLSACT`, which share a number: the parent of the one or the other.
    pub const CLSACT: Self = Self(0xFFFF_FFF1);
    /// The ingress hook of clsact (and of the older `ingress` qdisc): `ffff:fff2`.
    pub const CLSACT_INGRESS: Self = Self(0xFFFF_FFF2);
    /// The egress hook of clsact: `ffff:fff3`.
    pub const CLSACT_EGRESS: Self = Self(0xFFFF_FFF3);

    /// `major:minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The number as it stands in a message.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The number as it stands in a message.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// What is before the colon.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The part after the colon.
    pub const fn minor(self) -> u16 {
        (self.0 & 0xFFFF) as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.0 >> 16, self.minor()) {
            (Self::ROOT, _, _) => f.write_str("root"),
            (_, major, 0) => write!(f, "{major:x}:"),
            (_, major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_tc_does() {
        assert_eq!(Handle::new(1, 0).to_string(), "1:");
        assert_eq!(Handle::new(0x1a, 0x10).to_string(), "1a:10");
        assert_eq!(Handle::CLSACT.to_string(), "ffff:fff1");
        assert_eq!(Handle::ROOT.to_string(), "root");
    }
}
