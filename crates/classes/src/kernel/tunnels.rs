//! The tunnels by which other nodes' pods reach the node's.

use std::collections::BTreeMap;

use netqos_bpf::classes::{MOST_TUNNELS, Settings, Tunnel, TunnelKind};
use netqos_core::classes::TrafficClass;
use netqos_netlink::link::{Link, LinkData};
use netqos_netlink::wireguard;

use crate::Trouble;

/// Tunnels that the programs know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// Those with a UDP port, by port.
    pub udp: BTreeMap<u16, TunnelKind>,
    /// Protocols 4 and 41: IP in IP.
    pub has_ip_in_ip: bool,
    /// The class of what WireGuard encrypts, whose pods are unknown.
    pub opaque_class: TrafficClass,
}

impl Default for Tunnels {
    /// The ports of RFC 7348, of older kernels' VXLAN, and of RFC 8926: a tunnel of user space has no link.
    fn default() -> Self {
        let vxlan = [4789, 8472].map(|port| (port, TunnelKind::Vxlan));
        Self {
            udp: vxlan
                .into_iter()
                .chain([(6081, TunnelKind::Geneve)])
                .collect(),
            has_ip_in_ip: false,
            opaque_class: TrafficClass::LatencySensitive,
        }
    }
}

impl Tunnels {
    /// Adds those of the node's links to the programs' settings. The ports of links precede configured ones.
    pub(super) fn add_to(
        &self,
        settings: Settings,
        links: &[Link],
        troubles: &mut Vec<Trouble>,
    ) -> Settings {
        let mut has_ip_in_ip = self.has_ip_in_ip;
        let mut of_links = BTreeMap::new();
        for link in links.iter().filter(|link| link.is_tunnel()) {
            match (link.kind.as_str(), link.data) {
                ("vxlan", LinkData::TunnelPort(port)) => {
                    of_links.insert(port, TunnelKind::Vxlan);
                }
                ("geneve", LinkData::TunnelPort(port)) => {
                    of_links.insert(port, TunnelKind::Geneve);
                }
                ("wireguard", _) => match wireguard::listen_port(&link.name) {
                    Ok(port) => of_links.extend(port.map(|it| (it, TunnelKind::WireGuard))),
                    // It went.
                    Err(error) if error.is_not_found() => {}
                    Err(error) => troubles.push(trouble(format!(
                        "cannot tell the packets of {}, which count as the system's: {error}",
                        link.name
                    ))),
                },
                _ => has_ip_in_ip = true,
            }
        }
        let configured = self
            .udp
            .iter()
            .filter(|(port, _)| !of_links.contains_key(port));
        let all = of_links.iter().chain(configured);
        let all: Vec<Tunnel> = all.map(|(&port, &kind)| Tunnel { kind, port }).collect();
        if of_links.len() > MOST_TUNNELS {
            troubles.push(trouble(format!(
                "the tunnels of the node have {} ports, of which the programs know the first {MOST_TUNNELS}; \
                 what the others carry counts as the system's; use fewer ports",
                of_links.len()
            )));
        }
        settings
            .tunnels(&all, has_ip_in_ip)
            .opaque(self.opaque_class)
    }
}

fn trouble(what: String) -> Trouble {
    Trouble {
        line: None,
        part: None,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(kind: &str, data: LinkData) -> Link {
        Link {
            name: format!("{kind}0"),
            kind: kind.to_owned(),
            data,
            ..Link::default()
        }
    }

    fn settings(links: &[Link]) -> (Settings, usize) {
        let mut troubles = Vec::new();
        let settings = Tunnels::default().add_to(Settings::new(0), links, &mut troubles);
        (settings, troubles.len())
    }

    fn expected(tunnels: &[(u16, TunnelKind)], has_ip_in_ip: bool) -> Settings {
        let tunnels: Vec<Tunnel> = tunnels
            .iter()
            .map(|&(port, kind)| Tunnel { kind, port })
            .collect();
        let settings = Settings::new(0).tunnels(&tunnels, has_ip_in_ip);
        settings.opaque(TrafficClass::LatencySensitive)
    }

    #[test]
    fn ports_of_links_precede_configured_ones() {
        use TunnelKind::{Geneve, Vxlan};
        let usual = [(4789, Vxlan), (6081, Geneve), (8472, Vxlan)];
        assert_eq!(settings(&[]), (expected(&usual, false), 0));
        let links = [
            link("vxlan", LinkData::TunnelPort(9000)),
            // On the port of another kind, which it replaces.
            link("geneve", LinkData::TunnelPort(4789)),
            link("veth", LinkData::None),
        ];
        let found = [(4789, Geneve), (9000, Vxlan), (6081, Geneve), (8472, Vxlan)];
        assert_eq!(settings(&links), (expected(&found, false), 0));
    }

    #[test]
    fn ip_in_ip_is_read_if_a_link_has_it() {
        for kind in ["ipip", "sit", "ip6tnl"] {
            let (found, _) = settings(&[link(kind, LinkData::None)]);
            assert_ne!(found, settings(&[]).0, "{kind}");
        }
    }

    #[test]
    fn ports_beyond_the_bound_are_reported() {
        let vxlan = |port| link("vxlan", LinkData::TunnelPort(port));
        let links: Vec<Link> = (9000..9009).map(vxlan).collect();
        let first: Vec<_> = (9000..9008).map(|port| (port, TunnelKind::Vxlan)).collect();
        assert_eq!(settings(&links), (expected(&first, false), 1));
        assert_eq!(settings(&links[1..]).1, 0);
    }
}
