//! A way from a test's network namespace to a server's.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::host;

/// Passes connections to the loopback of the calling thread's network namespace on to a port on that of
/// the process. Ends with this value, and with it all connections.
pub(crate) struct Relay {
    port: u16,
    // Dropped to end the thread.
    _stop: oneshot::Sender<()>,
}

impl Relay {
    /// Starts a relay to a port.
    ///
    /// # Errors
    /// Returns an error if the calling thread's namespace has no loopback, or if no thread can be made.
    pub(crate) fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let serve = host::enter().and(runtime).map(|runtime| {
                    runtime.block_on(async {
                        tokio::select! {
                            result = pass_on(listener, target) => result,
                            _ = stopped => Ok(()),
                        }
                    })
                });
                if let Err(error) | Ok(Err(error)) = serve {
                    eprintln!("cannot relay to the API server: {error}");
                }
            })?;
        Ok(Self { port, _stop: stop })
    }

    /// The port in the test's namespace.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

async fn pass_on(listener: TcpListener, target: u16) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut client, _) = listener.accept().await?;
        tokio::spawn(async move {
            // A server that is away closes the connection, as its own port would.
            if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await {
                client.set_nodelay(true).ok();
                server.set_nodelay(true).ok();
                tokio::io::copy_bidirectional(&mut client, &mut server)
                    .await
                    .ok();
            }
        });
    }
}
