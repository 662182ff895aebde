//! The two ends of a measured stream.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::goodput::Arrivals;
use crate::socket::{CHUNK, POLL, is_timeout};

/// Sends until it is over, or the other end has had enough.
pub(crate) fn pump(stream: &TcpStream, is_over: impl Fn() -> bool) {
    // A write that finds no room comes back now and then to look whether it is over.
    if stream.set_write_timeout(Some(POLL)).is_err() {
        return;
    }
    let mut stream = stream;
    let chunk = vec![0x5a; CHUNK];
    while !is_over() {
        match stream.write(&chunk) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if goes_on(&error) => {}
            Err(_) => break,
        }
    }
    // What is still in the send buffer is of no use to anybody, and on a slow link it would hold up
    // the next test: a zero linger makes the close drop it.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Receives until it is over, or the other end has closed.
pub(crate) fn sink(stream: &TcpStream, arrivals: &Arrivals) {
    if stream.set_read_timeout(Some(POLL)).is_err() {
        return;
    }
    let mut stream = stream;
    let mut chunk = vec![0; CHUNK];
    while !arrivals.is_over() {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => arrivals.add(count as u64),
            Err(error) if goes_on(&error) => {}
            Err(_) => break,
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn goes_on(error: &io::Error) -> bool {
    is_timeout(error) || error.kind() == io::ErrorKind::Interrupted
}
