//! The end that waits: sink, source and echo on one address, TCP and UDP.

mod datagrams;
mod session;
mod sessions;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use socket2::Socket;

use crate::TrafficError;
use crate::socket::{self, is_timeout};
use session::Session;
use sessions::Sessions;

/// Where a server listens when nothing else is said.
pub const DEFAULT_PORT: u16 = 5219;

/// More connections at once are closed again: a server in a pod is open to all that reach it.
const MAX_CONNECTIONS: usize = 512;

/// A server, which serves until it is dropped.
///
/// It serves anybody who reaches it, and sends by UDP only to the address of a client that has a
/// TCP connection to it, so that it can't be made to flood others.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a server share.
struct Shared {
    stop: Arc<AtomicBool>,
    sessions: Sessions,
    datagrams: Socket,
}

impl Server {
    /// Listens on this address, TCP and UDP on the same port; port 0 chooses one. The threads live
    /// in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`TrafficError::Bind`]: the address is taken, or not of this machine.
    pub fn bind(address: SocketAddr) -> Result<Self, TrafficError> {
        let failed = |source| TrafficError::Bind { address, source };
        let (listener, datagrams) = both(address).map_err(failed)?;
        let bound = listener
            .local_addr()
            .map_err(failed)?
            .as_socket()
            .unwrap_or(address);
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared {
            stop: Arc::clone(&stop),
            sessions: Sessions::default(),
            datagrams,
        });
        let for_datagrams = Arc::clone(&shared);
        Ok(Self {
            address: bound,
            stop,
            threads: vec![
                std::thread::spawn(move || accept(&listener, &shared)),
                std::thread::spawn(move || datagrams::serve(&for_datagrams)),
            ],
        })
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub fn serve_forever(mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Both sockets on one port. With port 0, the port that TCP gets may be taken for UDP: then another.
fn both(address: SocketAddr) -> std::io::Result<(Socket, Socket)> {
    let mut tries = if address.port() == 0 { 10 } else { 1 };
    loop {
        tries -= 1;
        let listener = socket::listener(address)?;
        let bound = listener.local_addr()?.as_socket().unwrap_or(address);
        match socket::datagrams(bound) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

fn accept(listener: &Socket, shared: &Arc<Shared>) {
    let mut connections: Vec<JoinHandle<()>> = Vec::new();
    while !shared.is_stopped() {
        match listener.accept() {
            Ok((socket, peer)) => {
                connections.retain(|thread| !thread.is_finished());
                let Some(peer) = peer.as_socket() else {
                    continue;
                };
                if connections.len() < MAX_CONNECTIONS {
                    let stream = TcpStream::from(socket);
                    let shared = Arc::clone(shared);
                    connections.push(std::thread::spawn(move || {
                        // What goes wrong with one client is told to that client, if anybody.
                        let _ = Session::new(&shared, peer).serve(stream);
                    }));
                }
            }
            Err(error) if is_timeout(&error) => {}
            // Out of descriptors, or a connection that was gone before it was taken.
            Err(_) => std::thread::sleep(socket::POLL),
        }
    }
    for thread in connections {
        let _ = thread.join();
    }
}
