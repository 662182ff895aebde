//! Packets from pod to pod, whose marks are looked at.

use std::io::Read as _;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use netqos_testkit::Pod;
use socket2::{Domain, Protocol, Socket, Type};

const PORT: u16 = 5000;
/// Between two packets: what the figures are wrong by, at most.
const EVERY: Duration = Duration::from_micros(100);
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Packets on their way, and the moments at which their mark became another.
pub struct Flow {
    stop: Arc<AtomicBool>,
    marks: Receiver<(Instant, u8)>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    /// From one pod to another, from now on.
    pub fn begin(from: &Pod, to: &Pod) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, marks) = channel();
        let (mut raw, port) = to.inside(|| -> Result<(Socket, UdpSocket)> {
            // A raw socket shows the header, with the mark; the other has the port, so that nothing
            // is answered.
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
            raw.set_read_timeout(Some(Duration::from_millis(50)))?;
            Ok((raw, UdpSocket::bind(("0.0.0.0", PORT))?))
        })??;
        let mouth = from.inside(|| UdpSocket::bind("0.0.0.0:0"))??;
        mouth.connect(format!("{}:{PORT}", to.address()))?;
        let (watched, talked) = (stop.clone(), stop.clone());
        let watches = thread::spawn(move || {
            let _port = port;
            let mut packet = [0_u8; 2048];
            let mut last = None;
            while !watched.load(Ordering::Relaxed) {
                if raw.read(&mut packet).is_ok_and(|length| length >= 20) {
                    let mark = packet[1] >> 2;
                    if last.replace(mark) != Some(mark) {
                        let _ = sender.send((Instant::now(), mark));
                    }
                }
            }
        });
        let talks = thread::spawn(move || {
            while !talked.load(Ordering::Relaxed) {
                let _ = mouth.send(&[0; 64]);
                thread::sleep(EVERY);
            }
        });
        Ok(Self {
            stop,
            marks,
            threads: vec![watches, talks],
        })
    }

    /// When the first packet of this mark arrived.
    pub fn wait_for(&self, wanted: u8) -> Result<Instant> {
        loop {
            match self.marks.recv_timeout(PATIENCE) {
                Ok((at, mark)) if mark == wanted => return Ok(at),
                Ok(_) => {}
                Err(why) => bail!(anyhow!(why).context(format!("no packet is marked {wanted}"))),
            }
        }
    }

    /// Sends no more.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
