//! `per_cgroup_bps_limit`: limits of cgroups, a line each.

use std::fmt;
use std::str::FromStr;

/// A cgroup's limits, in bytes per second; zero is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLimit {
    /// The cgroup's path.
    pub cgroup: String,
    /// To it.
    pub rx_bps: u64,
    /// From it.
    pub tx_bps: u64,
}

/// A line that is none of `per_cgroup_bps_limit`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no \"/path/of/a/cgroup rx_bps=NUMBER tx_bps=NUMBER\"")]
pub struct NotALimit(String);

impl fmt::Display for CgroupLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cgroup,
            rx_bps,
            tx_bps,
        } = self;
        write!(f, "{cgroup} rx_bps={rx_bps} tx_bps={tx_bps}")
    }
}

impl FromStr for CgroupLimit {
    type Err = NotALimit;

    fn from_str(line: &str) -> Result<Self, NotALimit> {
        let wrong = || NotALimit(line.to_owned());
        let mut words = line.split_whitespace();
        let cgroup = words.next().ok_or_else(wrong)?.to_owned();
        let (mut rx_bps, mut tx_bps) = (None, None);
        for word in words {
            let (name, number) = word.split_once('=').ok_or_else(wrong)?;
            let number = Some(number.parse().map_err(|_| wrong())?);
            match name {
                "rx_bps" => rx_bps = number,
                "tx_bps" => tx_bps = number,
                _ => return Err(wrong()),
            }
        }
        Ok(Self {
            cgroup,
            rx_bps: rx_bps.ok_or_else(wrong)?,
            tx_bps: tx_bps.ok_or_else(wrong)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(cgroup in "/[a-z/._-]{0,40}", rx_bps: u64, tx_bps: u64) {
            let limit = CgroupLimit { cgroup, rx_bps, tx_bps };
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }

    #[test]
    fn what_is_no_limit() {
        for line in [
            "",
            "/a",
            "/a rx_bps=1",
            "/a rx_bps=1 tx_bps=x",
            "/a rx_bps=1 tx_bps=2 b=3",
        ] {
            assert!(line.parse::<CgroupLimit>().is_err(), "{line:?}");
        }
    }
}
