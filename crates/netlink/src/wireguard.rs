//! The port at which a WireGuard device listens, by generic netlink.
//!
//! The kernel's answer also holds the device's private key, and its peers. Neither is read.

use crate::wire::{self, Request};
use crate::{Result, Socket};

/// `NETLINK_GENERIC`.
const NETLINK_GENERIC: isize = 16;
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY` and its attributes (`include/uapi/linux/genetlink.h`).
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `WG_CMD_GET_DEVICE` and its attributes (`include/uapi/linux/wireguard.h`).
const FAMILY: &str = "wireguard";
const WG_CMD_GET_DEVICE: u8 = 0;
const WGDEVICE_A_IFNAME: u16 = 2;
const WGDEVICE_A_LISTEN_PORT: u16 = 6;
/// `sizeof(struct genlmsghdr)`.
const GENLMSGHDR: usize = 4;

fn genlmsghdr(command: u8) -> [u8; GENLMSGHDR] {
    [command, 1, 0, 0]
}

/// Returns the UDP port at which the WireGuard device of this name listens, in the network namespace of the calling
/// thread; `None` if it listens at none.
///
/// # Errors
/// Returns an error that [`is_unsupported`](crate::Error::is_unsupported) if the kernel has no WireGuard.
pub fn listen_port(name: &str) -> Result<Option<u16>> {
    let mut socket = Socket::speaking(NETLINK_GENERIC)?;
    let doing = || format!("read the port of {name}");
    let header = genlmsghdr(CTRL_CMD_GETFAMILY);
    let request =
        Request::new(GENL_ID_CTRL, libc::NLM_F_ACK, &header).string(CTRL_ATTR_FAMILY_NAME, FAMILY);
    let family = socket.fetched(&doing, request, |it| number(it, CTRL_ATTR_FAMILY_ID))?;
    let header = genlmsghdr(WG_CMD_GET_DEVICE);
    let request = Request::new(family, libc::NLM_F_DUMP, &header).string(WGDEVICE_A_IFNAME, name);
    // A device with many peers is answered by several messages, of which the first has the port.
    let ports = socket.dumped(&doing, &request, |it| number(it, WGDEVICE_A_LISTEN_PORT))?;
    Ok(ports.first().copied().filter(|port| *port != 0))
}

/// The number in this attribute of a generic netlink message.
fn number(payload: &[u8], wanted: u16) -> Option<u16> {
    let value = wire::attribute(payload.get(GENLMSGHDR..)?, wanted)?;
    Some(u16::from_ne_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn port_is_found_behind_the_keys() {
        let mut payload = genlmsghdr(WG_CMD_GET_DEVICE).to_vec();
        payload.extend(Request::attributes_only(|it| {
            it.attribute(3, &[7; 32])
                .string(WGDEVICE_A_IFNAME, "wg0")
                .attribute(WGDEVICE_A_LISTEN_PORT, &51820_u16.to_ne_bytes())
        }));
        assert_eq!(number(&payload, WGDEVICE_A_LISTEN_PORT), Some(51820));
        assert_eq!(number(&payload[..40], WGDEVICE_A_LISTEN_PORT), None);
    }

    #[test]
    fn kernel_without_wireguard_is_reported() {
        let Err(error) = listen_port("netqos-none") else {
            panic!("a device that does not exist has a port");
        };
        assert!(
            error.is_unsupported() || error.is_not_found() || error.is_permission(),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let _ = number(&payload, WGDEVICE_A_LISTEN_PORT);
        }
    }
}
