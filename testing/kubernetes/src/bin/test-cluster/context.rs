//! The cluster, as steps see it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use netqos_kubernetes::cluster::{Cluster, Counters, Kubectl, Node};

/// The namespace of netqos.
pub const NETQOS: &str = "netqos-system";

const EXISTING: &str = "this step is not for an existing cluster";

/// The cluster, as steps see it.
pub struct Context {
    pub kubectl: Kubectl,
    /// The names of the nodes that pods are scheduled to.
    pub nodes: Vec<String>,
    /// The image of pods that send and receive.
    pub pod_image: String,
    /// The image of netqos, for pods that measure; `None` where the sandbox counts packets.
    pub measuring_image: Option<String>,
    /// Values of the chart for the image of netqos.
    pub values: String,
    /// The values for an image that has ipset and iptables, too.
    pub values_with_tc: Option<String>,
    /// The CRDs of others, which stay.
    pub crds: Vec<String>,
    /// The presence of Koordinator, whose configuration the steps for classes would replace.
    pub has_koordinator: bool,
    /// The control plane, nodes and Internet of the sandbox; `None` for an existing cluster.
    pub machine: Option<Cluster>,
    /// The directory of an older version.
    pub previous: Option<PathBuf>,
    /// The number of pods on three networks that come and go.
    pub pods: u32,
    /// The file of what `installations` has measured.
    pub results: PathBuf,
}

impl Context {
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The cluster in the sandbox.
    ///
    /// # Errors
    /// Returns an error for an existing cluster.
    pub fn cluster(&self) -> anyhow::Result<&Cluster> {
        self.machine.as_ref().context(EXISTING)
    }

    /// As [`Self::cluster`].
    ///
    /// # Errors
    /// Returns an error for an existing cluster.
    pub fn cluster_mut(&mut self) -> anyhow::Result<&mut Cluster> {
        self.machine.as_mut().context(EXISTING)
    }

    /// The packets that arrive outside of the cluster.
    ///
    /// # Errors
    /// Returns an error for an existing cluster.
    pub fn internet(&self) -> anyhow::Result<&Counters> {
        Ok(&self.cluster()?.internet.counters)
    }

    /// A node of the cluster in the sandbox.
    ///
    /// # Errors
    /// Returns an error for an existing cluster, or if it has no node of this name.
    pub fn node(&self, name: &str) -> anyhow::Result<&Node> {
        let mut nodes = self.cluster()?.nodes.iter();
        let node = nodes.find(|it| it.name() == name);
        node.with_context(|| format!("no node is named {name}"))
    }

    /// The pod of the agent on a node.
    pub fn agent(&self, node: &str) -> anyhow::Result<String> {
        let get = "get pods -l app.kubernetes.io/component=agent -o name";
        let get = format!("{get} --field-selector spec.nodeName={node}");
        let pod = self.kubectl().line_in(NETQOS, &get)?;
        let pod = pod.lines().next().context("no agent on the node")?;
        Ok(pod.to_owned())
    }

    /// The output of `netqos status` on a node, also where it reports problems.
    pub fn status(&self, node: &str) -> anyhow::Result<String> {
        let agent = self.agent(node)?;
        let exec = ["-n", NETQOS, "exec", &agent, "--", "/netqos", "status"];
        let output = self.kubectl().command().args(exec).output()?;
        let shown = String::from_utf8_lossy(&output.stdout);
        // It fails if there is a problem.
        ensure!(
            output.status.success() || output.status.code() == Some(1) && !shown.is_empty(),
            "netqos status on {node}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(shown.into_owned())
    }

    /// Executes a command in the network of the nodes, and waits for its end.
    pub fn execute(&self, command: &[String]) {
        let [program, arguments @ ..] = command else {
            return;
        };
        let command = self.kubectl().with_path(program);
        match command.map(|mut it| it.args(arguments).status()) {
            Ok(Ok(status)) => eprintln!("{program}: {status}"),
            Ok(Err(error)) => eprintln!("cannot execute {program}: {error}"),
            Err(error) => eprintln!("cannot execute {program}: {error:#}"),
        }
    }

    /// The state of the cluster, for a step that failed.
    pub fn diagnosis(&mut self) -> String {
        let shown = [
            self.kubectl().line("get pods -A -o wide"),
            self.kubectl()
                .line("get events -A --field-selector type=Warning --sort-by=.lastTimestamp"),
            self.kubectl()
                .line_in(NETQOS, "logs daemonset/netqos-agent --tail=20"),
            self.status(&self.nodes[0]),
        ];
        let shown = shown.map(|it| it.unwrap_or_else(|error| format!("{error:#}")));
        let ended = self.machine.as_mut().map(|it| it.control_plane.check());
        let ended = ended.and_then(Result::err).map(|it| format!("{it:#}"));
        format!("{}\n{}", shown.join("\n"), ended.unwrap_or_default())
    }
}

/// Repeats a check until it holds; returns its last error once the time is over.
pub fn eventually<T>(
    patience: Duration,
    mut check: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + patience;
    loop {
        match check() {
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
            Ok(value) => return Ok(value),
        }
    }
}

/// Returns an error unless a rate in Mbit/s, headers included, is at most 10 % below a limit, and at most 3 % above it.
pub fn expect(what: &str, measured: f64, limit: f64) -> anyhow::Result<String> {
    expect_between(what, measured, limit * 0.9, limit * 1.03)
}

/// Returns an error unless a rate in Mbit/s is between two others.
pub fn expect_between(what: &str, measured: f64, least: f64, most: f64) -> anyhow::Result<String> {
    if !(least..=most).contains(&measured) {
        bail!("{what}: {measured:.2} Mbit/s, expected {least:.1} to {most:.1}");
    }
    Ok(format!("{what} {measured:.2}"))
}
