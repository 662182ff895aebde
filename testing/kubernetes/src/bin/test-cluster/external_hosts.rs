//! External hosts: destinations in the sandbox. On an existing cluster pods take their place.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use netqos_kubernetes::cluster::{Counters, INTERNET, Kubectl};
use serde_json::Value;

use crate::context::Context;
use crate::limits;
use crate::pods::{Pod, Template, create};
use crate::rules::expect_all;

/// The destinations of packets, and what measures which ones arrive.
pub enum ExternalHosts<'a> {
    /// Hosts of the sandbox, whose kernel counts packets.
    Hosts(&'a Counters),
    /// Pods on the last node of an existing cluster, in the order of [`Destination::ALL`].
    Pods(Vec<Pod>),
}

/// A destination, as OKEP-4380's stories know them.
#[derive(Clone, Copy, Debug)]
pub enum Destination {
    /// A public address.
    Internet,
    /// A prefix of S3.
    S3,
    /// In 10.0.0.0/8, which rules leave out.
    Private,
    /// In 192.168.0.0/16, which they leave out, too.
    OtherPrivate,
}

impl Destination {
    const ALL: [Self; 4] = [Self::Internet, Self::S3, Self::Private, Self::OtherPrivate];

    /// The address of the host in the sandbox.
    const fn host(self) -> &'static str {
        match self {
            Self::Internet => INTERNET,
            Self::S3 => "52.216.10.10",
            Self::Private => "10.99.0.10",
            Self::OtherPrivate => "192.168.99.10",
        }
    }

    /// The name of the pod on an existing cluster.
    const fn pod(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::S3 => "s3",
            Self::Private => "private",
            Self::OtherPrivate => "other-private",
        }
    }
}

impl<'a> ExternalHosts<'a> {
    /// The destinations of a cluster. On an existing one it creates their pods.
    pub fn of(context: &'a Context) -> anyhow::Result<Self> {
        if let Some(cluster) = &context.machine {
            return Ok(Self::Hosts(&cluster.internet.counters));
        }
        let node = context.nodes.last().context("no node takes pods")?;
        let template = |it: Destination| Template::plain(limits::NAMESPACE, it.pod(), node);
        let pods = create(context, &Destination::ALL.map(template))?;
        ensure!(
            pods.iter().all(|it| it.address.is_ipv4()),
            "the first addresses of pods are not of IPv4, as the prefixes of the stories are"
        );
        Ok(Self::Pods(pods))
    }

    /// The policies of an example, for these destinations.
    pub fn policies(&self, example: &str) -> String {
        let Self::Pods(_) = self else {
            return example.to_owned();
        };
        let prefix = |it| format!("{}/32", self.address(it));
        example
            .replace("10.0.0.0/8", &prefix(Destination::Private))
            .replace("192.168.0.0/16", &prefix(Destination::OtherPrivate))
            // Of documentation (RFC 5737): pods may have addresses of the example's.
            .replace("172.16.0.0/12", "198.51.100.0/24")
            .replace("52.216.0.0/15", &prefix(Destination::S3))
    }

    /// The address of a destination, with a sink on port 5001 and a source on port 5002.
    pub fn address(&self, to: Destination) -> String {
        match self {
            Self::Hosts(_) => to.host().to_owned(),
            Self::Pods(pods) => pods[to as usize].address.to_string(),
        }
    }

    /// The rates in Mbit/s that arrive from these pods, each at a destination that no other one sends to meanwhile.
    pub fn rates(
        &self,
        kubectl: &Kubectl,
        flows: &[(&Pod, Destination)],
        time: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        match self {
            Self::Hosts(counters) => {
                let sources: Vec<IpAddr> = flows.iter().map(|(pod, _)| pod.address).collect();
                counters.rates(&sources, time)
            }
            Self::Pods(pods) => thread::scope(|scope| {
                let receive = |(_, to): &(&Pod, Destination)| {
                    let receiver = &pods[*to as usize];
                    scope.spawn(move || receiver.receives_over(kubectl, time))
                };
                let measured: Vec<_> = flows.iter().map(receive).collect();
                let rates = measured.into_iter().map(|it| it.join());
                rates
                    .map(|it| it.unwrap_or_else(|_| bail!("panicked")))
                    .collect()
            }),
        }
    }

    /// The rate in Mbit/s that arrives from these pods together at a destination that no other one sends to meanwhile.
    pub fn total(
        &self,
        kubectl: &Kubectl,
        pods: &[Pod],
        to: Destination,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let flows: Vec<_> = match self {
            Self::Hosts(_) => pods.iter().map(|it| (it, to)).collect(),
            // The pod of the destination counts whatever arrives.
            Self::Pods(_) => pods.iter().take(1).map(|it| (it, to)).collect(),
        };
        Ok(self.rates(kubectl, &flows, time)?.iter().sum())
    }

    /// Sends from a pod, and returns an error unless all packets arrive with this DSCP.
    pub fn expect_dscp(
        &self,
        kubectl: &Kubectl,
        pod: &Pod,
        to: Destination,
        dscp: u8,
    ) -> anyhow::Result<()> {
        let address = self.address(to);
        let Self::Hosts(counters) = self else {
            return expect_measured(kubectl, pod, &address, dscp);
        };
        // As `nft` names it.
        let name = match dscp {
            0 => "cs0".to_owned(),
            20 => "af22".to_owned(),
            other => other.to_string(),
        };
        counters.reset()?;
        let connect = format!("echo hello | nc -w 2 {address} 5001");
        pod.shell(kubectl, &connect)?;
        expect_all(counters, pod, address.parse()?, &name)?;
        Ok(())
    }
}

/// As [`ExternalHosts::expect_dscp`], with the DSCP that a receiving socket reads.
fn expect_measured(kubectl: &Kubectl, pod: &Pod, to: &str, dscp: u8) -> anyhow::Result<()> {
    let exec = ["-n", &pod.namespace, "exec", &pod.name, "-c", "netqos"];
    let measure = "/netqos traffic dscp -t 1s -q -o json".split(' ');
    let measure: Vec<&str> = exec
        .into_iter()
        .chain(["--"])
        .chain(measure)
        .chain([to])
        .collect();
    let seen: Value = serde_json::from_str(&kubectl.run(&measure)?)?;
    let seen = seen.as_array().map_or(&[][..], Vec::as_slice);
    ensure!(
        seen.len() == 1 && seen[0]["dscp"] == dscp,
        "{} to {to}: datagrams by DSCP {seen:?}, expected {dscp} alone",
        pod.name
    );
    Ok(())
}
