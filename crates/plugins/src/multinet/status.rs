//! The pod's `network-status`, as results of plugins have it.

use netqos_api::multinet::RecordedAttachment;
use netqos_api::npwg::{NetworkStatus, StatusDns};
use netqos_cni::{CniResult, Interface, IpConfig};

/// Returns the entries of an attachment: one for each interface that its plugins report in the pod, or one without a name
/// if they report none. `is_default` says that it is the pod's default network, or stands in for it.
pub fn entries(
    attachment: &RecordedAttachment,
    is_default: bool,
    result: &CniResult,
) -> Vec<NetworkStatus> {
    let cni_name = attachment.list.get("name").and_then(|name| name.as_str());
    let name = attachment.nad.as_deref().or(cni_name).unwrap_or_default();
    let bare = NetworkStatus {
        name: name.to_owned(),
        default: is_default,
        dns: dns(result),
        gateway: attachment
            .default_route
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect(),
        ..NetworkStatus::default()
    };
    let in_pod = result.interfaces.iter().enumerate();
    let in_pod: Vec<(usize, &Interface)> =
        in_pod.filter(|(_, it)| !it.sandbox.is_empty()).collect();
    let Some((last, _)) = in_pod.last() else {
        return vec![with_addresses(bare, result.ips.iter())];
    };
    let entries = in_pod.iter().map(|(index, interface)| {
        let entry = NetworkStatus {
            interface: Some(interface.name.clone()),
            mac: Some(interface.mac.clone()).filter(|mac| !mac.is_empty()),
            mtu: Some(interface.mtu.into()).filter(|mtu| *mtu > 0),
            default: is_default && interface.name == attachment.interface,
            ..bare.clone()
        };
        // Addresses of no interface are the last one's, as Multus has them.
        let own = result
            .ips
            .iter()
            .filter(|ip| ip.interface.unwrap_or(*last) == *index);
        with_addresses(entry, own)
    });
    entries.collect()
}

fn with_addresses<'i>(
    mut entry: NetworkStatus,
    ips: impl Iterator<Item = &'i IpConfig>,
) -> NetworkStatus {
    for ip in ips {
        entry.ips.push(ip.address.address().to_string());
        entry.prefixes.push(ip.address.to_string());
    }
    entry
}

fn dns(result: &CniResult) -> StatusDns {
    let dns = &result.dns;
    StatusDns {
        nameservers: dns.nameservers.clone(),
        domain: Some(dns.domain.clone()).filter(|domain| !domain.is_empty()),
        search: dns.search.clone(),
        options: dns.options.clone(),
    }
}
