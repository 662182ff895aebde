//! Whatever was written is read as the same; whatever is read does not panic.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn process() -> impl Strategy<Value = Process> {
    (any::<i32>(), any::<u64>()).prop_map(|(pid, start_time)| Process { pid, start_time })
}

fn pod() -> impl Strategy<Value = PodRecord> {
    (
        "[a-z0-9-]{1,60}",
        "[a-z0-9-]{1,20}",
        "[a-f0-9-]{36}",
        btree_map("[a-z./-]{1,30}", ".{0,30}", 0..4),
        "nqlab-[a-z0-9_-]{1,50}",
        vec(("[a-z0-9_-]{1,30}", "[a-z0-9]{1,15}"), 0..3),
        vec(process(), 0..3),
    )
        .prop_map(
            |(name, namespace, uid, annotations, netns, networks, processes)| PodRecord {
                name,
                namespace,
                uid,
                annotations,
                netns,
                networks: networks
                    .into_iter()
                    .map(|(file, interface)| JoinedNetwork { file, interface })
                    .collect(),
                processes,
            },
        )
}

fn node() -> impl Strategy<Value = NodeRecord> {
    (
        "|stock",
        vec("/[^\u{0}]{0,30}", 0..4),
        vec(pod(), 0..4),
        vec(pod(), 0..2),
        option::of(process()),
    )
        .prop_map(|(side, plugin_dirs, pods, outside, agent)| NodeRecord {
            side,
            plugin_dirs: plugin_dirs.into_iter().map(PathBuf::from).collect(),
            pods,
            outside,
            agent,
        })
}

fn record() -> impl Strategy<Value = Record> {
    (
        "[0-9a-f]{1,8}",
        ".{0,30}",
        "/[^\u{0}]{0,30}",
        any::<u64>(),
        option::of(process()),
        vec(node(), 0..3),
    )
        .prop_map(|(run, scenario, source, started, owner, nodes)| Record {
            run,
            scenario,
            source: source.into(),
            started,
            owner,
            nodes,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_record_is_read_as_it_was_written(record in record()) {
        let text = record.to_text().unwrap();
        prop_assert_eq!(Record::from_text(&text).unwrap(), record);
    }

    /// Also where it was cut off, or something stands in it that nobody wrote.
    #[test]
    fn reading_never_panics(record in record(), at: usize, with in "[ -~]{0,6}", cut: bool) {
        let mut text = record.to_text().unwrap();
        let at = at % text.len();
        if cut {
            text.truncate(at);
        }
        text.splice(at..at, with.bytes());
        if let Ok(read) = Record::from_text(&text) {
            prop_assert_eq!(Record::from_text(&read.to_text().unwrap()).unwrap(), read);
        }
    }
}
