//! Datagrams larger than a frame, one after the other.

use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::Pod;

/// A datagram that takes longer is lost.
const LONG: Duration = Duration::from_secs(2);

/// Sends so many datagrams of this many bytes to this address of another pod, each when the one before has arrived and this
/// pause is over. Returns how many arrive: in the best of three tries, since a busy machine may lose a fragment.
///
/// # Errors
/// Returns an error if there can be no socket, or a datagram cannot be sent.
pub fn datagrams_arrive(
    (from, to): (&Pod, &Pod),
    address: IpAddr,
    size: usize,
    count: usize,
    pause: Duration,
) -> Result<usize> {
    let receiver = to.inside(|| UdpSocket::bind((address, 0)))??;
    receiver.set_read_timeout(Some(LONG))?;
    let any = if address.is_ipv6() { "::" } else { "0.0.0.0" };
    let sender = from.inside(|| UdpSocket::bind((any, 0)))??;
    sender.connect(receiver.local_addr()?)?;
    let mut buffer = vec![0; size + 1];
    let mut most = 0;
    for try_number in 0..3_u8 {
        let mut arrived = 0;
        for number in 0..count {
            thread::sleep(pause);
            let datagram = vec![try_number ^ number as u8; size];
            sender.send(&datagram)?;
            let received = receiver.recv(&mut buffer);
            arrived += usize::from(received.is_ok_and(|length| buffer[..length] == datagram));
        }
        most = most.max(arrived);
        if most == count {
            break;
        }
        eprintln!("{arrived} of {count} arrived");
    }
    Ok(most)
}
