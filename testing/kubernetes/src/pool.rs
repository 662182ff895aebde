//! Servers that one test after the other borrows.

use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Instant;
use std::{io, thread};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::baseline::{Baseline, Reset};
use crate::install::install;
use crate::relay::Relay;
use crate::{ApiServer, Etcd, host};

/// A server that is one test's alone, with the CRDs, accounts and roles of netqos, until this value is dropped.
pub struct Lease {
    // None only while it is dropped.
    server: Option<Prepared>,
    relay: Option<Relay>,
    etcd_relay: Option<Relay>,
}

/// A server in its baseline.
struct Prepared {
    server: ApiServer,
    baseline: Baseline,
}

enum Order {
    Lend(oneshot::Sender<anyhow::Result<Prepared>>),
    Return(Box<Prepared>),
}

impl Lease {
    /// Takes a server that is ready, or starts one.
    ///
    /// # Errors
    /// Returns an error if no server can be started: see [`ApiServer::start`].
    pub async fn take() -> anyhow::Result<Self> {
        let (answer, answered) = oneshot::channel();
        orders()?
            .send(Order::Lend(answer))
            .ok()
            .context("the pool of API servers has ended")?;
        let server = answered
            .await
            .context("the pool of API servers has ended")??;
        let relay = match host::is_here()? {
            true => None,
            false => Some(Relay::start(server.server.port())?),
        };
        Ok(Self {
            server: Some(server),
            relay,
            etcd_relay: None,
        })
    }

    /// A kubeconfig of an administrator, for the network namespace of the thread that took the server.
    pub fn kubeconfig(&self) -> String {
        let Some(Prepared { server, .. }) = &self.server else {
            return String::new();
        };
        let port = self.relay.as_ref().map_or(server.port(), Relay::port);
        server.kubeconfig(port)
    }

    /// A client of etcd, which takes objects past the checks of the API server.
    ///
    /// # Errors
    /// Returns an error if the calling thread's network namespace has no loopback.
    pub fn etcd(&mut self) -> anyhow::Result<Etcd> {
        let prepared = self.server.as_ref();
        let port = prepared.map_or(0, |it| it.server.etcd_port());
        let port = match self.relay {
            None => port,
            Some(_) => self.etcd_relay.insert(Relay::start(port)?).port(),
        };
        Etcd::at(port)
    }

    /// The version of the server, such as `v1.37.2`.
    pub fn version(&self) -> &str {
        self.server.as_ref().map_or("", |it| it.server.version())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        // A test that failed for this reason says so.
        if let Err(error) = server.server.check() {
            eprintln!("the API server ended during this test: {error:#}");
            return;
        }
        if let Ok(orders) = orders() {
            orders.send(Order::Return(Box::new(server))).ok();
        }
    }
}

/// The way to the thread that starts servers, which lives as long as the process: a server is killed
/// with the thread that starts it.
fn orders() -> anyhow::Result<mpsc::Sender<Order>> {
    static POOL: OnceLock<Mutex<Option<mpsc::Sender<Order>>>> = OnceLock::new();
    let pool = POOL.get_or_init(Mutex::default);
    let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(orders) = &*pool {
        return Ok(orders.clone());
    }
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("api-servers".to_owned())
        .spawn(move || keep(&receiver))?;
    *pool = Some(sender.clone());
    Ok(sender)
}

fn keep(orders: &mpsc::Receiver<Order>) {
    let runtime = host::enter().and_then(|()| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    });
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(orders, &error),
    };
    let mut idle: Vec<Prepared> = Vec::new();
    // Once a server had to be replaced, the next one is started ahead.
    let mut ahead = false;
    loop {
        let order = match orders.try_recv() {
            Err(mpsc::TryRecvError::Empty) if ahead && idle.is_empty() => {
                match runtime.block_on(prepare()) {
                    Ok(server) => idle.push(server),
                    Err(error) => {
                        eprintln!("cannot start an API server ahead: {error:#}");
                        ahead = false;
                    }
                }
                continue;
            }
            Ok(order) => order,
            Err(_) => match orders.recv() {
                Ok(order) => order,
                Err(mpsc::RecvError) => return,
            },
        };
        match order {
            Order::Lend(answer) => {
                let server = match idle.pop() {
                    Some(server) => Ok(server),
                    None => runtime.block_on(prepare()),
                };
                // A test that does not wait any longer gives it back.
                if let Err(Ok(server)) = answer.send(server) {
                    idle.push(server);
                }
            }
            Order::Return(mut server) => match runtime.block_on(server.reset()) {
                Ok(Reset::Done) => idle.push(*server),
                Ok(Reset::Replace) => ahead = true,
                Err(error) => eprintln!("cannot reset the API server, took another: {error:#}"),
            },
        }
    }
}

fn refuse(orders: &mpsc::Receiver<Order>, error: &io::Error) {
    for order in orders {
        if let Order::Lend(answer) = order {
            answer
                .send(Err(anyhow::anyhow!("cannot start API servers: {error}")))
                .ok();
        }
    }
}

impl Prepared {
    async fn reset(&mut self) -> anyhow::Result<Reset> {
        self.server.check()?;
        self.baseline.restore(&self.server.etcd()?).await
    }
}

async fn prepare() -> anyhow::Result<Prepared> {
    let began = Instant::now();
    let server = ApiServer::start().await?;
    install(&server.client()?).await?;
    let baseline = Baseline::take(&server.etcd()?).await?;
    eprintln!(
        "kube-apiserver {} was ready after {:.1} s",
        server.version(),
        began.elapsed().as_secs_f64()
    );
    Ok(Prepared { server, baseline })
}
