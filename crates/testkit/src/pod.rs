//! A pod: a network namespace with an interface, as CNI plugins make it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, anyhow};
use netqos_netlink::Namespace;

use crate::Node;

/// A network namespace with the interface `eth0`, addressed and routed by way of the node.
#[derive(Debug)]
pub struct Pod {
    name: String,
    number: u8,
    host_link: Option<String>,
}

impl Node {
    /// A pod with a veth: `eth0` inside, `veth-<name>` on the node. Pods reach each other and the
    /// node by IPv4 and IPv6. The name has at most ten letters.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        let (pod, ()) = self.pod_by(name, format!("veth-{name}"), |_, outside| {
            self.veth(outside, name, 1500)
        })?;
        Ok(pod)
    }

    /// A pod as [`pod`](Self::pod) makes it, whose frames may be longer or shorter than 1,500
    /// bytes.
    pub fn pod_of_mtu(&self, name: &str, mtu: u32) -> Result<Pod> {
        let (pod, ()) = self.pod_by(name, format!("veth-{name}"), |_, outside| {
            self.veth(outside, name, mtu)
        })?;
        Ok(pod)
    }

    /// A pod whose veth's end on the node is a port of this bridge, to be made before with
    /// [`bridge`](Self::bridge).
    pub fn bridged_pod(&self, name: &str, bridge: &str) -> Result<Pod> {
        let pod = self.bare_pod(name, Some(format!("veth-{name}")))?;
        self.veth(pod.host_link(), name, 1500)?;
        self.run(
            "ip",
            &["link", "set", pod.host_link(), "master", bridge, "up"],
        )?;
        let ip = |arguments: &[&str]| pod.run(self, "ip", arguments);
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "set", "eth0", "up"])?;
        ip(&[
            "addr",
            "add",
            &format!("{}/16", pod.address()),
            "dev",
            "eth0",
        ])?;
        let address6 = format!("{}/16", pod.address6());
        ip(&["-6", "addr", "add", &address6, "dev", "eth0", "nodad"])?;
        Ok(pod)
    }

    /// A bridge for pods, up.
    pub fn bridge(&self, name: &str) -> Result<()> {
        self.run("ip", &["link", "add", name, "type", "bridge"])?;
        self.run("ip", &["link", "set", name, "up"])?;
        Ok(())
    }

    fn veth(&self, outside: &str, pod: &str, mtu: u32) -> Result<()> {
        let mtu = mtu.to_string();
        self.run(
            "ip",
            &[
                "link", "add", outside, "mtu", &mtu, "type", "veth", "peer", "name", "eth0",
                "netns", pod, "mtu", &mtu,
            ],
        )?;
        Ok(())
    }

    /// A pod with an `eth0` that was made together with its end on the node, routed.
    pub(crate) fn pod_by<T>(
        &self,
        name: &str,
        host_link: String,
        make: impl FnOnce(&Pod, &str) -> Result<T>,
    ) -> Result<(Pod, T)> {
        let pod = self.bare_pod(name, Some(host_link))?;
        let outside = pod.host_link().to_owned();
        let made = make(&pod, &outside)?;
        self.run(
            "ip",
            &[
                "addr",
                "add",
                &format!("{}/32", pod.gateway()),
                "dev",
                &outside,
            ],
        )?;
        self.run(
            "ip",
            &[
                "-6",
                "addr",
                "add",
                &format!("{}/128", pod.gateway6()),
                "dev",
                &outside,
                "nodad",
            ],
        )?;
        self.run("ip", &["link", "set", &outside, "up"])?;
        self.run("ip", &["route", "add", &pod.address(), "dev", &outside])?;
        self.run(
            "ip",
            &["-6", "route", "add", &pod.address6(), "dev", &outside],
        )?;
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
        pod.address_inside(self)?;
        Ok((pod, made))
    }

    /// A pod with a macvlan, which has no end on the node. Its parent is the veth `parent`, to be
    /// made before with [`parent_link`](Self::parent_link).
    pub fn macvlan_pod(&self, name: &str, parent: &str) -> Result<Pod> {
        let pod = self.bare_pod(name, None)?;
        self.run(
            "ip",
            &[
                "link", "add", "link", parent, "name", "eth0", "netns", name, "type", "macvlan",
                "mode", "bridge",
            ],
        )?;
        let subnet = format!("10.98.0.{}/24", pod.number);
        pod.run(self, "ip", &["link", "set", "lo", "up"])?;
        pod.run(self, "ip", &["addr", "add", &subnet, "dev", "eth0"])?;
        pod.run(self, "ip", &["link", "set", "eth0", "up"])?;
        Ok(pod)
    }

    /// Takes a pod away: its veth at once, its namespace as soon as nobody is in it.
    pub fn remove_pod(&self, pod: Pod) -> Result<()> {
        if let Some(link) = &pod.host_link {
            self.run("ip", &["link", "delete", link])?;
        }
        Ok(Namespace::remove(pod.netns())?)
    }

    /// A link for macvlans to share, up.
    pub fn parent_link(&self, name: &str) -> Result<()> {
        let other = format!("{name}-peer");
        self.run(
            "ip",
            &["link", "add", name, "type", "veth", "peer", "name", &other],
        )?;
        self.run("ip", &["link", "set", name, "up"])?;
        self.run("ip", &["link", "set", &other, "up"])?;
        Ok(())
    }

    /// A namespace without interfaces, for CNI plugins to fill.
    pub fn empty_pod(&self, name: &str) -> Result<Pod> {
        self.bare_pod(name, None)
    }

    fn bare_pod(&self, name: &str, host_link: Option<String>) -> Result<Pod> {
        Namespace::create(Path::new("/run/netns").join(name))?;
        let number = fs::read_dir("/run/netns")?.count() as u8;
        Ok(Pod {
            name: name.to_owned(),
            number,
            host_link,
        })
    }
}

impl Pod {
    /// Its name, which is also its container id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that names its namespace.
    pub fn netns(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// The node's end of its veth.
    pub fn host_link(&self) -> &str {
        self.host_link.as_deref().unwrap_or_default()
    }

    /// Its IPv4 address.
    pub fn address(&self) -> String {
        match self.host_link {
            Some(_) => format!("10.99.{}.2", self.number),
            None => format!("10.98.0.{}", self.number),
        }
    }

    /// Its IPv6 address.
    pub fn address6(&self) -> String {
        format!("fd99:{:x}::2", self.number)
    }

    /// The node's IPv4 address, as it sees it.
    pub fn gateway(&self) -> String {
        format!("10.99.{}.1", self.number)
    }

    /// The node's IPv6 address, as it sees it.
    pub fn gateway6(&self) -> String {
        format!("fd99:{:x}::1", self.number)
    }

    fn address_inside(&self, node: &Node) -> Result<()> {
        let ip = |arguments: &[&str]| self.run(node, "ip", arguments);
        ip(&["link", "set", "lo", "up"])?;
        ip(&[
            "addr",
            "add",
            &format!("{}/32", self.address()),
            "dev",
            "eth0",
        ])?;
        ip(&[
            "-6",
            "addr",
            "add",
            &format!("{}/128", self.address6()),
            "dev",
            "eth0",
            "nodad",
        ])?;
        ip(&["link", "set", "eth0", "up"])?;
        ip(&["route", "add", &self.gateway(), "dev", "eth0"])?;
        ip(&["route", "add", "default", "via", &self.gateway()])?;
        ip(&["-6", "route", "add", &self.gateway6(), "dev", "eth0"])?;
        ip(&["-6", "route", "add", "default", "via", &self.gateway6()])?;
        Ok(())
    }

    /// Another veth of it, whose end inside has this name; the name of the end on the node.
    pub fn another_veth(&self, node: &Node, inside: &str) -> Result<String> {
        let outside = format!("{inside}-{}", self.name);
        node.run(
            "ip",
            &[
                "link", "add", &outside, "type", "veth", "peer", "name", inside, "netns",
                &self.name,
            ],
        )?;
        node.run("ip", &["link", "set", &outside, "up"])?;
        self.run(node, "ip", &["link", "set", inside, "up"])?;
        Ok(outside)
    }

    /// Takes the name of its namespace away, and with it the namespace; its veth, if it is there
    /// still, first, so that nothing of it is there when this returns.
    pub fn remove(&self, node: &Node) -> Result<()> {
        if let Some(link) = &self.host_link {
            let _ = node.run("ip", &["link", "del", link]);
        }
        Ok(Namespace::remove(self.netns())?)
    }

    /// Sets the largest GSO packet of both ends of its veth, in bytes.
    pub fn set_gso_max_size(&self, node: &Node, bytes: u32) -> Result<()> {
        let bytes = bytes.to_string();
        let set = |link| ["link", "set", link, "gso_max_size", &bytes];
        node.run("ip", &set(self.host_link()))?;
        self.run(node, "ip", &set("eth0"))?;
        Ok(())
    }

    /// Sets the transmit queue length of both ends of its veth, or of its only link. CNI plugins before 1.6 make links
    /// with a length of 0.
    pub fn set_tx_queue_len(&self, node: &Node, packets: u32) -> Result<()> {
        let packets = packets.to_string();
        let set = |link| ["link", "set", link, "txqueuelen", &packets];
        if let Some(link) = &self.host_link {
            node.run("ip", &set(link))?;
        }
        self.run(node, "ip", &set("eth0"))?;
        Ok(())
    }

    /// Runs a program inside of it; its output, when it succeeded.
    pub fn run(&self, node: &Node, program: &str, arguments: &[&str]) -> Result<String> {
        let _inside = Namespace::open(self.netns())?.enter()?;
        node.run(program, arguments)
    }

    /// Does something inside of it, on a thread of its own, and waits for the result.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        let path = self.netns();
        thread::scope(|scope| {
            let thread = scope.spawn(move || -> Result<T> {
                let _inside = Namespace::open(path)?.enter()?;
                Ok(act())
            });
            thread
                .join()
                .map_err(|_| anyhow!("a thread inside of {} panicked", self.name))?
        })
    }
}
