//! The time from a request to the API server to the first packet that is marked for it.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs::File, thread};

use anyhow::{Context as _, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;

use crate::context::Context;
use crate::networks::Backends;
use crate::rules;

const RUNS: usize = 9;
/// The time between packets, in seconds.
const INTERVAL: &str = "0.002";
/// The time until a packet of a deleted policy is unmarked.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// The longest median.
const MOST: Duration = Duration::from_millis(50);
/// A time in which several packets arrive.
const SEVERAL: Duration = Duration::from_millis(20);
/// DSCP 46.
const MARK: u8 = 46;
/// The number of IPv4 in Ethernet (`ETH_P_IP`).
const IPV4: u16 = 0x0800;

/// A rule for pods that no rule has been for.
pub fn first_packet(context: &mut Context) -> anyhow::Result<String> {
    let (paid, _) = rules::players(context)?;
    rules::delete(context, "games")?;
    let far = Backends::create(context, &paid.node)?.far;
    let ping = format!("ping -q -i {INTERVAL} {}", far.address);
    let _flow = paid.begin(context.kubectl(), &ping)?;
    let network = context.node(&far.node)?.network()?;
    let marked = MarkedPackets::listen(network, paid.address, far.address)?;
    let kubeconfig = context.cluster()?.control_plane.kubeconfig();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut times = runtime.block_on(async {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let kind = GroupVersionKind::gvk("k8s.ovn.org", "v1alpha1", "NetworkQoS");
        let kind = ApiResource::from_gvk_with_plural(&kind, "networkqoses");
        let client = kube::Client::try_from(config)?;
        let policies: Api<DynamicObject> = Api::namespaced_with(client, "games", &kind);
        // Also connects.
        ensure!(policies.list(&Default::default()).await?.items.is_empty());
        let mut times = Vec::new();
        for run in 0..RUNS {
            let policy = serde_json::from_value(rules::marked(&peer(run)))?;
            marked.drain();
            tokio::time::sleep(SEVERAL).await;
            ensure!(
                marked.instants.try_recv().is_err(),
                "packets are still marked {FORGOTTEN:.0?} after the policy was deleted"
            );
            let began = Instant::now();
            policies.create(&PostParams::default(), &policy).await?;
            let arrived = marked.instants.recv_timeout(Duration::from_secs(10));
            let arrived = arrived.context("no marked packet arrived in 10 s")?;
            times.push(arrived.duration_since(began));
            policies.delete("marked", &DeleteParams::default()).await?;
            tokio::time::sleep(FORGOTTEN).await;
        }
        anyhow::Ok(times)
    })?;
    times.sort();
    let median = times[RUNS / 2];
    let slowest = times[RUNS - 1];
    ensure!(
        median < MOST,
        "median {median:.0?}, expected less than {MOST:.0?}"
    );
    Ok(format!(
        "from the request to the first marked packet, new peer set: median {median:.0?}, slowest of {RUNS} {slowest:.0?}"
    ))
}

/// The backends, by a selector of this run's own.
fn peer(run: usize) -> serde_json::Value {
    json!({
        "namespaceSelector": {},
        "podSelector": {"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["backend", format!("run-{run}")]},
        ]},
    })
}

/// The instants at which marked packets between two addresses are in a network namespace.
struct MarkedPackets {
    instants: Receiver<Instant>,
    ends: Arc<AtomicBool>,
}

impl MarkedPackets {
    fn listen(network: File, source: IpAddr, destination: IpAddr) -> anyhow::Result<Self> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) else {
            anyhow::bail!("the first addresses of pods are not of IPv4");
        };
        let (sender, instants) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        thread::spawn(move || -> anyhow::Result<()> {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            let protocol = NonZeroU32::new(IPV4.to_be().into()).map(Protocol::from_raw);
            let socket = socket(AddressFamily::PACKET, SocketType::DGRAM, protocol)?;
            set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
            let mut packet = [0; 64];
            while !ended.load(Relaxed) {
                let read = match recv(&socket, &mut packet[..], RecvFlags::empty()) {
                    Err(Errno::AGAIN) => continue,
                    read => read?.0,
                };
                let is_marked = read >= 20
                    && packet[1] >> 2 == MARK
                    && packet[12..16] == source.octets()
                    && packet[16..20] == destination.octets();
                if is_marked {
                    sender.send(Instant::now())?;
                }
            }
            Ok(())
        });
        Ok(Self { instants, ends })
    }

    fn drain(&self) {
        while self.instants.try_recv().is_ok() {}
    }
}

impl Drop for MarkedPackets {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
    }
}
