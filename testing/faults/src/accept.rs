//! The loop that accepts connections, and that can be told to be away.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::body::{Body, Broken};

/// What the loop is told. The sender hears when it is done.
pub(crate) enum Control {
    /// Close the port and every connection.
    Away(SyncSender<io::Result<()>>),
    /// Open the port again.
    Back(SyncSender<io::Result<()>>),
    /// Close everything, and end.
    Stop,
}

/// Accepts connections until it is told to stop, and answers requests. An error closes the connection.
pub(crate) async fn serve<A: Future<Output = Result<Response<Body>, Broken>> + Send + 'static>(
    listener: std::net::TcpListener,
    answer: impl Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    mut control: UnboundedReceiver<Control>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut listener = Some(TcpListener::from_std(listener)?);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            told = control.recv() => match told {
                Some(Control::Away(done)) => {
                    listener = None;
                    connections.shutdown().await;
                    done.send(Ok(())).ok();
                }
                Some(Control::Back(done)) if listener.is_some() => drop(done.send(Ok(()))),
                Some(Control::Back(done)) => {
                    let opened = open(address);
                    let result = opened.map(|opened| listener = Some(opened));
                    done.send(result).ok();
                }
                Some(Control::Stop) | None => return Ok(()),
            },
            Some(stream) = accept(listener.as_ref()) => {
                // What goes wrong with a connection is between its client and it.
                let connection = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer.clone()));
                connections.spawn(async { connection.await.ok() });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The next connection; none while there is no port.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    let (stream, _) = listener?.accept().await.ok()?;
    // Events are small, and each is waited for.
    stream.set_nodelay(true).ok()?;
    Some(stream)
}
