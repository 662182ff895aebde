//! A port that answers, on a thread of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::accept::{Control, serve};
use crate::body::{Body, Broken};

/// It ends with this value.
pub(crate) struct Listening {
    address: SocketAddr,
    control: UnboundedSender<Control>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Listening {
    /// Has a port of the kernel's choice answered, on the loopback of the network namespace of the thread
    /// that asks.
    ///
    /// # Errors
    /// There is no loopback, or no thread can be made.
    pub(crate) fn start<A: Future<Output = Result<Response<Body>, Broken>> + Send + 'static>(
        answer: impl Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (control, told) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("front".to_owned())
            .spawn(move || runtime.block_on(serve(listener, answer, told)))?;
        Ok(Self {
            address,
            control,
            thread: Some(thread),
        })
    }

    /// A kubeconfig, for a client that is known by this name. It is JSON, which is YAML.
    pub(crate) fn kubeconfig(&self, client: &str) -> String {
        let named = |kind: &str, value: Value| json!([{"name": "testkit", kind: value}]);
        let server = format!("http://{}", self.address);
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testkit",
            "clusters": named("cluster", json!({"server": server})),
            "users": named("user", json!({"token": client})),
            "contexts": named("context", json!({"cluster": "testkit", "user": "testkit"})),
        })
        .to_string()
    }

    /// Closes the port and every connection.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn go_away(&self) -> io::Result<()> {
        self.tell(Control::Away)
    }

    /// Listens again, on the same port.
    ///
    /// # Errors
    /// Somebody else took the port, or it has ended.
    pub(crate) fn come_back(&self) -> io::Result<()> {
        self.tell(Control::Back)
    }

    fn tell(&self, what: fn(SyncSender<io::Result<()>>) -> Control) -> io::Result<()> {
        let gone = || io::Error::other("the server is not running any more");
        let (done, heard) = sync_channel(1);
        self.control.send(what(done)).map_err(|_| gone())?;
        heard.recv().map_err(|_| gone())?
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.control.send(Control::Stop).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
