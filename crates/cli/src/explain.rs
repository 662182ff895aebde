//! `netqos explain`: which rule decides about a packet, and why not the others.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use netqos_cluster::Kind;
use netqos_core::{NetworkKey, ObjectName, Protocol};
use netqos_index::{Index, Query, To};

use crate::cluster::{ASKED, ClusterArguments};
use crate::manifests;
use crate::output::{self, DataFormat, FAILED};

/// Which packet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs neither root nor an agent: it answers from the objects themselves, those of a folder or, without
one, those of a cluster. In which class a pod is, and what it gets of the node's lines, says netqos status
--pod on its node.

Examples:
  netqos explain --from games/free --to 192.0.2.7 --proto tcp --port 443
  netqos explain --manifests objects/ --from games/free --to 192.0.2.7 --proto tcp --port 443
  netqos explain --manifests objects/ --from games/free --to games/server --proto udp --port 53 -o json

Exit codes: 0 there is an answer, 1 there is none (the message says why), 2 wrong usage, 3 no cluster
answers.")]
pub struct Arguments {
    /// The folder of objects; without it a cluster is asked.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context", "cluster"])]
    manifests: Option<PathBuf>,
    /// The pod that sends.
    #[arg(long, value_name = "NAMESPACE/POD", value_parser = object_name)]
    from: ObjectName,
    /// Where to: a pod, or an address, which may be a Service's.
    #[arg(long, value_name = "NAMESPACE/POD|IP", value_parser = destination)]
    to: To,
    /// tcp, udp or sctp; without it a protocol that has no ports, such as ICMP.
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    proto: Option<Protocol>,
    /// The destination port; without it one that is not known, as in a later fragment.
    #[arg(long, requires = "proto", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The network that is sent on: default, NAMESPACE/NAME of a definition, or */NAME of a
    /// cluster-wide one.
    #[arg(long, value_name = "NETWORK", default_value = "default", value_parser = network)]
    network: NetworkKey,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DataFormat,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Reads, explains, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let index = match &arguments.manifests {
        Some(folder) => manifests::read(folder, "", &[]).map(|read| {
            manifests::tell(&read.problems);
            read.index
        }),
        None => of_cluster(&arguments.cluster),
    };
    let index = match index {
        Ok(index) => index,
        Err(code) => return code,
    };
    let explanation = index.explain(&Query {
        from: arguments.from.clone(),
        network: arguments.network.clone(),
        to: arguments.to.clone(),
        protocol: arguments.proto,
        port: arguments.port,
    });
    let printed = output::data(arguments.output, &explanation, |it| print!("{it}"));
    match explanation.refusal {
        Some(_) => ExitCode::from(FAILED),
        None => printed,
    }
}

/// An index of what a cluster has.
fn of_cluster(arguments: &ClusterArguments) -> Result<Index, ExitCode> {
    let kinds = [&ASKED[..], &[Kind::Service, Kind::EndpointSlice]].concat();
    let namespace = arguments.namespace.as_deref();
    let snapshot = arguments.connect()?.snapshot(&kinds, namespace)?;
    Ok(snapshot.index())
}

/// A namespace and a name.
pub fn object_name(text: &str) -> Result<ObjectName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err("write it as NAMESPACE/NAME".to_owned()),
    }
}

fn destination(text: &str) -> Result<To, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(To::Address(address)),
        Err(_) => object_name(text)
            .map(To::Pod)
            .map_err(|why| format!("it is no address; of a pod, {why}")),
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    let found = Protocol::from_name(&text.to_ascii_uppercase());
    found.ok_or_else(|| "write tcp, udp or sctp".to_owned())
}

fn network(text: &str) -> Result<NetworkKey, String> {
    if text == "default" {
        return Ok(NetworkKey::Default);
    }
    let name = object_name(text)?;
    Ok(match &*name.namespace {
        "*" => NetworkKey::Cluster(name.name),
        _ => NetworkKey::Attachment(name),
    })
}
