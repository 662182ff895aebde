//! Pods on three networks: `netqos-multinet`, called by containerd, with the NADs and policies of the API server.

mod confined;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::{Node, run};
use serde_json::{Value, json};

use crate::context::{Context, NETQOS, eventually};
use crate::faults::{as_before, inventory};
use crate::install::{deployed, rolled_out};
use crate::pods::{Pod, Template, create, find};

const NAMESPACE: &str = "multinet";
/// Pods of a node that are there at once.
const AT_ONCE: usize = 5;
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NAD: &str = "network-attachment-definitions.k8s.cni.cncf.io";
/// Two networks beside the default one. netqos limits the first attachment, whose plugins know no bandwidth.
const SELECTION: &str = r#"[{"name": "lan", "bandwidth": {"egressRate": 8000000, "egressBurst": 800000}},
    {"name": "wire", "interface": "wire0"}]"#;
/// The networks and interfaces of such a pod, in their order.
const ATTACHMENTS: [(&str, &str); 3] = [
    ("pods", "eth0"),
    ("multinet/lan", "net1"),
    ("multinet/wire", "wire0"),
];
/// The lists that containerd calls for each pod, and those of its handler `netqos`.
const FOR_EACH: &str = "/etc/cni/net.d";
const OF_HANDLER: &str = "/etc/cni/netqos.d";
/// Makes the link of the macvlan interfaces, and installs the plugin as docs/multinet.md says, with the image's
/// executables.
const INSTALL: &str = r"
set -eu
[ $LISTS = /etc/cni/net.d ] || cp /etc/cni/net.d/10-pods.conflist $LISTS/
ip link add wire type veth peer name wire-peer
ip link set wire up
ip link set wire-peer up
mkdir -p /run/image
/opt/programs/ctr --namespace k8s.io images mount localhost/netqos:$VERSION /run/image >/dev/null
# Its own path is that of another PID namespace.
/run/image/netqos install-plugin --multinet --to /opt/cni/bin --from /run/image/netqos-multinet --conf-dir $LISTS
";
const REMOVE: &str = r"
set -eu
/run/image/netqos install-plugin --multinet --to /opt/cni/bin --remove --conf-dir $LISTS
[ $LISTS = /etc/cni/net.d ] || rm $LISTS/10-pods.conflist
/opt/programs/ctr --namespace k8s.io images unmount --rm /run/image >/dev/null
rmdir /run/image
ip link delete wire
ip link delete lan0
find /var/lib/netqos/multinet -depth -type d -empty -delete
";
/// Addresses that host-local has given out, results that containerd has cached, and network namespaces.
const FILES: &str = r"
for directory in /var/lib/cni /run/netns; do
  [ ! -d $directory ] || find $directory -mindepth 1 -not -type d -not -name 'last_reserved_ip*' -not -name lock
done
";

/// Pods on three networks come and go, have the annotation `network-status`, and leave nothing.
pub fn three_networks(context: &mut Context) -> anyhow::Result<String> {
    installed(context, FOR_EACH, come_and_go)
}

/// Pods of a RuntimeClass are attached by netqos-multinet, and others by the list that containerd calls for each pod.
pub fn by_handler(context: &mut Context) -> anyhow::Result<String> {
    installed(context, OF_HANDLER, beside)
}

/// Tests with the plugin in these lists, and removes it also if the test fails.
fn installed(
    context: &Context,
    lists: &str,
    test: fn(&Context) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let held = install(context, lists).and_then(|()| test(context));
    let removed = remove(context, lists);
    let held = held?;
    removed?;
    Ok(held)
}

fn install(context: &Context, lists: &str) -> anyhow::Result<()> {
    if lists == OF_HANDLER {
        // Helm would refuse to install one that another has made.
        context.kubectl().apply(&definition_of_nads(context)?)?;
    }
    enable(context, true)?;
    // The CRD is there now.
    enable(context, true)?;
    on_all_nodes(context, INSTALL, lists)?;
    let nad = |name: &str, config: Value| {
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {"config": config.to_string()},
        })
    };
    let ipam = |subnet: &str| json!({"type": "host-local", "ranges": [[{"subnet": subnet}]]});
    let items = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        nad("lan", json!({"cniVersion": "1.0.0", "name": "lan", "type": "bridge", "bridge": "lan0",
            "ipam": ipam("10.88.0.0/24")})),
        nad("wire", json!({"cniVersion": "1.0.0", "name": "wire", "plugins": [
            {"type": "macvlan", "master": "wire", "mode": "bridge", "ipam": ipam("10.89.0.0/24")},
            {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}},
        ]})),
        {
            "apiVersion": "netqos.io/v1alpha1",
            "kind": "NetworkAttachmentPolicy",
            "metadata": {"name": NAMESPACE},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "pluginTypes": ["bridge", "macvlan", "tuning", "host-local"],
                "masters": ["lan0", "wire"],
            },
        },
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    // Until the API server knows the CRD.
    eventually(Duration::from_secs(30), || context.kubectl().apply(&list))
}

/// The CRD of NADs, as Multus may have brought it.
fn definition_of_nads(context: &Context) -> anyhow::Result<String> {
    let chart = deployed("helm/netqos");
    let only = "templates/network-attachment-definition.yaml";
    let template = ["template", "other", &chart, "--show-only", only];
    let values = ["--set", "multinet.enabled=true"];
    context.kubectl().helm(&[&template[..], &values].concat())
}

/// Lets agents write `network-status`, or not.
fn enable(context: &Context, on: bool) -> anyhow::Result<()> {
    let (chart, value) = (deployed("helm/netqos"), format!("multinet.enabled={on}"));
    let upgrade = ["upgrade", "netqos", &chart, "-n", NETQOS];
    let values = ["--reset-then-reuse-values", "--set", &value];
    context.kubectl().helm(&[&upgrade[..], &values].concat())?;
    rolled_out(context)
}

/// Executes a script on all nodes.
fn on_all_nodes(context: &Context, script: &str, lists: &str) -> anyhow::Result<()> {
    let version = format!("VERSION={}", env!("CARGO_PKG_VERSION"));
    let lists = format!("LISTS={lists}");
    for node in &context.cluster()?.nodes {
        let variables = [version.as_str(), &lists];
        run(node
            .command("env")?
            .args(variables)
            .args(["bash", "-c", script]))?;
    }
    Ok(())
}

fn remove(context: &Context, lists: &str) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    kubectl.run(&["delete", "namespace", NAMESPACE, "--timeout=120s"])?;
    kubectl.run(&["delete", "networkattachmentpolicy", NAMESPACE])?;
    for node in &context.cluster()?.nodes {
        // While a pod has attachments the executable stays.
        eventually(Duration::from_secs(60), || {
            let left = list(node, "find /var/lib/netqos/multinet -type f")?;
            ensure!(left.is_empty(), "records of gone pods: {left:?}");
            Ok(())
        })?;
    }
    enable(context, false)?;
    // The chart never removes it.
    kubectl.run(&["delete", "crd", NAD, "--timeout=60s"])?;
    on_all_nodes(context, REMOVE, lists)?;
    for node in &context.cluster()?.nodes {
        let left = list(
            node,
            "ls -d /etc/cni/net*.d/00-* /opt/cni/bin/netqos-* /var/lib/netqos/multinet || true",
        )?;
        ensure!(left.is_empty(), "{}: left: {left:?}", node.name());
    }
    Ok(())
}

fn come_and_go(context: &Context) -> anyhow::Result<String> {
    // The bridges of both networks, and all that pods share, are there afterwards.
    let pods = round(context, 1)?.pods;
    let refusals = confined::agent_is_confined(context, &pods[0])?;
    refused_pod_has_an_event(context)?;
    delete(context)?;
    let before = settled(context)?;
    let each = AT_ONCE * context.nodes.len();
    let rounds = (context.pods as usize).div_ceil(each);
    let (mut slowest, mut latest, began) = (0.0_f64, 0.0_f64, Instant::now());
    for number in 1..=rounds {
        let round = round(context, AT_ONCE).with_context(|| format!("round {number}"))?;
        slowest = slowest.max(round.ready.as_secs_f64());
        latest = latest.max(round.annotated.as_secs_f64());
        delete(context)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    as_before(&before, || state(context))?;
    Ok(format!(
        "{} pods on 3 networks in {seconds:.0} s, {each} at once: Ready after at most {slowest:.1} s, network-status at most \
         {latest:.1} s later; {} kernel objects and files as before; {refusals}",
        rounds * each,
        before.len()
    ))
}

/// A pod that selects a network that is not there waits, and its event names the network.
fn refused_pod_has_an_event(context: &Context) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    let template = Template {
        annotations: json!({NETWORKS: "missing"}),
        ..Template::plain(NAMESPACE, "refused", &context.nodes[0])
    };
    kubectl.apply(&template.manifest(&context.pod_image).to_string())?;
    let of_pod = "involvedObject.name=refused,reason=FailedCreatePodSandBox";
    eventually(Duration::from_secs(60), || {
        let events =
            kubectl.json(&["-n", NAMESPACE, "get", "events", "--field-selector", of_pod])?;
        let messages = events["items"].as_array().into_iter().flatten();
        let mut messages = messages.map(|it| text(&it["message"]));
        ensure!(
            messages.any(|it| it.contains("multinet/missing")),
            "no event names the network: {events}"
        );
        Ok(())
    })
}

/// The state of all nodes, once it changes no more and nothing of a pod is in it.
fn settled(context: &Context) -> anyhow::Result<Vec<String>> {
    eventually(Duration::from_secs(120), || {
        let first = state(context)?;
        std::thread::sleep(Duration::from_secs(2));
        ensure!(first == state(context)?, "what nodes have changes");
        let is_of_pod = |it: &&String| {
            let below = it.rsplit_once("/multinet/");
            below.is_some_and(|(_, path)| path.contains('/'))
        };
        let ours = first.iter().find(is_of_pod);
        ensure!(ours.is_none(), "of pods that are gone: {ours:?}");
        Ok(first)
    })
}

/// On each node a pod of the RuntimeClass, and one without. Both select the same networks.
fn beside(context: &Context) -> anyhow::Result<String> {
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "netqos"},
        "handler": "netqos"});
    context.kubectl().apply(&class.to_string())?;
    // The bridges of both networks are there afterwards.
    round_beside(context)?;
    delete(context)?;
    let before = settled(context)?;
    round_beside(context)?;
    delete(context)?;
    as_before(&before, || state(context))?;
    context.kubectl().line("delete runtimeclass netqos")?;
    Ok(format!(
        "{} pods of a RuntimeClass on 3 networks, others on one; {} kernel objects and files as before",
        2 * context.nodes.len(),
        before.len()
    ))
}

/// A pod on three networks.
fn selecting<'a>(name: &'a str, node: &'a str) -> Template<'a> {
    Template {
        annotations: json!({NETWORKS: SELECTION}),
        ..Template::plain(NAMESPACE, name, node)
    }
}

fn round_beside(context: &Context) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    let names = |node: &String| [format!("{node}-of-class"), format!("{node}-without")];
    let mut items = Vec::new();
    for node in &context.nodes {
        let image = &context.pod_image;
        let pods = names(node).map(|name| selecting(&name, node).manifest(image));
        let [mut of_class, without] = pods;
        of_class["spec"]["runtimeClassName"] = "netqos".into();
        items.extend([of_class, without]);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    eventually(Duration::from_secs(60), || kubectl.apply(&list))?;
    for node in &context.nodes {
        let [of_class, without] = names(node).map(|name| find(kubectl, NAMESPACE, &name));
        let (of_class, without) = (of_class?, without?);
        let status = |pod: &Pod| -> anyhow::Result<Value> {
            let pod = kubectl.json(&["-n", NAMESPACE, "get", "pod", &pod.name])?;
            Ok(pod["metadata"]["annotations"][STATUS].clone())
        };
        eventually(Duration::from_secs(60), || {
            let status: Value = serde_json::from_str(text(&status(&of_class)?))?;
            let entries = status.as_array().into_iter().flatten();
            let found: Vec<_> = entries
                .map(|it| (text(&it["name"]), text(&it["interface"])))
                .collect();
            ensure!(found == ATTACHMENTS, "network-status has {found:?}");
            Ok(())
        })?;
        for (pod, links) in [(&of_class, 3), (&without, 1)] {
            let shown = pod.shell(kubectl, "ip -o -4 address show")?;
            let found = shown.lines().filter(|it| !it.contains(" lo ")).count();
            ensure!(found == links, "{}: {shown}", pod.name);
        }
        let status = status(&without)?;
        ensure!(status.is_null(), "{}: {status}", without.name);
    }
    Ok(())
}

/// Pods on three networks, and the times until all were Ready, and from then until all had their annotation.
struct Round {
    pods: Vec<Pod>,
    ready: Duration,
    annotated: Duration,
}

/// Creates this number of pods on each node, and compares their annotations with the addresses of the first one's
/// interfaces.
fn round(context: &Context, on_each_node: usize) -> anyhow::Result<Round> {
    let names: Vec<(String, &String)> = (context.nodes.iter())
        .flat_map(|node| (0..on_each_node).map(move |it| (format!("{node}-{it}"), node)))
        .collect();
    let templates = names.iter().map(|(name, node)| selecting(name, node));
    let templates: Vec<Template> = templates.collect();
    let began = Instant::now();
    let pods = create(context, &templates)?;
    let ready = began.elapsed();
    let statuses = eventually(Duration::from_secs(60), || statuses(context, pods.len()))?;
    let annotated = began.elapsed() - ready;
    for (name, status) in &statuses {
        let found: Vec<(&str, &str)> = (status.iter())
            .map(|it| (text(&it["name"]), text(&it["interface"])))
            .collect();
        ensure!(found == ATTACHMENTS, "{name}: network-status has {found:?}");
    }
    let shown = pods[0].shell(context.kubectl(), "ip -o -4 address show")?;
    let status = statuses.get(&pods[0].name).context("no network-status")?;
    for entry in status {
        let (interface, address) = (text(&entry["interface"]), text(&entry["ips"][0]));
        let has = |line: &str| line.contains(interface) && line.contains(&format!(" {address}/"));
        ensure!(
            !address.is_empty() && shown.lines().any(has),
            "network-status of {}: {interface} has {address:?}, the pod has\n{shown}",
            pods[0].name
        );
    }
    Ok(Round {
        pods,
        ready,
        annotated,
    })
}

/// The annotations `network-status` of all pods.
fn statuses(context: &Context, number: usize) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let pods = context.kubectl().json(&["-n", NAMESPACE, "get", "pods"])?;
    let mut statuses = BTreeMap::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = text(&pod["metadata"]["name"]);
        let status = pod["metadata"]["annotations"][STATUS].as_str();
        let status = status.with_context(|| format!("pod {name} has no network-status"))?;
        statuses.insert(name.to_owned(), serde_json::from_str(status)?);
    }
    ensure!(
        statuses.len() == number,
        "{} pods are there",
        statuses.len()
    );
    Ok(statuses)
}

fn delete(context: &Context) -> anyhow::Result<()> {
    let delete = "delete pods --all --timeout=120s";
    context.kubectl().line_in(NAMESPACE, delete)?;
    Ok(())
}

/// The inventory of all nodes, with addresses, results and network namespaces.
fn state(context: &Context) -> anyhow::Result<Vec<String>> {
    let mut lines = inventory(context)?;
    for node in &context.cluster()?.nodes {
        let files = list(node, FILES)?;
        lines.extend(files.iter().map(|it| format!("{} file {it}", node.name())));
    }
    lines.sort();
    Ok(lines)
}

/// The lines that a script prints on a node.
fn list(node: &Node, script: &str) -> anyhow::Result<Vec<String>> {
    let text = run(node.command("bash")?.args(["-c", script]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
