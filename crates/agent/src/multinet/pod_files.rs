//! Files about the pods of this node, for plugins whose runtime passes no annotations: of each pod the annotations that
//! select networks. A pod without them starts also while the agent is away.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use netqos_api::multinet::PodFile;
use netqos_core::{ObjectRef, Problem, Reason};
use netqos_datapath::Documents;

use super::NetworkCatalog;
use crate::event::{Batch, Event, Said};
use crate::{Error, Result};

/// The name of this source.
const SOURCE: &str = "multinet-pods";

/// The most files. The kubelet of a node refuses pods beyond its maximum, which is 110 by default, and those that it
/// refuses have no file; this is far beyond.
const MOST: usize = 4096;

/// The time after which the directory is compared although no pod has changed.
const RESCAN: Duration = Duration::from_secs(60);

/// The wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// The directory with what is in it.
#[derive(Debug)]
struct PodFiles {
    documents: Documents,
    written: BTreeMap<String, PodFile>,
}

/// Keeps the files of all pods in `directory` until the engine ends.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub fn spawn(directory: PathBuf, catalog: NetworkCatalog, events: Sender<Event>) -> Result<()> {
    let thread = thread::Builder::new().name(SOURCE.into());
    let run = move || {
        let mut files = PodFiles::new(directory);
        let mut said = Said::default();
        let (mut count, mut is_due) = (0, true);
        loop {
            let problem = files.reconcile(&catalog, is_due);
            let failed = problem.is_some();
            let pause = if failed { RETRY } else { RESCAN };
            let batch = Batch::of_problem(SOURCE, problem);
            if said.is_news(&batch) && events.send(Event::Batch(batch)).is_err() {
                return;
            }
            let known = count;
            count = catalog.wait_for_pods(known, pause);
            is_due = failed || count == known;
        }
    };
    thread.spawn(run).map_err(Error::Thread)?;
    Ok(())
}

impl PodFiles {
    fn new(directory: PathBuf) -> Self {
        Self {
            documents: Documents::new(directory),
            written: BTreeMap::new(),
        }
    }

    /// Makes the files those of the catalog's pods, and looks first at what is there if `is_due`. Until the catalog is
    /// complete no file is removed. Returns the first problem.
    fn reconcile(&mut self, catalog: &NetworkCatalog, is_due: bool) -> Option<Problem> {
        let directory = self.documents.folder().to_owned();
        if is_due && let Err(error) = self.read() {
            return Some(problem(&directory, &error));
        }
        let (mut desired, is_complete) = catalog.pod_files();
        let mut first = None;
        if is_complete {
            let gone: Vec<String> = { self.written.keys() }
                .filter(|name| !desired.contains_key(*name))
                .cloned()
                .collect();
            for name in gone {
                match self.documents.remove(&name) {
                    Ok(()) => {
                        self.written.remove(&name);
                    }
                    Err(error) => first = first.or_else(|| Some(problem(&directory, &error))),
                }
            }
        }
        desired.retain(|name, file| self.written.get(name) != Some(file));
        for (name, file) in desired {
            if self.written.len() >= MOST && !self.written.contains_key(&name) {
                let error = format!("it has {MOST} files already, the most that are written");
                return first.or_else(|| Some(problem(&directory, &error)));
            }
            match self.documents.write(&name, &file) {
                Ok(()) => {
                    self.written.insert(name, file);
                }
                Err(error) => {
                    first = first.or_else(|| Some(problem(&directory, &error)));
                    // What was there says something else.
                    if self.documents.remove(&name).is_ok() {
                        self.written.remove(&name);
                    }
                }
            }
        }
        first
    }

    /// Reads what is in the directory, and makes it if it is not there. What no agent has written is removed.
    fn read(&mut self) -> netqos_datapath::Result<()> {
        let directory = self.documents.folder();
        // Another mode than root's alone is an administrator's mistake.
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        let made =
            made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)));
        made.map_err(|source| record_error(directory, source))?;
        self.documents.remove_unfinished()?;
        self.written.clear();
        for name in self.documents.names()? {
            match self.documents.peek::<PodFile>(&name) {
                Some(file) => {
                    self.written.insert(name, file);
                }
                None => self.documents.remove(&name)?,
            }
        }
        Ok(())
    }
}

fn record_error(path: &Path, source: io::Error) -> netqos_datapath::Error {
    netqos_datapath::Error::Record {
        path: path.to_owned(),
        source,
    }
}

fn problem(directory: &Path, error: &dyn std::fmt::Display) -> Problem {
    Problem {
        object: ObjectRef::File(directory.display().to_string()),
        reason: Reason::FileNotWritten,
        message: format!(
            "cannot write the networks that pods select: {error}; pods wait if the runtime does not pass their annotations"
        ),
    }
}

#[cfg(test)]
mod tests {
    use netqos_api::multinet::{MAX_FILE_ANNOTATIONS, PodName};
    use netqos_k8s::object_from_value;
    use serde_json::json;

    use super::*;

    const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

    struct Fixture {
        directory: tempfile::TempDir,
        catalog: NetworkCatalog,
        files: PodFiles,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let files = PodFiles::new(directory.path().join("pods"));
            let catalog = NetworkCatalog::new("node1");
            Self {
                directory,
                catalog,
                files,
            }
        }

        /// Puts a pod into the catalog, or removes it, and writes.
        fn pod(&mut self, name: &str, uid: &str, more: &serde_json::Value, is_there: bool) {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "shop", "uid": uid},
                "spec": {"nodeName": "node1", "containers": []},
            });
            for (part, fields) in more.as_object().unwrap() {
                let fields = fields.as_object().unwrap().clone();
                let of_pod = pod
                    .as_object_mut()
                    .unwrap()
                    .entry(part)
                    .or_insert(json!({}));
                of_pod.as_object_mut().unwrap().extend(fields);
            }
            let object = object_from_value(&pod).unwrap();
            match is_there {
                true => self.catalog.put(&object),
                false => self.catalog.remove(&object),
            }
            assert_eq!(self.files.reconcile(&self.catalog, false), None);
        }

        /// The file of a pod.
        fn file(&self, name: &str) -> Option<PodFile> {
            self.files.documents.peek(&PodFile::document("shop", name))
        }

        fn count(&self) -> usize {
            self.files.documents.names().unwrap().len()
        }

        /// Another process takes the place of the agent.
        fn restart(&mut self) {
            self.catalog = NetworkCatalog::new("node1");
            self.files = PodFiles::new(self.directory.path().join("pods"));
            assert_eq!(self.files.reconcile(&self.catalog, true), None);
        }
    }

    fn networks(text: &str) -> serde_json::Value {
        json!({"metadata": {"annotations": {NETWORKS: text}}})
    }

    #[test]
    fn file_of_pod_comes_changes_and_goes_with_it() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.files.reconcile(&fixture.catalog, true), None);
        fixture.catalog.complete();
        fixture.pod("web", "u1", &json!({}), true);
        let directory = fixture.directory.path().join("pods");
        let mode = directory.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let file = fixture.file("web").unwrap();
        let named = |uid: Option<&str>| PodName {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: uid.map(str::to_owned),
        };
        assert!(file.is(&named(Some("u1"))));
        assert!(!file.is(&named(Some("u2"))));
        assert!(!file.is(&named(None)));
        assert_eq!(file.annotations, Some(Default::default()));

        fixture.pod("web", "u1", &networks("lan"), true);
        let selected = fixture.file("web").unwrap().annotations.unwrap();
        assert_eq!(selected.networks.as_deref(), Some("lan"));
        // The deletion of the first is not told.
        fixture.pod("web", "u2", &json!({}), true);
        assert!(fixture.file("web").unwrap().is(&named(Some("u2"))));
        assert_eq!(fixture.count(), 1);
        fixture.pod("web", "u2", &json!({}), false);
        assert_eq!(fixture.count(), 0);
    }

    #[test]
    fn static_pod_is_the_one_of_its_hash() {
        let mut fixture = Fixture::new();
        let hash =
            |hash: &str| json!({"metadata": {"annotations": {"kubernetes.io/config.hash": hash}}});
        fixture.pod("proxy", "u1", &hash("h1"), true);
        let named = PodName {
            namespace: "shop".to_owned(),
            name: "proxy".to_owned(),
            uid: Some("h1".to_owned()),
        };
        assert!(fixture.file("proxy").unwrap().is(&named));
        fixture.pod("proxy", "u1", &hash(&"h".repeat(100_000)), true);
        assert_eq!(fixture.file("proxy").unwrap().config_hash, None);
    }

    #[test]
    fn pod_that_runtime_does_not_attach_has_no_file() {
        let mut fixture = Fixture::new();
        fixture.catalog.complete();
        for more in [
            json!({"status": {"phase": "Failed"}}),
            json!({"spec": {"hostNetwork": true}}),
            json!({"spec": {"nodeName": "node2"}}),
        ] {
            fixture.pod("web", "u1", &more, true);
            assert_eq!(fixture.count(), 0, "{more}");
        }
        fixture.pod("web", "u1", &json!({}), true);
        fixture.pod(
            "web",
            "u1",
            &json!({"status": {"phase": "Succeeded"}}),
            true,
        );
        assert_eq!(fixture.count(), 0);
    }

    #[test]
    fn long_annotations_are_left_to_the_agent() {
        let mut fixture = Fixture::new();
        fixture.pod(
            "web",
            "u1",
            &networks(&"x".repeat(MAX_FILE_ANNOTATIONS)),
            true,
        );
        assert!(fixture.file("web").unwrap().annotations.is_some());
        fixture.pod(
            "web",
            "u1",
            &networks(&"x".repeat(MAX_FILE_ANNOTATIONS + 1)),
            true,
        );
        assert_eq!(fixture.file("web").unwrap().annotations, None);
    }

    #[test]
    fn restarted_agent_keeps_files_of_pods_and_removes_others_once_all_are_read() {
        let mut fixture = Fixture::new();
        fixture.pod("web", "u1", &networks("lan"), true);
        fixture.pod("old", "u2", &json!({}), true);
        let directory = fixture.directory.path().join("pods");
        fs::write(directory.join("half.json"), "{").unwrap();
        fs::write(directory.join("killed.new"), "{").unwrap();
        let path = directory.join(format!("{}.json", PodFile::document("shop", "web")));
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        fixture.restart();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fixture.pod("web", "u1", &networks("lan"), true);
        assert!(fixture.file("old").is_some());
        fixture.catalog.complete();
        assert_eq!(fixture.files.reconcile(&fixture.catalog, false), None);
        assert_eq!(fixture.file("old"), None);
        assert!(fixture.file("web").is_some());
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        // Deleted by hand.
        fs::remove_file(&path).unwrap();
        assert_eq!(fixture.files.reconcile(&fixture.catalog, true), None);
        assert!(fixture.file("web").is_some());
    }

    #[test]
    fn directory_that_cannot_be_written_is_a_problem_until_it_can() {
        let mut fixture = Fixture::new();
        let path = fixture.directory.path().join("pods");
        fs::write(&path, "").unwrap();
        let problem = fixture.files.reconcile(&fixture.catalog, true).unwrap();
        assert_eq!(problem.reason, Reason::FileNotWritten);
        fs::remove_file(&path).unwrap();
        assert_eq!(fixture.files.reconcile(&fixture.catalog, true), None);
    }
}
