//! A lab that stands, with the pods of the proposal's tests and an agent.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use netqos_lab::{Options, Progress, Which};
use netqos_netlink::Namespace;
use netqos_testkit::{Baseline, Node, lab_agent};
use tempfile::TempDir;

use super::eyes::{Packet, seen};

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.85.0.0/24"}], [{"subnet": "fd00:85::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}]}"#;

/// In the order in which they get their addresses, from .2 and ::2 on.
const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: source, namespace: games, labels: {app: source}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: target, namespace: games, labels: {app: target}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: target2, namespace: games, labels: {app: target}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: games, labels: {app: other}}}
---
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: of-nobody, namespace: games}
spec: {priority: 0, podSelector: {matchLabels: {app: nobody}}, egress: [{dscp: 1}]}
";

/// The node, and a host outside, are what CIDRs are for.
const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: testing-details}
spec:
  outside: [{name: outside, addresses: [203.0.113.10, '2001:db8:113::10']}]
  measurements:
  - {name: nothing, kind: dscp, from: source, to: target, omit: 0s, duration: 100ms, expect: {dscp: 0}}
";

/// Either family's addresses of all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Family {
    pub(crate) fn address(self, place: &str) -> IpAddr {
        let (v4, v6) = match place {
            "node" => ("10.85.0.1", "fd00:85::1"),
            "source" => ("10.85.0.2", "fd00:85::2"),
            "target" => ("10.85.0.3", "fd00:85::3"),
            "target2" => ("10.85.0.4", "fd00:85::4"),
            "other" => ("10.85.0.5", "fd00:85::5"),
            "outside" => ("203.0.113.10", "2001:db8:113::10"),
            place => panic!("there is no {place}"),
        };
        let text = if self == Self::V4 { v4 } else { v6 };
        text.parse().unwrap()
    }

    /// The block that the node, and every pod, has its address from.
    pub(crate) fn block(self) -> &'static str {
        match self {
            Self::V4 => "10.85.0.0/24",
            Self::V6 => "fd00:85::/64",
        }
    }
}

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The mark of all rules here.
pub(crate) const MARK: u8 = 20;

/// The lab. It goes when this does.
pub(crate) struct Stage {
    objects: PathBuf,
    namespaces: BTreeMap<String, PathBuf>,
    baseline: OnceCell<Baseline>,
    _folder: TempDir,
    node: Node,
}

impl Stage {
    /// `None`: skipped, which is said.
    pub(crate) fn new() -> Option<Self> {
        let agent = lab_agent(netqos_lab::AGENT)?;
        let node = Node::new().unwrap()?;
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("net.conflist", NETWORK),
            ("pods.yaml", PODS),
            ("scenario.yaml", SCENARIO),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let options = Options {
            keep: true,
            attempts: NonZeroU32::MIN,
            progress: Progress::silent(),
            agent: Some(agent),
        };
        let report = netqos_lab::run(folder.path(), &options);
        let report = report.unwrap_or_else(|why| panic!("{why}"));
        assert!(report.holds(), "{}", report.to_table());
        assert_eq!(report.warnings, [""; 0]);
        let kept = report.kept.unwrap();
        let namespaces = kept.namespaces.into_iter();
        Some(Self {
            objects: kept.agents[0].objects.clone(),
            namespaces: namespaces
                .map(|(who, name)| (who, Path::new("/run/netns").join(name)))
                .collect(),
            baseline: OnceCell::new(),
            _folder: folder,
            node,
        })
    }

    /// A limit of `tc` that holds beside what is measured.
    pub(crate) fn baseline(&self) -> &Baseline {
        self.baseline
            .get_or_init(|| Baseline::new(&self.node).unwrap())
    }

    /// Creates a NetworkQoS of the pod `source`, with one rule in YAML.
    pub(crate) fn create(&self, rule: &str) {
        let text = format!(
            "apiVersion: k8s.ovn.org/v1alpha1\nkind: NetworkQoS\n\
             metadata: {{name: tested, namespace: games}}\n\
             spec: {{priority: 1, podSelector: {{matchLabels: {{app: source}}}}, egress: [{rule}]}}\n"
        );
        let draft = self.objects.join(".tested");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.objects.join("tested.yaml")).unwrap();
    }

    /// Deletes it.
    pub(crate) fn delete(&self) {
        fs::remove_file(self.objects.join("tested.yaml")).unwrap();
    }

    /// The mark with which a packet from the pod `source` arrives.
    pub(crate) fn mark(&self, to: &str, packet: Packet, family: Family) -> u8 {
        let address = family.address(to);
        // One may be lost while neighbours learn of each other.
        let seen = (0..3).find_map(|_| {
            seen(
                &self.namespaces["source"],
                &self.namespaces[to],
                address,
                packet,
            )
        });
        seen.unwrap_or_else(|| panic!("{packet:?} does not arrive at {to} {address}"))
    }

    /// Waits until packets arrive with this mark.
    pub(crate) fn wait_for_mark(&self, mark: u8, to: &str, packet: Packet, family: Family) {
        let began = Instant::now();
        loop {
            let seen = self.mark(to, packet, family);
            if seen == mark {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{family:?} {packet:?} to {to}: {seen}, not {mark}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Does something in the namespace of a place.
    pub(crate) fn inside<T: Send>(&self, place: &str, act: impl FnOnce() -> T + Send) -> T {
        inside(&self.namespaces[place], act)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A test that fails has said why already.
        if let Err(why) = netqos_lab::down(&Which::All) {
            eprintln!("{why}");
        }
    }
}

/// On a thread of its own.
pub(crate) fn inside<T: Send>(netns: &Path, act: impl FnOnce() -> T + Send) -> T {
    let namespace = Namespace::open(netns).unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _inside = namespace.enter().unwrap();
            act()
        });
        thread.join().unwrap()
    })
}
