//! The files, read.

use std::collections::BTreeSet;
use std::path::Path;

use netqos_api::koordinator::net_files::{parse_node, parse_pods};
use netqos_api::koordinator::{BackendKind, Mistake};

use super::NetFileOptions;
use crate::classes::{NODE_FILE, NetFiles, PODS_FILE, Word, recorded_backend};
use crate::file::{Stamp, is_none, is_young, read_text};

/// How often a file is read again that is another one each time.
const TRIES: u32 = 3;

/// What the files say, as far as they were read.
#[derive(Debug)]
pub(super) struct Reader {
    options: NetFileOptions,
    files: NetFiles,
}

/// What came of looking at a file.
enum Look {
    /// Its text, or what is wrong with it.
    Text(Result<String, String>),
    /// There is none, or it is netqos' own.
    Nothing,
    /// Somebody is writing to it, or puts others in its place all the time.
    Later,
}

impl Reader {
    /// Nothing was read yet.
    pub(super) fn new(options: NetFileOptions) -> Self {
        let files = NetFiles {
            folder: options.folder.clone(),
            ..NetFiles::default()
        };
        Self { options, files }
    }

    /// What they say.
    pub(super) fn files(&self) -> &NetFiles {
        &self.files
    }

    /// Looks at both. Those `whole` were just written to their end, or have come or gone; of the others
    /// one that somebody may be writing to stays as it was. True when something has to be looked at once
    /// more.
    pub(super) fn look(
        &mut self,
        whole: &BTreeSet<String>,
        is_being_written: impl Fn(&str) -> bool,
    ) -> bool {
        let look = |name: &str| {
            let path = self.options.folder.join(name);
            let is_whole = whole.contains(name) || !is_young(&path);
            match is_whole && !is_being_written(name) {
                true => read(&path, &self.options.run),
                false => Look::Later,
            }
        };
        let (node, pods) = (look(NODE_FILE), look(PODS_FILE));
        let later = matches!(node, Look::Later) || matches!(pods, Look::Later);
        hear(&mut self.files.node, node, parse_node);
        hear(&mut self.files.pods, pods, parse_pods);
        later
    }
}

/// A file of another's.
fn read(path: &Path, run: &Path) -> Look {
    for _ in 0..TRIES {
        let read = read_text(path);
        // Its own files are there no longer than that is written down.
        if recorded_backend(run) == Some(BackendKind::TerwayQos) {
            return Look::Nothing;
        }
        match read {
            Ok((text, stamp)) if Stamp::at(path) == Some(stamp) => return Look::Text(text),
            Ok(_) => {}
            Err(why) if is_none(&why) => return Look::Nothing,
            Err(why) => return Look::Text(Err(format!("it cannot be read ({why})"))),
        }
    }
    Look::Later
}

fn hear<T>(word: &mut Word<T>, look: Look, parse: impl Fn(&str) -> Result<T, Vec<Mistake>>) {
    *word = match look {
        Look::Later => return,
        Look::Nothing => Word::Nothing,
        Look::Text(text) => Word::of(text, parse),
    };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use netqos_core::Direction;
    use netqos_core::classes::TrafficClass;

    use super::*;
    use crate::classes::backend_record;
    use crate::file::SETTLED;

    /// A node with both folders.
    struct Place(tempfile::TempDir, Reader);

    const NODE: &str = r#"{"hw_tx_bps_max": 1000, "hw_rx_bps_max": 1000,
                           "l2_tx_bps_min": 200, "l2_tx_bps_max": 1000}"#;
    const PODS: &str = r#"[{"pod": "games/a", "podUID": "a", "priority": 2}]"#;

    impl Place {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let (folder, run) = (place.path().join("net"), place.path().join("run"));
            fs::create_dir(&run).unwrap();
            Self(place, Reader::new(NetFileOptions { folder, run }))
        }

        fn write(&self, name: &str, text: &str) {
            let folder = self.0.path().join("net");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        }

        fn record(&self, kind: &str) {
            fs::write(backend_record(&self.0.path().join("run")), kind).unwrap();
        }

        /// What both say once they were written to their ends.
        fn look(&mut self) -> NetFiles {
            let whole = BTreeSet::from([NODE_FILE.to_owned(), PODS_FILE.to_owned()]);
            assert!(!self.1.look(&whole, |_| false));
            self.1.files().clone()
        }
    }

    fn is_nothing(files: &NetFiles) -> bool {
        (&files.node, &files.pods) == (&Word::Nothing, &Word::Nothing)
    }

    #[test]
    fn what_they_say_and_what_is_wrong_with_them() {
        let mut place = Place::new();
        assert!(is_nothing(&place.look()));
        place.write(NODE_FILE, NODE);
        place.write(PODS_FILE, PODS);
        let NetFiles { node, pods, .. } = place.look();
        let (Word::Said(node), Word::Said(pods)) = (node, pods) else {
            panic!("{:?}", place.1)
        };
        let share = node.of(Direction::Egress).of(TrafficClass::BestEffort);
        assert_eq!(share.min.bytes_per_second(), 200);
        assert_eq!(&*pods[0].id.uid, "a");

        place.write(NODE_FILE, r#"{"hw_tx_bps_max": "x"}"#);
        place.write(PODS_FILE, r#"[{"pod": "a", "podUID": "a"}]"#);
        let NetFiles { node, pods, .. } = place.look();
        let wrong = |text: &str| vec![text.to_owned()];
        assert_eq!(
            node,
            Word::Wrong(wrong(
                "hw_tx_bps_max: \"x\" is no number of bytes per second"
            ))
        );
        assert_eq!(
            pods,
            Word::Wrong(wrong("pods[0].pod: \"a\" is no namespace/name"))
        );

        fs::remove_file(place.0.path().join("net/node")).unwrap();
        fs::create_dir(place.0.path().join("net/node")).unwrap();
        let wrong = Word::Wrong(wrong("it is not a file"));
        assert_eq!(place.look().node, wrong);
        fs::remove_dir_all(place.0.path().join("net")).unwrap();
        assert!(is_nothing(&place.look()));
    }

    #[test]
    fn its_own_are_not_read() {
        let mut place = Place::new();
        place.write(NODE_FILE, NODE);
        place.write(PODS_FILE, PODS);
        place.record("terway-qos\n");
        assert!(is_nothing(&place.look()));
        place.record("kernel\n");
        assert!(matches!(place.look().node, Word::Said(_)));
        place.record("terway-qos\n");
        assert!(is_nothing(&place.look()));
    }

    #[test]
    fn one_that_somebody_may_be_writing_to_stays_as_it_was() {
        let mut place = Place::new();
        place.write(NODE_FILE, NODE);
        let before = place.look();
        let none = BTreeSet::new();
        std::thread::sleep(SETTLED);
        place.write(NODE_FILE, "{");
        assert!(place.1.look(&none, |_| false));
        assert_eq!(*place.1.files(), before);
        std::thread::sleep(SETTLED);
        assert!(place.1.look(&none, |name| name == NODE_FILE));
        assert_eq!(*place.1.files(), before);
        assert!(!place.1.look(&none, |_| false));
        assert!(matches!(place.1.files().node, Word::Wrong(_)));
    }
}
