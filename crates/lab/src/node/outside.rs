//! Hosts outside of the cluster, to which the node is a router: made by the plugins `ptp` and
//! `static`.

use std::net::IpAddr;

use netqos_cni::runtime::NetworkConfigList;
use serde_json::json;

use crate::manifest::{ManifestError, Outside};

/// The name of a host's network, and of its file without `.conflist`.
pub(super) fn file(host: &Outside) -> String {
    format!("outside_{}", host.name)
}

/// The network of a host: each of its addresses shares a prefix of two with one of the node's.
pub(crate) fn network(host: &Outside) -> Result<NetworkConfigList, ManifestError> {
    let mut routes = Vec::new();
    let mut default_route = |all: &str, gateway: IpAddr| {
        let route = json!({"dst": all, "gw": gateway});
        if !routes.contains(&route) && !routes.iter().any(|other| other["dst"] == all) {
            routes.push(route);
        }
    };
    let addresses: Vec<_> = host
        .addresses
        .iter()
        .map(|address| {
            let (gateway, length, all) = match address {
                IpAddr::V4(bits) => (IpAddr::V4((u32::from(*bits) ^ 1).into()), 31, "0.0.0.0/0"),
                IpAddr::V6(bits) => (IpAddr::V6((u128::from(*bits) ^ 1).into()), 127, "::/0"),
            };
            default_route(all, gateway);
            json!({"address": format!("{address}/{length}"), "gateway": gateway})
        })
        .collect();
    let list = json!({
        "cniVersion": "1.0.0",
        "name": file(host).replace('_', "-"),
        "plugins": [{
            "type": "ptp",
            "ipam": {"type": "static", "addresses": addresses, "routes": routes},
        }],
    });
    Ok(NetworkConfigList::parse(list.to_string().as_bytes())?)
}
