//! The messages on a control connection: one JSON object per line.

use std::time::Duration;

use netqos_core::BitRate;
use serde::{Deserialize, Serialize};

use crate::clock::{Machine, as_nanos};
use crate::{Dscp, Flow, Goodput, INTERVAL, Sample, UdpReport};

/// What may stand on a line, and who says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "camelCase")]
pub(crate) enum Message {
    /// Client: a TCP test, please.
    Tcp(TcpRequest),
    /// Client: a UDP test, please.
    Udp(UdpRequest),
    /// Client, on a connection of its own: this one is a stream of that session. What follows is
    /// measured bytes.
    Stream { session: u64 },
    /// Server: go on with this session.
    Ready {
        session: u64,
        machine: Option<Machine>,
    },
    /// Receiver: so much in the last interval.
    Sample(Sample),
    /// Sender of datagrams: that was all.
    Finished { sent: u64, held_back: u64 },
    /// Server: what it received by TCP.
    TcpResult(Goodput),
    /// Server: what it received by UDP.
    UdpResult(Box<UdpReport>),
    /// Server: nothing arrived within this time.
    NothingArrived {
        #[serde(rename = "waitedNanos", with = "as_nanos")]
        waited: Duration,
    },
    /// Server: it can't be done, and why.
    Refused { reason: String },
}

/// What the server has to know of a TCP test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TcpRequest {
    pub(crate) flow: Flow,
    #[serde(rename = "omitNanos", with = "as_nanos")]
    pub(crate) omit: Duration,
    #[serde(rename = "durationNanos", with = "as_nanos")]
    pub(crate) duration: Duration,
    pub(crate) congestion_control: Option<String>,
    /// Others than this version do not say it.
    #[serde(rename = "intervalNanos", with = "as_nanos", default = "usual")]
    pub(crate) interval: Duration,
}

const fn usual() -> Duration {
    INTERVAL
}

/// What the server has to know of a UDP test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UdpRequest {
    pub(crate) flow: Flow,
    #[serde(rename = "omitNanos", with = "as_nanos")]
    pub(crate) omit: Duration,
    #[serde(rename = "durationNanos", with = "as_nanos")]
    pub(crate) duration: Duration,
    pub(crate) rate: BitRate,
    /// Of a datagram's payload, in bytes.
    pub(crate) size: usize,
    pub(crate) dscp: Dscp,
    /// Whose clock stamps the datagrams, when they go up.
    pub(crate) machine: Option<Machine>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flows() -> impl Strategy<Value = Flow> {
        prop::sample::select(vec![Flow::Upload, Flow::Download])
    }

    proptest! {
        #[test]
        fn requests_round_trip_on_one_line(flow in flows(), omit in 0_u64..1 << 50, duration: u64,
                                           name in prop::option::of(".{0,20}")) {
            let message = Message::Tcp(TcpRequest {
                flow,
                omit: Duration::from_nanos(omit),
                duration: Duration::from_nanos(duration),
                congestion_control: name,
                interval: Duration::from_nanos(duration / 3),
            });
            let line = serde_json::to_string(&message).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
        }

        #[test]
        fn reading_never_panics(line in r#"\{"message":"[a-zA-Z]{0,8}".{0,40}\}|.{0,60}"#) {
            let _ = serde_json::from_str::<Message>(&line);
        }
    }
}
