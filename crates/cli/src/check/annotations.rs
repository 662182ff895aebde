//! How `netqos-multinet` learns which networks a pod selects: the runtime passes the annotations of pods, or the agent keeps
//! them in files.

use std::fs;
use std::path::PathBuf;

use netqos_cni::runtime::CachedAttachment;

use super::cni::ANNOTATIONS;
use super::line::Line;

/// The places that show it.
#[derive(Debug)]
pub struct AnnotationSource {
    /// The runtime's results, with all that it passes to plugins.
    pub cni_cache: PathBuf,
    /// The agent's files.
    pub pod_files: PathBuf,
}

impl AnnotationSource {
    /// Returns the finding. `declares`: the list that the runtime calls asks for annotations.
    pub fn check(&self, what: &str, declares: bool) -> Line {
        let passes = match declares {
            true => self.runtime_passes(),
            false => Some(false),
        };
        match passes {
            None => Line::ok(
                what,
                "the runtime has attached no pod: it is not known yet whether it passes the annotations of pods",
            ),
            Some(true) => Line::ok(
                what,
                "the runtime passes the annotations of pods: a pod that selects no networks starts without netqos-agent",
            ),
            Some(false) => self.check_files(what),
        }
    }

    fn check_files(&self, what: &str) -> Line {
        let directory = self.pod_files.display();
        let message = "the runtime does not pass the annotations of pods: netqos-multinet waits for those that netqos-agent \
                       keeps in";
        match fs::read_dir(&self.pod_files) {
            Ok(entries) => {
                let is_file = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".json");
                let files = entries.flatten().filter(|it| is_file(&it.file_name()));
                let message = format!(
                    "{message} {directory}, which has those of {} pods",
                    files.count()
                );
                Line::ok(what, message)
            }
            Err(error) => Line::failed(
                what,
                format!("{message} {directory}, which cannot be read: {error}; no pod can start"),
                "start netqos-agent on this node",
            ),
        }
    }

    /// Returns true if the runtime has passed annotations to plugins. Runtimes keep what they know of a pod, also where no
    /// plugin declares it. `None` if they keep nothing.
    fn runtime_passes(&self) -> Option<bool> {
        let entries = fs::read_dir(self.cni_cache.join("results")).ok()?.flatten();
        let texts = entries.filter_map(|entry| fs::read(entry.path()).ok());
        let cached =
            texts.filter_map(|text| serde_json::from_slice::<CachedAttachment>(&text).ok());
        cached
            .map(|it| it.capability_args.contains_key(ANNOTATIONS))
            .reduce(|one, other| one || other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::line::State;

    /// The finding of a node whose runtime has kept these arguments of capabilities.
    fn check(kept: &[serde_json::Value], has_files: bool, declares: bool) -> (State, String) {
        let root = tempfile::tempdir().unwrap();
        let source = AnnotationSource {
            cni_cache: root.path().to_owned(),
            pod_files: root.path().join("pods"),
        };
        fs::create_dir(root.path().join("results")).unwrap();
        for (number, arguments) in kept.iter().enumerate() {
            let text = json!({"kind": "cniCacheV1", "capabilityArgs": arguments}).to_string();
            fs::write(root.path().join(format!("results/{number}")), text).unwrap();
        }
        if has_files {
            fs::create_dir(&source.pod_files).unwrap();
            fs::write(source.pod_files.join("a.json"), "{}").unwrap();
        }
        let line = source.check("attachments", declares);
        (line.state, line.message)
    }

    #[test]
    fn runtime_that_passes_annotations_needs_no_files() {
        let passed = [json!({}), json!({ANNOTATIONS: null})];
        let (state, message) = check(&passed, false, true);
        assert_eq!(state, State::Ok);
        assert!(message.contains("passes the annotations"), "{message}");
    }

    #[test]
    fn runtime_that_passes_none_needs_the_files_of_the_agent() {
        for (kept, declares) in [
            (json!({"portMappings": []}), true),
            (json!({ANNOTATIONS: {}}), false),
        ] {
            let (state, message) = check(std::slice::from_ref(&kept), true, declares);
            assert_eq!(state, State::Ok);
            assert!(message.contains("those of 1 pods"), "{message}");
            let (state, message) = check(&[kept], false, declares);
            assert_eq!(state, State::Failed);
            assert!(message.contains("no pod can start"), "{message}");
        }
    }

    #[test]
    fn runtime_without_pods_is_not_known() {
        let (state, message) = check(&[], false, true);
        assert_eq!(state, State::Ok);
        assert!(message.contains("is not known yet"), "{message}");
    }
}
