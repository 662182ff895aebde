//! A node with pods, an agent on it, and eyes on the wire.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, mem, thread};

use netqos_agent::{PodStatus, Status, client};
use netqos_core::{BitRate, Limit};
use netqos_datapath::Shape;
use netqos_netlink::qdisc::Tbf;
use netqos_netlink::{Handle, Socket as Netlink};
use netqos_traffic::{Flow as Direction, Server, TcpReport, TcpTest};
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Node, Pod};

/// The folders of a node of the tests' own.
pub const MANIFESTS: &str = "/run/objects";
pub const RUN: &str = "/run/netqos";
pub const MULTINET_SOCKET: &str = "/run/netqos/multinet.sock";
pub const CACHE: &str = "/var/lib/cni/results";
/// What the agent that was started last has logged.
const LOG: &str = "/run/agent.log";
/// Where datagrams are received.
pub const PORT: u16 = 5000;
/// What takes longer has failed.
/// After errors in a row a watch waits for 30 s, and for as much again at random.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node with an empty folder of manifests. `None`: skipped.
pub fn node() -> Option<Node> {
    let node = Node::new().unwrap()?;
    fs::create_dir_all(MANIFESTS).unwrap();
    fs::create_dir_all(CACHE).unwrap();
    Some(node)
}

/// An agent, which is killed when it is let go.
pub struct Agent(Child);

impl Agent {
    /// Starts it, and waits until it is ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(more: &[&str]) -> Self {
        let agent = Self::spawn(more);
        agent.wait_until_ready();
        agent
    }

    pub fn wait_until_ready(&self) {
        let ready = || {
            matches!(
                client::request(Path::new(RUN), "GET", "/readyz", ""),
                Ok((200, _))
            )
        };
        assert!(eventually(ready), "it does not become ready: {}", log());
    }

    pub fn spawn(more: &[&str]) -> Self {
        Self::spawn_in(more, &[])
    }

    /// With these variables in its environment.
    pub fn spawn_where(variables: &[(&str, &str)]) -> Self {
        Self::spawn_in(&[], variables)
    }

    fn spawn_in(more: &[&str], variables: &[(&str, &str)]) -> Self {
        let objects = ["--node", "node1", "--manifests", MANIFESTS];
        Self::spawn_on(&objects, more, variables)
    }

    /// As the node, and on the objects, that these arguments say.
    pub fn spawn_on(objects: &[&str], more: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(executable());
        command.args(["--log-level", "debug"]);
        command.args(objects).args(more);
        Self::spawn_by(command.envs(variables.iter().copied()))
    }

    /// By a command that becomes it.
    pub fn spawn_by(command: &mut Command) -> Self {
        fs::write(LOG, "").unwrap();
        let log = fs::File::options().append(true).open(LOG).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it without a word.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Tells it to end, and its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }

    /// How it ends by itself.
    pub fn ends(mut self) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        if std::env::var_os("NETQOS_TEST_LOG").is_some() {
            eprintln!("{}", log());
        }
    }
}

/// The agent that `NETQOS_TEST_AGENT` names, or that these tests were built with.
pub fn executable() -> PathBuf {
    let named = std::env::var_os("NETQOS_TEST_AGENT").map(PathBuf::from);
    named.unwrap_or_else(|| crate::executable("netqos-agent", "netqos-agent").unwrap())
}

/// What the agent that was started last has logged, from its start on.
pub fn log() -> String {
    fs::read_to_string(LOG).unwrap()
}

/// True when all of these words are in one line of it.
pub fn has_logged(words: &[&str]) -> bool {
    let log = log();
    let mut lines = log.lines();
    lines.any(|line| words.iter().all(|word| line.contains(word)))
}

/// What the agent says.
pub fn status() -> Status {
    serde_json::from_str(&ask("/v1/status")).unwrap()
}

/// What it says of a pod.
pub fn pod_status(name: &str) -> Option<PodStatus> {
    status().pods.into_iter().find(|pod| pod.name == name)
}

/// An answer of the agent's, which must be well.
pub fn ask(path: &str) -> String {
    let (code, body) = answer(path);
    assert_eq!(code, 200, "{path}: {body}");
    body
}

/// An answer of the agent's, once its engine gives one: that of a busy machine may need longer than the agent's server
/// waits for it, which is 5 s.
pub fn answer(path: &str) -> (u16, String) {
    let began = Instant::now();
    loop {
        let (code, body) = client::request(Path::new(RUN), "GET", path, "").unwrap();
        if !body.contains("the engine is busy") || began.elapsed() > PATIENCE {
            return (code, body);
        }
    }
}

/// An answer of the agent to a message of `netqos-multinet`.
pub fn ask_multinet(message: &[u8]) -> netqos_api::multinet::Answer {
    let mut stream = UnixStream::connect(MULTINET_SOCKET).unwrap();
    stream.write_all(message).unwrap();
    stream.write_all(b"\n").unwrap();
    let mut line = String::new();
    stream.read_to_string(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

pub fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if began.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Puts an object into the folder at once, as one should.
pub fn put(file: &str, text: &str) {
    let fresh = Path::new(MANIFESTS).join(".new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, Path::new(MANIFESTS).join(file)).unwrap();
}

/// A pod's object, with annotations.
pub fn manifest(pod: &Pod, annotations: serde_json::Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name(), "namespace": "games", "labels": {"app": pod.name()},
            "annotations": annotations,
        },
        "spec": {"nodeName": "node1"},
        "status": {"podIP": pod.address(), "podIPs": [{"ip": pod.address()}]},
    })
    .to_string()
}

/// A policy for the pods of one app, with these rules in YAML.
pub fn policy(name: &str, app: &str, rules: &str) -> String {
    format!(
        "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\n\
         metadata: {{name: {name}, namespace: games}}\n\
         spec: {{priority: 1, podSelector: {{matchLabels: {{app: {app}}}}}, egress: {rules}}}\n"
    )
}

/// What a runtime remembers of a pod that it has added, with what it gave to the plugins.
pub fn remember(pod: &Pod, capabilities: serde_json::Value) {
    remember_as(pod, "", capabilities);
}

/// The same of a pod that the runtime knows by this uid.
pub fn remember_as(pod: &Pod, uid: &str, capabilities: serde_json::Value) {
    remember_sandbox(pod, pod.name(), uid, capabilities);
}

/// The same of a sandbox of a pod that has another name.
pub fn remember_sandbox(pod: &Pod, name: &str, uid: &str, capabilities: serde_json::Value) {
    let text = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "config": "", "ifName": "eth0",
        "networkName": "net", "netns": pod.netns(),
        "cniArgs": [["K8S_POD_NAMESPACE", "games"], ["K8S_POD_NAME", name], ["K8S_POD_UID", uid]],
        "capabilityArgs": capabilities,
        "result": {"cniVersion": "1.1.0", "ips": [{"address": format!("{}/32", pod.address())}]},
    });
    // As libcni does: not by renaming.
    fs::write(remembered(pod), text.to_string()).unwrap();
}

pub fn remembered(pod: &Pod) -> PathBuf {
    Path::new(CACHE).join(format!("net-{}-eth0", pod.name()))
}

/// A line, by which the default route leaves.
pub fn line(node: &Node) {
    for command in [
        "link add up0 type veth peer name far0",
        "link set up0 up",
        "link set far0 up",
        "address add 192.0.2.2/24 dev up0",
        "route add default via 192.0.2.1 dev up0",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        node.run("ip", &words).unwrap();
    }
}

/// Pods that send, and one that is looked at.
pub fn pods(node: &Node) -> (Pod, Pod) {
    let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
    for pod in [&a, &b] {
        remember(pod, json!({}));
    }
    (a, b)
}

/// A server for traffic tests in this pod.
pub fn serve(pod: &Pod) -> Server {
    let address = SocketAddr::new(pod.address().parse().unwrap(), 0);
    pod.inside(|| Server::bind(address)).unwrap().unwrap()
}

/// The rate at which a pod downloads by TCP.
pub fn download(pod: &Pod, server: &Server, time: Duration) -> BitRate {
    let test = TcpTest {
        flow: Direction::Download,
        omit: Duration::from_millis(200),
        duration: time,
        congestion_control: Some("cubic".to_owned()),
        ..TcpTest::new(server.local_addr())
    };
    let report = pod.inside(|| test.run(|_| ())).unwrap().unwrap();
    report.goodput.rate
}

/// Makes the queue of a pod with a limit of 10 Mbit/s stop under a load from `other`, until the agent has emptied it.
/// The queue takes packets with a larger bucket than the limit's. Returns what the load was.
pub fn stall_queue(pod: &Pod, other: &Pod) -> TcpReport {
    let mut socket = Netlink::open().unwrap();
    let link = socket.link_by_name(pod.host_link()).unwrap();
    let limit = Limit::of(BitRate::from_bits_per_second(10_000_000));
    let right = Shape::new(&limit, &link).tbf();
    let slow = Tbf {
        rate: 12_500,
        burst: 20_000,
        largest: 20_000,
        limit: 1_000_000,
    };
    let root = Handle::new(1, 0);
    let mut put = |tbf: &Tbf| socket.put_qdisc(&link, Handle::ROOT, root, tbf).unwrap();
    let address: SocketAddr = format!("{}:0", other.address()).parse().unwrap();
    let server = other.inside(|| Server::bind(address)).unwrap().unwrap();
    // The first packet of a connection has ten segments.
    let bulk = TcpTest {
        flow: Direction::Download,
        streams: 8,
        omit: Duration::ZERO,
        duration: Duration::from_secs(2),
        ..TcpTest::new(server.local_addr())
    };
    let run = || pod.inside(|| bulk.run(|_| ())).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // As long as it takes, and once more.
        let bulk = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let _ = run();
            }
            run()
        });
        let is_emptied = || status().reconciled.queues_emptied > 0;
        // Whether a packet waits just then that is too large is a matter of chance.
        let stalls = (0..30).any(|_| {
            put(&slow);
            thread::sleep(Duration::from_millis(40));
            put(&right);
            let changed = Instant::now();
            while !is_emptied() && changed.elapsed() < Duration::from_secs(1) {
                thread::sleep(Duration::from_millis(10));
            }
            is_emptied()
        });
        is_over.store(true, Ordering::SeqCst);
        assert!(stalls, "no queue was emptied\n{}", log());
        bulk.join().unwrap().unwrap()
    })
}

/// Datagrams on their way, one every so often, from one pod to another.
pub struct Flow {
    stop: Arc<AtomicBool>,
    seen: Receiver<Seen>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at: Instant,
    pub number: u32,
    pub dscp: u8,
}

impl Flow {
    pub fn begin(from: &Pod, to: &Pod, every: Duration) -> Self {
        let address = SocketAddr::new(to.address().parse().unwrap(), PORT);
        Self::begin_by(from, address, to, every)
    }

    /// The same by way of an address that is not the pod's own.
    pub fn begin_by(from: &Pod, address: SocketAddr, to: &Pod, every: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, seen) = channel();
        // A raw socket shows the header, with the mark.
        let eyes = to
            .inside(|| {
                let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
                raw.set_read_timeout(Some(Duration::from_millis(50)))
                    .unwrap();
                raw.set_recv_buffer_size(1 << 20).unwrap();
                // Nobody's port is answered with an ICMP message.
                let port = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
                // A process that is just being started may still have that of the flow before.
                port.set_reuse_address(true).unwrap();
                let any = SocketAddr::from(([0; 4], PORT));
                port.bind(&any.into()).unwrap();
                (raw, port)
            })
            .unwrap();
        let mouth = from
            .inside(|| UdpSocket::bind("0.0.0.0:0").unwrap())
            .unwrap();
        let (stopped, stopped_too) = (stop.clone(), stop.clone());
        let watches = thread::spawn(move || {
            let (mut raw, _port) = eyes;
            let mut packet = [0_u8; 2048];
            let mut quiet = 0;
            // What is on its way when it stops is waited for.
            while quiet < 4 {
                match raw.read(&mut packet) {
                    Ok(length) if length >= 32 => {
                        let bytes = packet[28..32].try_into().unwrap();
                        let _ = sender.send(Seen {
                            at: Instant::now(),
                            number: u32::from_be_bytes(bytes),
                            dscp: packet[1] >> 2,
                        });
                    }
                    _ if stopped.load(Ordering::SeqCst) => quiet += 1,
                    _ => {}
                }
            }
        });
        let talks = thread::spawn(move || {
            for number in 0_u32.. {
                if stopped_too.load(Ordering::SeqCst) {
                    break;
                }
                mouth.send_to(&number.to_be_bytes(), address).unwrap();
                thread::sleep(every);
            }
        });
        Self {
            stop,
            seen,
            threads: vec![watches, talks],
        }
    }

    /// Waits for a datagram of this mark.
    pub fn wait_for(&self, dscp: u8) -> Seen {
        self.wait(dscp, |_| ())
    }

    /// The same; all that arrive until then have the other mark.
    pub fn wait_for_after(&self, before: u8, dscp: u8) -> Seen {
        self.wait(dscp, |seen| assert_eq!(seen.dscp, before, "{seen:?}"))
    }

    /// What arrives until a datagram of this mark does, that one too.
    pub fn seen_until(&self, dscp: u8) -> Vec<Seen> {
        let mut seen = Vec::new();
        let last = self.wait(dscp, |other| seen.push(other));
        seen.push(last);
        seen
    }

    fn wait(&self, dscp: u8, mut other: impl FnMut(Seen)) -> Seen {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.seen.recv_timeout(PATIENCE) {
                Ok(seen) if seen.dscp == dscp => return seen,
                Ok(seen) => other(seen),
                Err(_) => break,
            }
        }
        panic!("no datagram of DSCP {dscp} arrives");
    }

    /// Waits until this many more have arrived, and ends it; those, and what arrived besides.
    pub fn end_after(self, many: usize) -> Vec<Seen> {
        let next = || self.seen.recv_timeout(PATIENCE).unwrap();
        let mut seen: Vec<Seen> = std::iter::repeat_with(next).take(many).collect();
        seen.extend(self.end());
        seen
    }

    /// Ends it; what arrived and was not waited for.
    pub fn end(mut self) -> Vec<Seen> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in mem::take(&mut self.threads) {
            thread.join().unwrap();
        }
        self.seen.try_iter().collect()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// The marks of datagrams, each once for as long as they carried it.
pub fn marks(seen: &[Seen]) -> Vec<u8> {
    let mut marks: Vec<u8> = seen.iter().map(|it| it.dscp).collect();
    marks.dedup();
    marks
}

/// Asserts that none is missing.
pub fn assert_no_loss(seen: &[Seen]) {
    assert!(seen.len() > 50, "only {} arrived", seen.len());
    let lost: Vec<_> = seen
        .windows(2)
        .filter(|pair| pair[1].number != pair[0].number + 1)
        .collect();
    assert!(lost.is_empty(), "lost between {lost:?}");
}
