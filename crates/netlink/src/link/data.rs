//! The attributes of a link's kind, as far as netqos needs them.

use crate::wire;

/// `IFLA_VRF_TABLE`, `IFLA_VXLAN_PORT` and `IFLA_GENEVE_PORT` (`include/uapi/linux/if_link.h`).
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_GENEVE_PORT: u16 = 5;

/// An attribute of a link's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkData {
    /// None that netqos needs.
    #[default]
    None,
    /// The routing table of a VRF.
    VrfTable(u32),
    /// The UDP destination port of a tunnel of kind `vxlan` or `geneve`.
    TunnelPort(u16),
}

impl LinkData {
    /// Reads `IFLA_INFO_DATA` of a link of this kind. Leaves out what is cut off or malformed.
    pub(super) fn read(kind: &str, data: &[u8]) -> Self {
        let port = |wanted| {
            let bytes = *wire::attribute(data, wanted)?.first_chunk()?;
            Some(Self::TunnelPort(u16::from_be_bytes(bytes)))
        };
        let found = match kind {
            "vrf" => wire::attribute(data, IFLA_VRF_TABLE)
                .and_then(|it| Some(Self::VrfTable(wire::u32_at(it, 0)?))),
            "vxlan" => port(IFLA_VXLAN_PORT),
            "geneve" => port(IFLA_GENEVE_PORT),
            _ => None,
        };
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[test]
    fn data_is_read_by_the_kind_of_the_link() {
        let port = |attribute| {
            Request::attributes_only(|it| it.attribute(attribute, &6081_u16.to_be_bytes()))
        };
        let table = Request::attributes_only(|it| it.number(IFLA_VRF_TABLE, 1001));
        for (kind, data, expected) in [
            ("vrf", &table, LinkData::VrfTable(1001)),
            ("vxlan", &port(IFLA_VXLAN_PORT), LinkData::TunnelPort(6081)),
            (
                "geneve",
                &port(IFLA_GENEVE_PORT),
                LinkData::TunnelPort(6081),
            ),
            ("geneve", &port(IFLA_VXLAN_PORT), LinkData::None),
            ("veth", &table, LinkData::None),
            ("vrf", &vec![8, 0, 1], LinkData::None),
        ] {
            assert_eq!(LinkData::read(kind, data), expected, "{kind}");
        }
    }
}
