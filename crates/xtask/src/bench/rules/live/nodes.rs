//! Nodes with a kind of rules each, and pods to send from.

use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use netqos_bpf::TcxHook;
use netqos_index::Change;
use netqos_netlink::Socket as Netlink;
use netqos_testkit::{Node, Pod};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use socket2::{Domain, Protocol, Socket, Type};

use super::Case;
use super::others::Other;
use crate::bench::rules::stage::{SINK, SINK_MARK, Stage, new_node, policies, tables};

/// A thread that is a node, until this is dropped.
pub struct Standing {
    pub ways: Vec<Way>,
    _end: Sender<()>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// A socket in a pod, connected to one of the node's own that nobody reads.
pub struct Way {
    pub case: Case,
    pub socket: UdpSocket,
    /// The kernel's number for the program of rules that its packets meet.
    pub program: Option<u32>,
    _sink: UdpSocket,
}

impl Drop for Standing {
    fn drop(&mut self) {
        // Dropped before the thread is waited for, which it is the end of.
        let (end, _) = channel();
        self._end = end;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All of them: one without anything, the same again, one with pods of ours, and one for each kind
/// and number of others' rules.
pub fn build(counts: &[usize], others: &[Other]) -> Result<Vec<Standing>> {
    let mut nodes = vec![
        Standing::begin(|node| Ok(vec![Way::of(&node.pod("p")?, Case::Nothing)?]))?,
        Standing::begin(|node| Ok(vec![Way::of(&node.pod("p")?, Case::NothingAgain)?]))?,
    ];
    let ours = counts.to_vec();
    nodes.push(Standing::with_rules(ours)?);
    for &other in others {
        for &count in counts {
            nodes.push(Standing::begin(move |node| {
                let way = Way::of(&node.pod("p")?, Case::Of(other, count))?;
                other.install(node, count)?;
                Ok(vec![way])
            })?);
        }
    }
    Ok(nodes)
}

impl Standing {
    fn begin(build: impl FnOnce(&Node) -> Result<Vec<Way>> + Send + 'static) -> Result<Self> {
        Self::on_a_thread(move |ready, end| {
            let node = new_node()?;
            let ways = build(&node)?;
            ways.iter().try_for_each(Way::check)?;
            let _ = ready.send(ways);
            let _ = end.recv();
            Ok(())
        })
    }

    /// Pods with so many rules of ours, and one without.
    fn with_rules(counts: Vec<usize>) -> Result<Self> {
        Self::on_a_thread(move |ready, end| {
            let mut stage = Stage::on(new_node()?)?;
            let unruled = stage.pod("unruled", "unruled")?;
            let mut ways = vec![Way::of(&unruled, Case::Unruled)?];
            for count in counts {
                let kind = format!("rules{count}");
                let pod = stage.pod(&kind, &kind)?;
                stage.apply(policies(&kind, count).into_iter().map(Change::Policy))?;
                let link = Netlink::open()?.link_by_name(pod.host_link())?;
                let program = match TcxHook::Ingress.programs(link.index)?.first() {
                    Some(by_tcx) => *by_tcx,
                    None => tables()?.program_id()?,
                };
                ways.push(Way {
                    program: Some(program),
                    ..Way::of(&pod, Case::Rules(count))?
                });
            }
            ways.iter().try_for_each(Way::check)?;
            let _ = ready.send(ways);
            let _ = end.recv();
            Ok(())
        })
    }

    fn on_a_thread(
        act: impl FnOnce(Sender<Vec<Way>>, Receiver<()>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (ready, ways) = channel();
        let (end, ends) = channel();
        let thread = thread::spawn(move || act(ready, ends));
        match ways.recv() {
            Ok(ways) => Ok(Self {
                ways,
                _end: end,
                thread: Some(thread),
            }),
            // It has failed.
            Err(_) => match thread.join() {
                Ok(Err(why)) => Err(why),
                _ => anyhow::bail!("a node of the benchmark panicked"),
            },
        }
    }
}

impl Way {
    /// From this pod of the calling thread's node to what it sees as its gateway.
    fn of(pod: &Pod, case: Case) -> Result<Self> {
        let to = SocketAddr::new(pod.gateway().parse()?, SINK);
        let sink = UdpSocket::bind(to).with_context(|| format!("bind {to}"))?;
        // Full at once: from then on a packet is dropped where it would have been read.
        set_socket_recv_buffer_size(&sink, 1)?;
        let socket = pod.inside(|| -> Result<UdpSocket> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            Ok(socket)
        })??;
        Ok(Self {
            case,
            socket,
            program: None,
            _sink: sink,
        })
    }

    /// That its packets are marked by the rules that it stands for, and by no others. On a thread of
    /// the way's node.
    fn check(&self) -> Result<()> {
        // It shows the header.
        let mut raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
        raw.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut packet = [0; 128];
        let mut arrived = None;
        // The kernel gives a new link its queue when it comes to it, and loses what is sent before.
        for _ in 0..50 {
            self.socket.send(&[0; 64])?;
            arrived = raw.read(&mut packet).ok();
            if arrived.is_some() {
                break;
            }
        }
        let length = arrived.with_context(|| format!("{:?}: no packet arrives", self.case))?;
        let wanted = match self.case {
            Case::Nothing | Case::NothingAgain | Case::Unruled => 0,
            Case::Rules(_) | Case::Of(..) => SINK_MARK,
        };
        let mark = packet[1] >> 2;
        ensure!(
            length > 20 && mark == wanted,
            "{:?}: a packet is marked {mark} and not {wanted}",
            self.case
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::others;
    use super::*;

    #[test]
    fn packets_meet_the_rules_that_their_node_stands_for() {
        let is_possible = thread::spawn(|| Node::new().unwrap().is_some());
        if !is_possible.join().unwrap() {
            return;
        }
        let (others, absent) = others::present();
        for name in absent {
            eprintln!("skipped: {name} is not there");
        }
        let nodes = build(&[1, 20], &others).unwrap();
        let cases: Vec<Case> = nodes
            .iter()
            .flat_map(|node| &node.ways)
            .map(|way| way.case)
            .collect();
        assert_eq!(cases.len(), 3 + 2 + 2 * others.len(), "{cases:?}");
    }
}
