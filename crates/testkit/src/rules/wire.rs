//! Frames as they are on a link.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// So long is waited for a frame at most.
const LONG: Duration = Duration::from_secs(5);
const ALL_PROTOCOLS: u16 = 0x0003;

/// A packet socket on a link of the network namespace in which it was opened.
pub struct Wire(OwnedFd);

impl Wire {
    pub fn open(link: &str) -> Self {
        let protocol = ALL_PROTOCOLS.to_be();
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol.into()) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: it was opened above, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = CString::new(link).unwrap();
        // SAFETY: all zeros is an address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        // SAFETY: a string that ends with a zero.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
        let wait = libc::timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        };
        // SAFETY: both structures are as long as is said.
        let done = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            ) | libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const wait).cast(),
                size_of_val(&wait) as u32,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        Self(fd)
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the slice is as long as it is.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next frame that has these bytes in it, without its outer VLAN tag, which the kernel
    /// keeps elsewhere; `None` when none comes.
    pub fn receive(&self, with: &[u8]) -> Option<Vec<u8>> {
        let end = Instant::now() + LONG;
        let mut frame = vec![0_u8; 65_536];
        while Instant::now() < end {
            // SAFETY: the kernel writes no more than there is room for.
            let length = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                )
            };
            let Ok(length) = usize::try_from(length) else {
                continue;
            };
            if frame[..length].windows(with.len()).any(|part| part == with) {
                return Some(frame[..length].to_vec());
            }
        }
        None
    }
}
