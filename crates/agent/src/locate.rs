//! Where the pods of this node are, from what is remembered of their CNI calls; and their annotations `network-status`, as
//! records have them.
//!
//! First by `netqos-multinet`, whose record of a pod has all its attachments, and by netqos' own plugin, which writes
//! down of each attachment which pod it is of ([`AttachedPod`]). Else by the runtimes: containerd, CRI-O and `netqos pod`
//! leave one file for each attachment in `<cache>/results`, in libcni's form; the pod's name stands in its `CNI_ARGS`.
//!
//! Of several sandboxes of a pod of one name and uid the youngest counts, whoever tells of it: the others are on
//! their way out. That is the one whose file came last while this looked on, since files may be dated by a
//! clock that was put back; of those that were there before, or came at once, the one that is dated last. Sandboxes of
//! other uids are of other pods, which had the name before or have it next.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use netqos_api::multinet::PodName;
use netqos_cni::runtime::CachedAttachment;
use netqos_coexistence::AtWork;
use netqos_core::objects::{LocalInterface, NetworkName};
use netqos_core::plan::{Attach, Ends, Interface};
use netqos_core::{Attachment, ObjectName, ObjectRef, Problem, Reason};
use netqos_datapath::{AttachedPod, AttachedPods, Known, Located, Reach, Records, locate};
use netqos_index::Change;
use serde_json::Value;

use crate::Batch;
use crate::multinet::StatusAnnotation;

mod records;
#[cfg(feature = "daemon")]
mod run;

#[cfg(feature = "daemon")]
pub use run::spawn;

/// The interface of a primary network, which OVN-Kubernetes makes in the ADD of the default one.
pub(crate) const PRIMARY_INTERFACE: &str = "ovn-udn1";

/// The name of this source.
const SOURCE: &str = "attachments";

/// Knows where pods are.
#[derive(Debug)]
pub struct Locator {
    /// The directory of the records of `netqos-multinet`.
    records: Option<PathBuf>,
    /// Where the plugin writes.
    attached: Option<PathBuf>,
    /// The records of limits.
    limits: Option<Records>,
    caches: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Cached>,
    /// How many have come.
    came: u64,
    told: BTreeMap<Sandboxes, Vec<LocalInterface>>,
}

/// A file that was read.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "daemon"),
    allow(dead_code, reason = "who looks once compares nothing")
)]
struct Cached {
    age: Age,
    stamp: Stamp,
    /// The namespace of its interface, where that is there and can be reached.
    namespace: Option<Identity>,
    /// What a record makes of the annotation `network-status`.
    status: Option<(PodName, StatusAnnotation)>,
    /// Empty: it is not of a pod.
    of: Vec<Sandboxed>,
    problem: Option<Problem>,
}

/// How old a file is: the larger, the younger. After whom it came, as far as was seen, and its date.
type Age = (u64, SystemTime);

/// What a file has another of when it has become another: device, inode, size.
type Stamp = (u64, u64, u64);

/// Device and inode.
type Identity = (u64, u64);

/// An interface of a sandbox of a pod.
#[derive(Debug)]
struct Sandboxed {
    source: Source,
    pod: ObjectName,
    uid: Option<Arc<str>>,
    container: String,
    interface: LocalInterface,
}

/// The writer of a file, in the order in which they precede.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Record,
    Plugin,
    Cache,
}

/// The sandboxes of one pod: its name, and its uid where the runtime says it.
type Sandboxes = (ObjectName, Option<Arc<str>>);

impl Locator {
    /// One that looks into these caches.
    pub fn new(caches: Vec<PathBuf>) -> Self {
        Self {
            records: None,
            attached: None,
            limits: None,
            caches,
            files: BTreeMap::new(),
            came: 0,
            told: BTreeMap::new(),
        }
    }

    /// And, first, into this folder of what the plugin writes.
    #[must_use]
    pub fn with_attached(mut self, folder: PathBuf) -> Self {
        self.attached = Some(folder);
        self
    }

    /// And goes by what these records say which links an interface is.
    #[must_use]
    pub fn with_limits(mut self, records: Records) -> Self {
        self.limits = Some(records);
        self
    }

    /// And, before that, into this directory of the records of `netqos-multinet`.
    #[must_use]
    pub fn with_records(mut self, directory: PathBuf) -> Self {
        self.records = Some(directory);
        self
    }

    /// The folders that it looks into.
    #[cfg(feature = "daemon")]
    fn folders(&self) -> Vec<PathBuf> {
        let results = self.caches.iter().map(|cache| cache.join("results"));
        let own = self.records.iter().chain(&self.attached).cloned();
        own.chain(results).collect()
    }

    /// The writer of a file.
    fn source(&self, path: &Path) -> Source {
        let is_in = |directory: Option<&Path>| directory.is_some() && path.parent() == directory;
        if is_in(self.records.as_deref()) {
            Source::Record
        } else if is_in(self.attached.as_deref()) {
            Source::Plugin
        } else {
            Source::Cache
        }
    }

    /// Looks again at everything, and says what has changed.
    pub fn look(&mut self) -> Batch {
        let there = self.list();
        // Those that are found at once have no order but that of their dates.
        self.came += 1;
        for path in there {
            self.read(&path);
        }
        self.batch()
    }

    /// The same where nothing was heard: only at what has become another, and at what has not led to
    /// an interface. That takes a tenth of the time.
    #[cfg(feature = "daemon")]
    pub(crate) fn look_over(&mut self) -> Batch {
        let there = self.list();
        self.came += 1;
        for path in there {
            let known = self.files.get(&path);
            if !known.is_some_and(|known| known.is_as_before(&path)) {
                self.read(&path);
            }
        }
        self.batch()
    }

    /// The files that are there; the others are forgotten.
    fn list(&mut self) -> BTreeSet<PathBuf> {
        let mut there = BTreeSet::new();
        for folder in &self.caches {
            let Ok(entries) = fs::read_dir(folder.join("results")) else {
                continue;
            };
            there.extend(entries.flatten().map(|entry| entry.path()));
        }
        let own = self.records.iter().chain(&self.attached);
        let own = own.filter_map(|it| fs::read_dir(it).ok());
        let own = own.flatten().flatten().map(|entry| entry.path());
        there.extend(own.filter(|path| is_whole(path)));
        self.files.retain(|path, _| there.contains(path));
        there
    }

    /// Looks again at some files, which were heard of at once: they have no order but that of their dates.
    #[cfg_attr(
        not(feature = "daemon"),
        allow(dead_code, reason = "who looks once compares nothing")
    )]
    pub(crate) fn look_at(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.came += 1;
        for path in paths {
            if self.source(&path) == Source::Cache || is_whole(&path) {
                self.read(&path);
            }
        }
    }

    fn read(&mut self, path: &Path) {
        let dated = fs::metadata(path).and_then(|it| Ok((it.modified()?, stamp(&it))));
        let Ok((modified, stamp)) = dated else {
            self.files.remove(path);
            return;
        };
        let known = self.files.get(path);
        let came = known.map_or(self.came, |known| known.age.0);
        let memory = Memory {
            limits: self.limits.as_ref(),
            // What a file led to once it stays.
            before: known
                .filter(|known| known.stamp == stamp)
                .map_or(&[], |known| &known.of),
        };
        // An interface may have become another while the file stayed as it is.
        let mut status = None;
        let read = match self.source(path) {
            Source::Record => records::read(path).and_then(|record| {
                let record = record.as_ref();
                status = record.and_then(|record| StatusAnnotation::of(record, modified));
                record.map_or(Ok(Vec::new()), |it| records::interfaces(it, &memory))
            }),
            Source::Plugin => read_attached(path, &memory).map(Vec::from_iter),
            Source::Cache => read(path, &memory),
        };
        let (of, problem) = match read {
            Ok(of) => (of, None),
            // Runtimes, unlike the plugin, write without renaming: it may be whole a moment later.
            Err(why) => {
                let problem = Problem {
                    object: ObjectRef::File(path.display().to_string()),
                    reason: Reason::Invalid,
                    message: format!("{why}; the pod that it is of is not found by it"),
                };
                (Vec::new(), Some(problem))
            }
        };
        let cached = Cached {
            age: (came, modified),
            stamp,
            namespace: of.first().and_then(Sandboxed::namespace),
            status,
            of,
            problem,
        };
        self.files.insert(path.to_owned(), cached);
    }

    /// What has changed since the last time, and how things are.
    pub(crate) fn batch(&mut self) -> Batch {
        let found = self.found();
        let mut changes = Vec::new();
        let change = |(pod, uid): &Sandboxes, interfaces| Change::Attachments {
            pod: pod.clone(),
            uid: uid.clone(),
            interfaces,
        };
        for (sandboxes, now) in &found {
            if self.told.get(sandboxes) != Some(now) {
                changes.push(change(sandboxes, now.clone()));
            }
        }
        for gone in self.told.keys().filter(|it| !found.contains_key(*it)) {
            changes.push(change(gone, Vec::new()));
        }
        self.told = found;
        let problems = self.files.values().filter_map(|file| file.problem.clone());
        let interfaces = self.told.values().map(|found| found.len() as u64);
        Batch {
            classes: None,
            source: SOURCE,
            changes,
            problems: problems.collect(),
            objects: BTreeMap::from([("LocalInterface", interfaces.sum())]),
            policies: BTreeMap::new(),
            at_work: AtWork::default(),
        }
    }

    fn found(&self) -> BTreeMap<Sandboxes, Vec<LocalInterface>> {
        let files = || {
            let files = self.files.values();
            files.flat_map(|file| file.of.iter().map(|of| (file.age, of)))
        };
        let by = |source| {
            files()
                .map(|(_, of)| of)
                .filter(move |of| of.source == source)
        };
        let all = || {
            let sources = [Source::Record, Source::Plugin, Source::Cache];
            sources.into_iter().flat_map(by)
        };
        // Not all who tell of a sandbox know its uid.
        let mut uids: BTreeMap<&str, &Arc<str>> = BTreeMap::new();
        for of in all() {
            if let Some(uid) = &of.uid {
                uids.entry(&of.container).or_insert(uid);
            }
        }
        let sandboxes = |of: &Sandboxed| -> Sandboxes {
            let uid = uids.get(of.container.as_str());
            (of.pod.clone(), uid.map(|uid| Arc::clone(uid)))
        };
        let mut youngest: BTreeMap<Sandboxes, (Age, &str)> = BTreeMap::new();
        for (age, of) in files() {
            let sandbox = (age, of.container.as_str());
            let best = youngest.entry(sandboxes(of)).or_insert(sandbox);
            *best = sandbox.max(*best);
        }
        let mut found: BTreeMap<Sandboxes, Vec<LocalInterface>> = BTreeMap::new();
        let is_young = |of: &Sandboxed| {
            let youngest = youngest.get(&sandboxes(of));
            youngest.is_some_and(|(_, id)| *id == of.container)
        };
        for of in all().filter(|of| is_young(of)) {
            let interfaces = found.entry(sandboxes(of)).or_default();
            let (network, name) = (&of.interface.network, &of.interface.name);
            let mut known = interfaces.iter_mut();
            let is_known = |it: &&mut LocalInterface| {
                it.name == *name && (it.recorded.is_some() || it.network == *network)
            };
            match known.find(is_known) {
                Some(known) => {
                    // Of several who tell of it one may know too little to find it.
                    if known.attach.interface().is_none() {
                        known.attach = of.interface.attach.clone();
                    }
                    // A record has all of them; else the last plugin of the network knows all.
                    if known.recorded.is_none() {
                        known.addresses.extend(&of.interface.addresses);
                    }
                }
                None => interfaces.push(of.interface.clone()),
            }
        }
        for interfaces in found.values_mut() {
            interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        }
        found
    }
}

impl Cached {
    /// True when neither the file nor the namespace of its interface is another than before.
    #[cfg(feature = "daemon")]
    fn is_as_before(&self, path: &Path) -> bool {
        let now = fs::metadata(path).and_then(|it| Ok((it.modified()?, stamp(&it))));
        let namespace = self.of.first().and_then(Sandboxed::namespace);
        now.is_ok_and(|now| now == (self.age.1, self.stamp))
            && self.namespace.is_some()
            && self.namespace == namespace
    }
}

impl Sandboxed {
    fn namespace(&self) -> Option<Identity> {
        let metadata = fs::metadata(&self.interface.attach.interface()?.netns).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.dev(), metadata.ino(), metadata.size())
}

/// Reads one file. None: it is not of a pod, or of one whose namespace is gone.
fn read(path: &Path, memory: &Memory<'_>) -> Result<Vec<Sandboxed>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why.to_string()),
    };
    let cached: CachedAttachment =
        serde_json::from_slice(&bytes).map_err(|why| format!("not a CNI result: {why}"))?;
    let argument = |name: &str| {
        let mut arguments = cached.args.iter();
        let (_, value) = arguments.find(|(known, _)| known == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    };
    let (Some(namespace), Some(name), Some(netns)) = (
        argument("K8S_POD_NAMESPACE"),
        argument("K8S_POD_NAME"),
        cached.netns.as_deref(),
    ) else {
        return Ok(Vec::new());
    };
    // Runtimes put the loopback interface up by a plugin, too.
    if cached.ifname == "lo" {
        return Ok(Vec::new());
    }
    let host_links = host_links(&cached.result);
    let of = |ifname: &str, host_links: &[String], addresses| -> Result<_, String> {
        let attachment = Attachment::try_new(&cached.network, &cached.container_id, ifname);
        let attachment = attachment.map_err(|why| why.to_string())?;
        let known = memory.of(&attachment, None, host_links);
        let interface = interface(&attachment, netns, known, addresses);
        Ok(interface.map(|interface| Sandboxed {
            source: Source::Cache,
            pod: ObjectName::new(namespace, name),
            uid: argument("K8S_POD_UID").map(Into::into),
            container: cached.container_id.clone(),
            interface,
        }))
    };
    let own = addresses(&cached.result, &cached.ifname);
    let mut primary = addresses(&cached.result, PRIMARY_INTERFACE);
    primary.retain(|address| !own.contains(address));
    // The host's link of two interfaces is either's.
    let host_links = if primary.is_empty() {
        &host_links[..]
    } else {
        &[]
    };
    let mut found = Vec::from_iter(of(&cached.ifname, host_links, own)?);
    if !primary.is_empty()
        && let Some(mut primary) = of(PRIMARY_INTERFACE, &[], primary)?
    {
        primary.interface.network = NetworkName::Primary(None);
        found.push(primary);
    }
    Ok(found)
}

/// The same of a file that the plugin wrote.
fn read_attached(path: &Path, memory: &Memory<'_>) -> Result<Option<Sandboxed>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why.to_string()),
    };
    let attached: AttachedPod = serde_json::from_slice(&bytes)
        .map_err(|why| format!("not what the plugin writes of a pod: {why}"))?;
    let known = memory.of(&attached.attachment, attached.ends, &[]);
    let addresses = attached.addresses;
    let interface = interface(&attached.attachment, &attached.netns, known, addresses);
    Ok(interface.map(|interface| Sandboxed {
        source: Source::Plugin,
        pod: ObjectName::new(&attached.namespace, &attached.name),
        uid: attached.uid.map(Into::into),
        container: attached.attachment.container().to_owned(),
        interface,
    }))
}

/// Which links interfaces were before.
struct Memory<'m> {
    limits: Option<&'m Records>,
    before: &'m [Sandboxed],
}

impl Memory<'_> {
    /// What is known of an attachment's interface: by a plugin's record, that of its limits, or since its file led to it.
    fn of<'k>(
        &self,
        attachment: &Attachment,
        recorded: Option<Ends>,
        host_links: &'k [String],
    ) -> Known<'k> {
        let of_limits = || self.limits?.read(attachment).ok()??.ends;
        let before = || {
            let mut before = self.before.iter();
            let it = before.find(|it| *it.interface.name == *attachment.interface())?;
            it.interface.attach.interface()?.ends
        };
        let ends = recorded.or_else(of_limits).or_else(before);
        Known { ends, host_links }
    }
}

/// The names of the links of a result that are on the host.
fn host_links(result: &Value) -> Vec<String> {
    let all = result.get("interfaces").and_then(Value::as_array);
    let is_on_host = |link: &&Value| {
        let sandbox = link.get("sandbox").and_then(Value::as_str);
        sandbox.is_none_or(str::is_empty)
    };
    let names = all.into_iter().flatten().filter(is_on_host);
    let names = names.filter_map(|link| link.get("name")?.as_str());
    names.map(str::to_owned).collect()
}

/// The interface of an attachment, with these addresses. `None`: its namespace is gone.
fn interface(
    attachment: &Attachment,
    netns: &Path,
    known: Known<'_>,
    addresses: BTreeSet<IpAddr>,
) -> Option<LocalInterface> {
    let interface = |ends| Interface {
        container: attachment.container().to_owned(),
        network: attachment.network().to_owned(),
        name: attachment.interface().to_owned(),
        netns: netns.to_owned(),
        ends: Some(ends),
    };
    let attach = match locate(netns, attachment.interface(), known) {
        Ok(None) => return None,
        Ok(Some(Located { reach, ends })) => match reach {
            Reach::HostVeth => Attach::HostVeth(interface(ends)),
            Reach::PodNetns => Attach::PodNetns(interface(ends)),
        },
        Err(why) => Attach::Unsupported {
            reason: why.to_string(),
        },
    };
    Some(LocalInterface {
        network: NetworkName::Cni(attachment.network().into()),
        name: attachment.interface().into(),
        addresses,
        attach,
        recorded: None,
    })
}

/// True for a file of netqos' plugins that is written to its end.
fn is_whole(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(AttachedPods::is_whole)
}

/// The addresses of an interface, in a result of any version of CNI.
fn addresses(result: &Value, name: &str) -> BTreeSet<IpAddr> {
    let interfaces = result.get("interfaces").and_then(Value::as_array);
    let is_its = |ip: &&Value| {
        let interface = ip.get("interface").and_then(Value::as_u64);
        let named = interface
            .zip(interfaces)
            .and_then(|(index, all)| all.get(usize::try_from(index).ok()?)?.get("name"));
        // An address that names no interface is of the one that was asked for.
        named.is_none_or(|named| named == name)
    };
    let text = |ip: &Value, field: &str| {
        let text = ip.get(field)?.as_str()?;
        text.split('/').next()?.parse().ok()
    };
    let ips = result.get("ips").and_then(Value::as_array);
    let ips = ips.into_iter().flatten().filter(is_its);
    let old = ["ip4", "ip6"]
        .into_iter()
        .filter_map(|name| result.get(name));
    ips.filter_map(|ip| text(ip, "address"))
        .chain(old.filter_map(|ip| text(ip, "ip")))
        .collect()
}

#[cfg(test)]
mod tests;
