//! A node with the plugin, an agent that knows some NADs, and Debian's plugins.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::multinet::{About, Answer, CNI_DRIVER, Message, Nad};
use netqos_api::npwg::{AttachmentGrant, digest};
use netqos_testkit::{Call, Node, Pod};
use serde_json::{Value, json};

/// Where Debian's package has the plugins.
pub const PLUGINS: &str = "/usr/lib/cni";
/// Where tests have plugins of their own.
pub const BIN: &str = "/run/bin";
const SOCKET: &str = "/run/netqos/multinet.sock";

/// The NADs that the agent knows, by `namespace/name`.
type Nads = Arc<Mutex<BTreeMap<String, Nad>>>;

pub struct MultinetNode {
    pub node: Node,
    nads: Nads,
    asked: Arc<Mutex<usize>>,
}

/// A node; `None` when the test has to be skipped.
pub fn node() -> Option<MultinetNode> {
    MultinetNode::new()
}

/// A node with the pod `web`, which is on no network yet.
pub fn start() -> Option<(MultinetNode, Pod)> {
    let node = MultinetNode::new()?;
    let pod = node.pod("web");
    Some((node, pod))
}

impl MultinetNode {
    /// A node with an agent that knows the networks of `define_two`. `None` when the test has to be skipped.
    pub fn new() -> Option<Self> {
        for plugin in ["bridge", "macvlan", "host-local", "static", "tuning"] {
            if !Path::new(PLUGINS).join(plugin).is_file() {
                eprintln!("skipped: {PLUGINS}/{plugin} is missing (containernetworking-plugins)");
                return None;
            }
        }
        let node = Node::new().unwrap()?;
        node.parent_link("parent").unwrap();
        let it = Self {
            node,
            nads: Nads::default(),
            asked: Arc::default(),
        };
        it.define_two();
        it.start_agent();
        // The bridges stay when their last pods go; so they are there before. CHECK compares their addresses, which
        // would change with their ports.
        for (bridge, mac) in [
            ("pods0", "02:00:00:00:01:01"),
            ("data0", "02:00:00:00:01:02"),
        ] {
            it.node
                .run(
                    "ip",
                    &["link", "add", bridge, "address", mac, "type", "bridge"],
                )
                .unwrap();
        }
        Some(it)
    }

    /// Serves the messages of plugins.
    fn start_agent(&self) {
        fs::create_dir_all("/run/netqos").unwrap();
        let _ = fs::remove_file(SOCKET);
        let listener = UnixListener::bind(SOCKET).unwrap();
        let (nads, asked) = (self.nads.clone(), self.asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *asked.lock().unwrap() += 1;
                // A plugin may have been killed.
                let _ = answer(stream, &nads);
            }
        });
    }

    /// Stops the agent from being reached.
    pub fn hide_agent(&self) {
        fs::remove_file(SOCKET).unwrap();
    }

    /// The number of messages so far.
    pub fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    /// Defines a network, with all that its configuration needs permitted.
    pub fn define(&self, name: &str, config: &Value) {
        self.define_with(name, config, everything());
    }

    /// Defines a network that is permitted by its digest alone.
    pub fn define_by_digest(&self, name: &str, config: &Value) {
        self.define_with(name, config, by_digest(config));
    }

    /// Defines a network with these permissions.
    pub fn define_with(&self, name: &str, config: &Value, grant: AttachmentGrant) {
        self.define_nad(name, nad(Some(config), grant));
    }

    /// Has the agent answer this about a network.
    pub fn define_nad(&self, name: &str, nad: Nad) {
        self.nads.lock().unwrap().insert(name.to_owned(), nad);
    }

    /// Lets the agent name this device of the resource for the network.
    pub fn give_device(&self, name: &str, resource: &str, device: &str) {
        if let Some(nad) = self.nads.lock().unwrap().get_mut(name) {
            nad.resource_name = Some(resource.to_owned());
            nad.device = Some(device.to_owned());
        }
    }

    /// The networks `shop/lan` (bridge, host-local) and `shop/wire` (macvlan, static, tuning).
    fn define_two(&self) {
        self.define("shop/lan", &bridge("data0", "10.88.0.0/24"));
        self.define(
            "shop/wire",
            &json!({"cniVersion": "1.0.0", "name": "wire", "plugins": [
                {"type": "macvlan", "master": "parent", "mode": "bridge", "capabilities": {"ips": true},
                 "ipam": {"type": "static"}},
                {"type": "tuning", "capabilities": {"mac": true}},
            ]}),
        );
    }

    /// A pod without interfaces.
    pub fn pod(&self, name: &str) -> Pod {
        self.node.empty_pod(name).unwrap()
    }

    /// What a command, its words apart by spaces, prints in a pod.
    pub fn in_pod(&self, pod: &Pod, command: &str) -> String {
        let words: Vec<_> = command.split(' ').collect();
        pod.run(&self.node, words[0], &words[1..]).unwrap()
    }

    /// Removes a pod's network namespace.
    pub fn remove(&self, pod: &Pod) {
        pod.remove(&self.node).unwrap();
    }

    /// ADD of a pod with this selection, which must succeed.
    pub fn add(&self, pod: &Pod, networks: Option<&str>) -> Value {
        let add = self.call("ADD", pod, networks, json!({}));
        add.succeed().unwrap()
    }

    /// ADD of a pod with this selection, which must fail: the code and the message.
    pub fn refuse(&self, pod: &Pod, networks: Option<&str>) -> (u64, String) {
        let add = self.call("ADD", pod, networks, json!({}));
        add.fail().unwrap()
    }

    /// CHECK of a pod, which must succeed.
    pub fn check(&self, pod: &Pod) {
        let check = self.call("CHECK", pod, None, json!({}));
        check.succeed().unwrap();
    }

    /// DEL of a pod, which must succeed.
    pub fn del(&self, pod: &Pod) {
        let del = self.call("DEL", pod, None, json!({}));
        del.succeed().unwrap();
    }

    /// A call of the plugin for a pod with this selection of networks; `more` goes over the configuration.
    pub fn call(&self, command: &str, pod: &Pod, networks: Option<&str>, more: Value) -> Call {
        let annotations: BTreeMap<&str, &str> = networks
            .iter()
            .map(|it| ("k8s.v1.cni.cncf.io/networks", *it))
            .collect();
        let mut config = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "type": "netqos-multinet",
            "defaultNetwork": {"cniVersion": "1.0.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": "pods0", "isGateway": true,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.0.0/24"}]]}},
            ]},
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
        });
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let ours = Path::new(env!("CARGO_BIN_EXE_bandwidth")).parent().unwrap();
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={0};K8S_POD_INFRA_CONTAINER_ID={0};K8S_POD_UID=u",
            pod.name()
        );
        Call::of(env!("CARGO_BIN_EXE_netqos-multinet"), command, pod, &config)
            .variable("CNI_PATH", &format!("{}:{PLUGINS}", ours.display()))
            .variable("CNI_ARGS", &args)
            .variable("PATH", &std::env::var("PATH").unwrap())
    }

    /// Waits until nothing but this is on the node: the kernel removes the links of a namespace some time after it.
    pub fn assert_only(&self, inventory: &[String]) {
        wait_until(|| self.inventory() == inventory);
        assert_eq!(self.inventory(), inventory);
    }

    /// What is on the node beside the agent: links, addresses that are taken, records, results.
    pub fn inventory(&self) -> Vec<String> {
        self.node.inventory().unwrap()
    }
}

/// A NAD as the agent answers it.
pub fn nad(config: Option<&Value>, grant: AttachmentGrant) -> Nad {
    Nad {
        driver: CNI_DRIVER.to_owned(),
        resource_version: "1".to_owned(),
        config: config.map(ToString::to_string),
        resource_name: None,
        device: None,
        policies: BTreeMap::from([("all".to_owned(), "1".to_owned())]),
        grant,
    }
}

/// Permission of all that a configuration can name, but for paths.
pub fn everything() -> AttachmentGrant {
    let all = || ["*".to_owned()].into();
    AttachmentGrant {
        plugin_types: all(),
        masters: all(),
        devices: all(),
        host_keys: all(),
        ..AttachmentGrant::default()
    }
}

/// Permission by the configuration's digest.
pub fn by_digest(config: &Value) -> AttachmentGrant {
    AttachmentGrant {
        digests: [digest(&config.to_string())].into(),
        ..AttachmentGrant::default()
    }
}

/// The configuration of a bridge whose pods have addresses of this subnet.
pub fn bridge(name: &str, subnet: &str) -> Value {
    json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": name,
           "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]]}})
}

/// What the plugin keeps of a pod.
pub fn record(pod: &str) -> Value {
    let path = format!("/var/lib/netqos/multinet/pods/{pod}.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Does this for all of them, ten at once, as a runtime does with a node full of pods.
pub fn ten_at_once<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    for some in all.chunks(10) {
        thread::scope(|scope| {
            for one in some {
                scope.spawn(|| act(one));
            }
        });
    }
}

/// Writes a plugin.
pub fn write_script(name: &str, text: &str) {
    fs::create_dir_all(BIN).unwrap();
    let path = Path::new(BIN).join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Waits until this is true, at most ten seconds.
pub fn wait_until(is_true: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_true() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
}

fn answer(stream: UnixStream, nads: &Nads) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let message: Message = serde_json::from_str(&line)?;
    let answer = match message.about {
        About::Annotations => Answer::TryAgain("the pod is not known yet".to_owned()),
        About::Nads(names) => {
            let known = nads.lock().unwrap();
            let found = names.iter().map(|it| {
                let name = format!("{}/{}", it.namespace, it.name);
                known.get(&name).cloned().ok_or(name)
            });
            match found.collect::<Result<Vec<_>, _>>() {
                Ok(nads) => Answer::Nads(nads),
                Err(name) => Answer::Refused(format!("no NetworkAttachmentDefinition {name}")),
            }
        }
    };
    let mut stream = stream;
    stream.write_all(&serde_json::to_vec(&answer)?)?;
    stream.write_all(b"\n")
}
