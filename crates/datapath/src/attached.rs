//! Which pod an attachment is of, as the runtime told the plugin that attached it.
//!
//! The plugin writes it in ADD, whether there is anything to limit or not, and forgets it in DEL and GC.
//! So a pod is found also where its runtime keeps no cache of results, and without a look at processes.
//! It is a document beside the record of limits, and no part of it: that one is there as long as a limit
//! is, and written anew with each change of one.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use netqos_core::Attachment;
use netqos_core::plan::Ends;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::files::{Documents, WHOLE};

/// An attachment of a pod that was added and not deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedPod {
    /// The network, the container and its interface.
    pub attachment: Attachment,
    /// The file that names the pod's network namespace.
    pub netns: PathBuf,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid, where the runtime says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The links that the interface is, where they were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// The addresses of the interface.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
    /// True when the runtime gave the plugin limits, which it takes from annotations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_annotations: bool,
}

/// The folder of those.
#[derive(Clone, Debug)]
pub struct AttachedPods(Documents);

impl AttachedPods {
    /// Those of this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self(Documents::new(folder))
    }

    /// True for the name of a file that is one, written to its end.
    pub fn is_whole(name: &str) -> bool {
        name.ends_with(WHOLE)
    }

    /// What is known of this attachment. Another process may be about to write it: what cannot be read
    /// stays as it is, and is nothing.
    pub fn read(&self, attachment: &Attachment) -> Option<AttachedPod> {
        self.0.peek(attachment.tag().names())
    }

    /// Remembers one, whole or not at all. Nothing is written where it is known.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record): it could not be written.
    pub fn write(&self, pod: &AttachedPod) -> Result<()> {
        match self.read(&pod.attachment).as_ref() == Some(pod) {
            true => Ok(()),
            false => self.0.write(pod.attachment.tag().names(), pod),
        }
    }

    /// Forgets one.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record): it could not be removed.
    pub fn remove(&self, attachment: &Attachment) -> Result<()> {
        self.0.remove(attachment.tag().names())
    }

    /// Forgets those of a network that are not among the living.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record): the folder cannot be read, or one not be removed.
    pub fn collect(&self, network: &str, alive: &[Attachment]) -> Result<()> {
        for name in self.0.names()? {
            let known: Option<AttachedPod> = self.0.peek(&name);
            let is_stale = known.is_some_and(|it| {
                it.attachment.network() == network && !alive.contains(&it.attachment)
            });
            if is_stale {
                self.0.remove(&name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use serde_json::json;

    use super::*;

    fn pod(network: &str, container: &str) -> AttachedPod {
        AttachedPod {
            attachment: Attachment::try_new(network, container, "eth0").unwrap(),
            netns: "/run/netns/x".into(),
            namespace: "games".to_owned(),
            name: "a".to_owned(),
            uid: Some("36cee2dc".to_owned()),
            ends: Some(Ends {
                pod: 2,
                host: Some(7),
            }),
            addresses: ["10.1.0.2", "fd00::2"].map(|it| it.parse().unwrap()).into(),
            has_annotations: true,
        }
    }

    #[test]
    fn one_is_known_until_it_is_forgotten_and_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let pods = AttachedPods::new(folder.path().join("pods"));
        let one = pod("net", "c1");
        pods.remove(&one.attachment).unwrap();
        pods.write(&one).unwrap();
        assert_eq!(pods.read(&one.attachment), Some(one.clone()));
        let file = folder.path().join("pods/net:c1:eth0.json");
        let inode = fs::metadata(&file).unwrap().ino();
        pods.write(&one).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
        for (network, container) in [("net", "c2"), ("other", "c1")] {
            pods.write(&pod(network, container)).unwrap();
        }
        fs::write(folder.path().join("pods/net:c3:eth0.json"), "{").unwrap();
        pods.collect("net", std::slice::from_ref(&one.attachment))
            .unwrap();
        let mut left = pods.0.names().unwrap();
        left.sort();
        assert_eq!(left, ["net:c1:eth0", "net:c3:eth0", "other:c1:eth0"]);
        pods.remove(&one.attachment).unwrap();
        assert_eq!(pods.read(&one.attachment), None);
    }

    /// Builds before and after this one have other fields.
    #[test]
    fn little_is_enough_and_more_is_passed_over() {
        let least = json!({
            "attachment": pod("net", "c1").attachment, "netns": "/run/netns/x",
            "namespace": "games", "name": "a", "colour": "red"
        });
        let read: AttachedPod = serde_json::from_value(least).unwrap();
        let expected = AttachedPod {
            uid: None,
            ends: None,
            addresses: BTreeSet::new(),
            has_annotations: false,
            ..pod("net", "c1")
        };
        assert_eq!(read, expected);
    }
}
