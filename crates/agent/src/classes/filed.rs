//! What another agent says of the node's lines, in the two files that Koordinator's proposal has for
//! that: how far it counts, and what of it was right last.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_api::koordinator::Mistake;
use netqos_api::koordinator::net_files::{NetPod, parse_node, parse_pods};
use netqos_core::classes::LineShares;

use super::InputPod;
use crate::file::{is_none, read_text};

/// The file that says what the line carries, and how it is shared.
pub const NODE_FILE: &str = "node";
/// The file that says what pods have of it.
pub const PODS_FILE: &str = "pods";

/// Both files, as they are now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetFiles {
    /// The folder that they are in.
    pub folder: PathBuf,
    /// The line and its shares.
    pub node: Word<LineShares>,
    /// The pods that it tells of.
    pub pods: Word<Vec<NetPod>>,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Word<T> {
    /// There is none that is anybody else's.
    #[default]
    Nothing,
    /// This.
    Said(T),
    /// What cannot be followed, field by field, or why it cannot be read.
    Wrong(Vec<String>),
}

impl NetFiles {
    /// What the files of a folder say, whoever wrote them.
    pub fn read(folder: &Path) -> Self {
        let text = |name: &str| match read_text(&folder.join(name)) {
            Ok((text, _)) => Some(text),
            Err(why) if is_none(&why) => None,
            Err(why) => Some(Err(format!("it cannot be read ({why})"))),
        };
        Self {
            folder: folder.to_owned(),
            node: text(NODE_FILE).map_or(Word::Nothing, |it| Word::of(it, parse_node)),
            pods: text(PODS_FILE).map_or(Word::Nothing, |it| Word::of(it, parse_pods)),
        }
    }
}

impl<T> Word<T> {
    /// What a text says, or what is wrong with it.
    pub(crate) fn of(
        text: Result<String, String>,
        parse: impl Fn(&str) -> Result<T, Vec<Mistake>>,
    ) -> Self {
        match text.map(|text| parse(&text)) {
            Ok(Ok(said)) => Self::Said(said),
            Ok(Err(mistakes)) => Self::Wrong(mistakes.iter().map(ToString::to_string).collect()),
            Err(why) => Self::Wrong(vec![why]),
        }
    }
}

/// What is known by them.
#[derive(Debug, Default)]
pub(super) struct Filed {
    now: Arc<NetFiles>,
    shares: Option<LineShares>,
    pods: Vec<NetPod>,
}

impl Filed {
    /// The files are so now.
    pub(super) fn put(&mut self, now: Arc<NetFiles>) {
        self.now = now;
    }

    /// Takes up what is right.
    pub(super) fn follow(&mut self) {
        if let Word::Said(shares) = &self.now.node {
            self.shares = Some(*shares);
        }
        if let Word::Said(pods) = &self.now.pods {
            self.pods.clone_from(pods);
        }
    }

    /// Nothing of it counts, nor what was right before.
    pub(super) fn forget(&mut self) {
        self.shares = None;
        self.pods.clear();
    }

    /// True when they say right now how lines are shared.
    pub(super) fn says_shares(&self) -> bool {
        matches!(self.now.node, Word::Said(_))
    }

    /// How lines are shared.
    pub(super) fn shares(&self) -> Option<&LineShares> {
        self.shares.as_ref()
    }

    /// What they say of a pod, which is known by its uid; one that has none, as those that people write,
    /// by its name; and else by the cgroup that it was found in.
    pub(super) fn pod(&self, pod: &InputPod, cgroup: Option<&Path>) -> Option<&NetPod> {
        let has_uid = *pod.id.uid != pod.id.name.to_string();
        let is_it = |one: &&NetPod| match has_uid {
            true => one.id.uid == pod.id.uid,
            false => one.id.name == pod.id.name,
        };
        let is_there = |one: &&NetPod| cgroup.is_some() && one.cgroup.as_deref() == cgroup;
        let by_id = self.pods.iter().find(is_it);
        by_id.or_else(|| self.pods.iter().find(is_there))
    }

    /// That nobody follows them where terway-qos divides the lines, if they are another's.
    pub(super) fn unheard(&self) -> Option<String> {
        let path = self.now.folder.join(NODE_FILE);
        self.says_shares().then(|| {
            format!(
                "{}: it is not followed where the class backend is terway-qos, which writes it itself; \
                 say in a NodeSLO or in slo-controller-config how lines are shared",
                path.display()
            )
        })
    }

    /// What is wrong with the files; `counts`: the lines are shared as they say, and not as objects do.
    pub(super) fn problems(&self, counts: bool, here: &[&InputPod]) -> Vec<String> {
        let path = |name: &str| self.now.folder.join(name).display().to_string();
        let mut problems = Vec::new();
        let node = path(NODE_FILE);
        match &self.now.node {
            Word::Said(_) => {}
            Word::Wrong(wrong) => {
                let then = match (counts, self.shares) {
                    (true, Some(_)) => "; what it said before stays in force",
                    (true, None) => "; nothing is shared by it",
                    (false, _) => "; the lines are shared as objects say",
                };
                problems.extend(wrong.iter().map(|what| format!("{node}: {what}{then}")));
            }
            Word::Nothing if counts && self.shares.is_some() => problems.push(format!(
                "{node} is not there any more; what it said stays in force. To share the lines no \
                 more, label the node netqos.io/class-backend=none"
            )),
            Word::Nothing => {}
        }
        let pods = path(PODS_FILE);
        match &self.now.pods {
            Word::Said(_) => {}
            Word::Wrong(wrong) => {
                let then = match self.pods.is_empty() {
                    true => "; nothing of it is in force",
                    false => "; what it said before stays in force",
                };
                problems.extend(wrong.iter().map(|what| format!("{pods}: {what}{then}")));
            }
            Word::Nothing if here.iter().any(|pod| self.pod(pod, None).is_some()) => {
                problems.push(format!(
                    "{pods} is not there any more; what it said of this node's pods stays in force. To \
                     take that back, have [] in it"
                ));
            }
            Word::Nothing => {}
        }
        problems
    }
}
