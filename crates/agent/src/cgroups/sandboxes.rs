//! The sandboxes of pods: what their cgroups lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_core::Attachment;
use netqos_core::objects::{LocalInterface, NetworkName};
use netqos_core::plan::{Attach, Ends, Interface};
use netqos_datapath::{Located, Reach, Records, locate_first};

use super::CgroupOptions;
use super::processes::{Namespace, Processes, identity};
use super::tree::below_root;

/// What a network is called of which nobody has said the name.
const NETWORK: &str = "pod-network";
/// How long after something was heard of a pod that is not found yet it is looked at again.
const AGAIN: [Duration; 6] = [
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// What was found of each pod, by its uid.
pub(super) type Found = BTreeMap<Arc<str>, LocalInterface>;

/// Knows what is behind the cgroups of pods.
#[derive(Debug)]
pub(super) struct Sandboxes {
    processes: Processes,
    records: Records,
    /// What plugins have written down, by namespace; until [`forget`](Self::forget).
    recorded: Option<Vec<(Attachment, Option<Ends>, Namespace)>>,
    known: BTreeMap<Arc<str>, Sandbox>,
}

/// A pod's.
#[derive(Debug)]
struct Sandbox {
    folder: PathBuf,
    /// The process by which its namespace is named.
    by: Option<(u32, Namespace)>,
    interface: Option<LocalInterface>,
    /// How often it was looked at since something was heard of it.
    looks: usize,
    again_at: Option<Instant>,
}

/// What a look found.
enum Look {
    /// No process that is in a namespace of its own: there is none yet, or it is a pod of the host's
    /// network.
    Nothing,
    There(u32, Namespace, LocalInterface),
    /// It is there, and cannot be reached.
    Hidden(LocalInterface),
}

impl Sandboxes {
    pub(super) fn new(options: &CgroupOptions) -> Self {
        Self {
            processes: Processes::new(options.proc.clone()),
            records: Records::new(options.paths.attachments()),
            recorded: None,
            known: BTreeMap::new(),
        }
    }

    /// These are the folders of all pods: looks at those that have come.
    pub(super) fn put(&mut self, pods: &BTreeMap<Arc<str>, PathBuf>) {
        self.known
            .retain(|uid, sandbox| pods.get(uid) == Some(&sandbox.folder));
        let mut fresh = Vec::new();
        for (uid, folder) in pods {
            if !self.known.contains_key(uid) {
                self.known.insert(uid.clone(), Sandbox::new(folder.clone()));
                fresh.push(uid.clone());
            }
        }
        self.look_at(&fresh);
    }

    /// Looks at all of them.
    pub(super) fn look(&mut self) {
        let all: Vec<Arc<str>> = self.known.keys().cloned().collect();
        self.look_at(&all);
    }

    /// Looks at those of which something was heard.
    pub(super) fn hear(&mut self, heard: &BTreeSet<Arc<str>>) {
        for uid in heard {
            if let Some(sandbox) = self.known.get_mut(uid) {
                sandbox.looks = 0;
            }
        }
        let heard: Vec<Arc<str>> = heard.iter().cloned().collect();
        self.look_at(&heard);
    }

    /// Looks at those that are due.
    pub(super) fn look_again(&mut self) {
        let now = Instant::now();
        let due = self.known.iter();
        let due = due.filter(|(_, sandbox)| sandbox.again_at.is_some_and(|at| at <= now));
        let due: Vec<Arc<str>> = due.map(|(uid, _)| uid.clone()).collect();
        self.look_at(&due);
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.known.values().filter_map(|sandbox| sandbox.again_at);
        due.min()
    }

    /// What is known now.
    pub(super) fn found(&self) -> Found {
        let known = self.known.iter();
        known
            .filter_map(|(uid, sandbox)| Some((uid.clone(), sandbox.interface.clone()?)))
            .collect()
    }

    /// The cgroups of all pods, below the root of the hierarchy.
    pub(super) fn folders(&self) -> BTreeMap<Arc<str>, PathBuf> {
        let known = self.known.iter();
        known
            .map(|(uid, sandbox)| (uid.clone(), below_root(&sandbox.folder)))
            .collect()
    }

    fn look_at(&mut self, pods: &[Arc<str>]) {
        for uid in pods {
            let Some(sandbox) = self.known.get(uid) else {
                continue;
            };
            let look = match self.processes.of(uid, &sandbox.folder) {
                Some(processes) if sandbox.is_as_before(&processes, &self.processes) => continue,
                Some(processes) => self.find(uid, &processes),
                None => Look::Hidden(unsupported(
                    "its processes are not to be seen: the agent needs hostPID, or the host's /proc \
                     (--proc), or the runtime's cache (--cni-cache)"
                        .to_owned(),
                )),
            };
            if let Some(sandbox) = self.known.get_mut(uid) {
                sandbox.take(look);
            }
        }
        self.processes.forget();
        self.recorded = None;
    }

    fn find(&mut self, uid: &str, processes: &[u32]) -> Look {
        let mut oldest: Option<(u64, u32, Namespace)> = None;
        let mut hidden = None;
        for process in processes {
            match self.processes.namespace(*process) {
                Ok(Some(namespace)) => {
                    let Some(began) = self.processes.began(*process) else {
                        continue;
                    };
                    let this = (began, *process, namespace);
                    oldest = Some(oldest.map_or(this, |oldest| oldest.min(this)));
                }
                Err(why) if why.kind() == ErrorKind::PermissionDenied => hidden = Some(why),
                // The host's, or it has gone.
                Ok(None) | Err(_) => {}
            }
        }
        // The one that was made with the namespace stays as long as that does.
        let Some((_, process, namespace)) = oldest else {
            return match hidden {
                Some(why) => Look::Hidden(unsupported(format!(
                    "the network namespace of its processes may not be looked at ({why}): the \
                     agent needs CAP_SYS_PTRACE, or the runtime's cache (--cni-cache)"
                ))),
                None => Look::Nothing,
            };
        };
        let netns = self.processes.path(process);
        let located = locate_first(&netns);
        // The number may be another process's by now.
        if !matches!(self.processes.namespace(process), Ok(Some(now)) if now == namespace) {
            return Look::Nothing;
        }
        let (name, Located { reach, ends }) = match located {
            Ok(Some(found)) => found,
            Ok(None) => return Look::Nothing,
            Err(why) => return Look::Hidden(unsupported(why.to_string())),
        };
        // Who comes after it in the same namespace is the same to what is in force.
        let unnamed = Interface {
            container: format!("{uid}.{}", namespace.1),
            network: NETWORK.to_owned(),
            name,
            netns,
            ends: Some(ends),
        };
        let interface = self.recorded(unnamed, namespace);
        let name = interface.name.clone();
        let attach = match reach {
            Reach::HostVeth => Attach::HostVeth(interface),
            Reach::PodNetns => Attach::PodNetns(interface),
        };
        Look::There(process, namespace, local(&name, attach))
    }

    /// The interface as who has limited it before knows it: a plugin, by its network and container, or an agent, by the
    /// name that it had then.
    fn recorded(&mut self, interface: Interface, namespace: Namespace) -> Interface {
        let records = &self.records;
        let recorded = self.recorded.get_or_insert_with(|| {
            let all = records.all().unwrap_or_default().into_iter();
            all.filter_map(|record| {
                let namespace = identity(&record.netns).ok()?;
                Some((record.attachment, record.ends, namespace))
            })
            .collect()
        });
        let is_it = |(attachment, ends, of): &&(Attachment, Option<Ends>, Namespace)| {
            *of == namespace
                && match ends {
                    Some(_) => *ends == interface.ends,
                    None => attachment.interface() == interface.name,
                }
                && (attachment.network() != NETWORK
                    || attachment.container() == interface.container)
        };
        match recorded.iter().find(is_it) {
            None => interface,
            Some((attachment, ..)) => Interface {
                container: attachment.container().to_owned(),
                network: attachment.network().to_owned(),
                name: attachment.interface().to_owned(),
                ..interface
            },
        }
    }
}

impl Sandbox {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            by: None,
            interface: None,
            looks: 0,
            again_at: None,
        }
    }

    /// True when the process that named its namespace still does.
    fn is_as_before(&self, now: &[u32], processes: &Processes) -> bool {
        self.by.is_some_and(|(process, namespace)| {
            now.contains(&process)
                && matches!(processes.namespace(process), Ok(Some(now)) if now == namespace)
        })
    }

    fn take(&mut self, look: Look) {
        let is_found = matches!(look, Look::There(..));
        (self.by, self.interface) = match look {
            Look::Nothing => (None, None),
            Look::There(process, namespace, interface) => {
                (Some((process, namespace)), Some(interface))
            }
            Look::Hidden(interface) => (None, Some(interface)),
        };
        let again = AGAIN.get(self.looks).filter(|_| !is_found);
        self.again_at = again.map(|wait| Instant::now() + *wait);
        self.looks += 1;
    }
}

fn local(name: &str, attach: Attach) -> LocalInterface {
    LocalInterface {
        network: NetworkName::Default,
        name: name.into(),
        // The pod's status says them.
        addresses: BTreeSet::new(),
        attach,
        recorded: None,
    }
}

fn unsupported(reason: String) -> LocalInterface {
    local("eth0", Attach::Unsupported { reason })
}
