//! Pods that send and receive.

use std::io::Read as _;
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use netqos_kubernetes::cluster::Kubectl;
use serde_json::{Value, json};

use crate::context::{Context, eventually};

/// The time for connections to begin and bursts to end.
const SETTLED: Duration = Duration::from_secs(2);
/// The time over which rates are measured.
pub const WINDOW: Duration = Duration::from_secs(3);
/// Reads any amount of data on the one port, and sends zeros on the other.
const SERVE: &str = "\
nc -ll -p 5001 -e sh -c 'cat >/dev/null' &
nc -ll -p 5002 -e cat /dev/zero &
wait";
/// Prints the bytes that eth0 has received, and the time in seconds, before and after $1 seconds.
const MEASURE: &str = "\
read now _ </proc/uptime; before=$(cat /sys/class/net/eth0/statistics/rx_bytes)
sleep $1
read end _ </proc/uptime; after=$(cat /sys/class/net/eth0/statistics/rx_bytes)
echo $before $now $after $end";

/// Sends to and receives from $1 over TCP. Prints the bytes that eth0 received and sent from the second second on, and
/// the time in seconds.
const MEASURE_BOTH: &str = "\
nc $1 5001 </dev/zero & sender=$!
nc $1 5002 </dev/null >/dev/null & receiver=$!
sleep 1
cd /sys/class/net/eth0/statistics
read began _ </proc/uptime; received=$(cat rx_bytes) sent=$(cat tx_bytes)
sleep 3
read ended _ </proc/uptime
echo $received $sent $began $(cat rx_bytes) $(cat tx_bytes) $ended
kill $sender $receiver";

/// A pod that runs.
#[derive(Clone, Debug)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub address: IpAddr,
    /// Its address of the other family, if it has one.
    pub other_address: Option<IpAddr>,
}

/// A pod that is to be made.
pub struct Template<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub node: &'a str,
    pub labels: Value,
    pub annotations: Value,
}

impl<'a> Template<'a> {
    /// A pod without annotations.
    pub fn plain(namespace: &'a str, name: &'a str, node: &'a str) -> Self {
        Self {
            namespace,
            name,
            node,
            labels: json!({}),
            annotations: json!({}),
        }
    }

    /// A pod with the annotations of limits of 10 Mbit/s.
    pub fn limited(namespace: &'a str, name: &'a str, node: &'a str) -> Self {
        Self {
            annotations: limits(),
            ..Self::plain(namespace, name, node)
        }
    }

    /// The object.
    pub fn manifest(&self, image: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self.namespace,
                "name": self.name,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": spec(image, json!({"kubernetes.io/hostname": self.node})),
        })
    }
}

/// The annotations of limits of 10 Mbit/s in both directions.
pub fn limits() -> Value {
    json!({
        "kubernetes.io/ingress-bandwidth": "10M",
        "kubernetes.io/egress-bandwidth": "10M",
    })
}

/// The spec of a pod that sends and receives.
pub fn spec(image: &str, node_selector: Value) -> Value {
    json!({
        "nodeSelector": node_selector,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "main",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", SERVE],
        }],
    })
}

/// Creates pods, with their namespaces, and waits until they are Ready.
pub fn create(context: &Context, templates: &[Template]) -> anyhow::Result<Vec<Pod>> {
    let kubectl = context.kubectl();
    let mut items: Vec<Value> = Vec::new();
    for template in templates {
        items.push(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": template.namespace},
        }));
        let mut pod = template.manifest(&context.pod_image);
        if let (Some(image), Some(containers)) = (
            &context.measuring_image,
            pod["spec"]["containers"].as_array_mut(),
        ) {
            // In the sandbox it chooses the congestion control of its sockets.
            let capabilities: &[&str] = match context.machine {
                Some(_) => &["NET_ADMIN"],
                None => &[],
            };
            containers.push(json!({
                "name": "netqos",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/netqos", "traffic", "serve"],
                "securityContext": {"capabilities": {"add": capabilities}},
            }));
        }
        items.push(pod);
    }
    // Where a namespace is new, so is its ServiceAccount.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    eventually(Duration::from_secs(60), || kubectl.apply(&list))?;
    let ready = |it: &Template| find(kubectl, it.namespace, it.name);
    templates.iter().map(ready).collect()
}

/// Waits until a pod is Ready.
pub fn find(kubectl: &Kubectl, namespace: &str, name: &str) -> anyhow::Result<Pod> {
    let pod = format!("pod/{name}");
    let wait = format!("wait --for=condition=Ready --timeout=120s {pod}");
    kubectl.line_in(namespace, &wait)?;
    let pod = kubectl.json(&["-n", namespace, "get", &pod])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let address = |index: usize| text(&pod["status"]["podIPs"][index]["ip"]).parse();
    Ok(Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        node: text(&pod["spec"]["nodeName"]),
        address: address(0).context("the pod has no address")?,
        other_address: address(1).ok(),
    })
}

/// A command in a pod, which ends with this value: its shell kills it once its standard input ends.
pub struct Flow(Child);

impl Drop for Flow {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

impl Pod {
    /// The pod's address of the family of another address.
    pub fn address_to(&self, other: IpAddr) -> anyhow::Result<IpAddr> {
        let mut own = [Some(self.address), self.other_address]
            .into_iter()
            .flatten();
        own.find(|it| it.is_ipv4() == other.is_ipv4())
            .with_context(|| format!("{} has no address of the family of {other}", self.name))
    }

    /// Executes a command of the shell in the pod, and returns what it prints.
    pub fn shell(&self, kubectl: &Kubectl, command: &str) -> anyhow::Result<String> {
        kubectl.run(&[
            "-n",
            &self.namespace,
            "exec",
            &self.name,
            "--",
            "/bin/sh",
            "-c",
            command,
        ])
    }

    /// Begins a command of the shell in the pod. Returns once its rate has settled.
    pub fn begin(&self, kubectl: &Kubectl, command: &str) -> anyhow::Result<Flow> {
        let mut exec = kubectl.command();
        exec.args(["-n", &self.namespace, "exec", "-i", &self.name, "--"]);
        exec.args(["/bin/sh", "-c"]);
        exec.arg(format!("{command} & cat >/dev/null; kill $!"));
        exec.stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut flow = Flow(exec.spawn()?);
        std::thread::sleep(SETTLED);
        if let Some(status) = flow.0.try_wait()? {
            let mut why = String::new();
            if let Some(stderr) = &mut flow.0.stderr {
                stderr.read_to_string(&mut why)?;
            }
            bail!("{}: {command}: {status}: {}", self.name, why.trim());
        }
        Ok(flow)
    }

    /// Sends to an address over TCP.
    pub fn send(&self, kubectl: &Kubectl, to: &str) -> anyhow::Result<Flow> {
        self.begin(kubectl, &format!("nc {to} 5001 </dev/zero"))
    }

    /// Has an address send to the pod over TCP.
    pub fn fetch(&self, kubectl: &Kubectl, from: &str) -> anyhow::Result<Flow> {
        self.begin(kubectl, &format!("nc {from} 5002 </dev/null >/dev/null"))
    }

    /// The rate that the pod's interface receives, in Mbit/s.
    pub fn receives(&self, kubectl: &Kubectl) -> anyhow::Result<f64> {
        self.receives_over(kubectl, WINDOW)
    }

    /// The rate that the pod's interface receives over this time of whole seconds, in Mbit/s.
    pub fn receives_over(&self, kubectl: &Kubectl, time: Duration) -> anyhow::Result<f64> {
        let script = MEASURE.replace("$1", &time.as_secs().to_string());
        let [before, began, after, ended] = self.numbers(kubectl, &script)?;
        Ok((after - before) * 8.0 / (ended - began) / 1e6)
    }

    /// The numbers that a script prints in the pod.
    fn numbers<const N: usize>(&self, kubectl: &Kubectl, script: &str) -> anyhow::Result<[f64; N]> {
        let text = self.shell(kubectl, script)?;
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let numbers = <[f64; N]>::try_from(numbers?).ok();
        numbers.with_context(|| format!("not a measurement: {text}"))
    }

    /// The rates in Mbit/s that the pod's interface receives and sends, from the second second of flows from and to
    /// another pod on.
    pub fn exchanges_with(&self, kubectl: &Kubectl, other: &Self) -> anyhow::Result<[f64; 2]> {
        let script = MEASURE_BOTH.replace("$1", &other.address.to_string());
        let [received, sent, began, received_then, sent_then, ended] =
            self.numbers(kubectl, &script)?;
        let bytes = [received_then - received, sent_then - sent];
        Ok(bytes.map(|bytes| bytes * 8.0 / (ended - began) / 1e6))
    }

    /// The rate in Mbit/s that the pod's interface receives while another pod sends to it.
    pub fn receives_from(&self, kubectl: &Kubectl, sender: &Self) -> anyhow::Result<f64> {
        let _flow = sender.send(kubectl, &self.address.to_string())?;
        self.receives(kubectl)
    }
}
