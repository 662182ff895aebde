//! How addresses, rates and durations are written on the command line.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use netqos_api::Quantity;
use netqos_core::BitRate;
use netqos_traffic::DEFAULT_PORT;

/// An address to listen on; without a port, the usual one.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    literal(text).ok_or_else(|| "write it like 10.85.0.2:5219 or [::]:5219".to_owned())
}

/// The address of a server, or its name, which is looked up.
pub(super) fn server_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(address) = literal(text) {
        return Ok(address);
    }
    let found = match text.rsplit_once(':') {
        Some(_) => text.to_socket_addrs(),
        None => (text, DEFAULT_PORT).to_socket_addrs(),
    };
    found
        .map_err(|error| error.to_string())?
        .next()
        .ok_or_else(|| "the name has no address".to_owned())
}

fn literal(text: &str) -> Option<SocketAddr> {
    let alone = |ip: IpAddr| SocketAddr::new(ip, DEFAULT_PORT);
    text.parse()
        .ok()
        .or_else(|| text.parse().ok().map(alone))
        .or_else(|| {
            let inside = text.strip_prefix('[')?.strip_suffix(']')?;
            inside.parse().ok().map(alone)
        })
}

/// A rate as in Kubernetes' annotations.
pub(super) fn rate(text: &str) -> Result<BitRate, String> {
    let quantity: Quantity = text
        .parse()
        .map_err(|problem| format!("{problem}; write it like 20M or 1G"))?;
    u64::try_from(quantity.value())
        .map(BitRate::from_bits_per_second)
        .map_err(|_| "a rate is not negative".to_owned())
}

/// A duration as in netqos' annotations.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    netqos_api::duration::parse_duration(text)
        .map_err(|problem| format!("{problem}; write it like 250ms or 5s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_be_left_out() {
        for (text, address) in [
            ("10.0.0.1", "10.0.0.1:5219"),
            ("10.0.0.1:7", "10.0.0.1:7"),
            ("fd00::1", "[fd00::1]:5219"),
            ("[fd00::1]", "[fd00::1]:5219"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ] {
            assert_eq!(server_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        assert!(listen_address("here").is_err());
        assert!(server_address("nowhere.invalid:x").is_err());
    }

    #[test]
    fn rates_and_durations() {
        assert_eq!(rate("20M").unwrap().bits_per_second(), 20_000_000);
        assert!(rate("-1M").is_err() && rate("fast").is_err());
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("soon").unwrap_err().contains("250ms"));
    }
}
