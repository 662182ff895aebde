//! Whatever was written is read as the same; whatever is read does not panic.

use std::fs;
use std::time::Duration;

use netqos_core::{BitRate, ByteCount, Limit};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;

fn attachment() -> impl Strategy<Value = Attachment> {
    let parts = (
        "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}",
        "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,64}",
        "[a-z@][a-z0-9@.-]{0,14}",
    );
    parts.prop_map(|(network, container, interface)| {
        Attachment::try_new(&network, &container, &interface).unwrap()
    })
}

fn limit() -> impl Strategy<Value = Limit> {
    let latency = (any::<u64>(), 0_u32..1_000_000_000);
    let latency = latency.prop_map(|(seconds, nanos)| Duration::new(seconds, nanos));
    (any::<u64>(), option::of(any::<u64>()), option::of(latency)).prop_map(
        |(rate, burst, latency)| Limit {
            rate: BitRate::from_bits_per_second(rate),
            burst: burst.map(ByteCount::from_bytes),
            latency,
        },
    )
}

fn link() -> impl Strategy<Value = LinkRecord> {
    // The kernel allows nearly everything in a name.
    let name = "[^/:\\s\u{0}]{1,15}";
    (
        name,
        any::<u32>(),
        any::<bool>(),
        any::<bool>(),
        option::of(any::<u32>()),
    )
        .prop_map(
            |(name, index, made_clsact, tagged, tx_queue_len)| LinkRecord {
                name,
                index,
                made_clsact,
                tagged,
                tx_queue_len,
                set_tx_queue_len: tx_queue_len,
            },
        )
}

/// What is named here survives; fields of builds to come are what a file without them says.
fn queue() -> impl Strategy<Value = QueueRecord> {
    (
        select(&[Direction::Ingress, Direction::Egress][..]),
        select(&[SideName::Host, SideName::Pod][..]),
        link(),
        option::of(link()),
        select(&[HookKind::Clsact, HookKind::Tcx, HookKind::None][..]),
        option::of(any::<u16>()),
        option::of(".{0,40}"),
    )
        .prop_map(
            |(direction, side, link, detour_from, hook, limiter, unranked_because)| {
                let least = json!({
                    "direction": direction, "side": side, "link": link, "hook": hook,
                });
                let mut queue: QueueRecord = serde_json::from_value(least).unwrap();
                queue.link = link;
                queue.detour_from = detour_from;
                queue.limiter = limiter;
                queue.unranked_because = unranked_because;
                queue
            },
        )
}

fn record() -> impl Strategy<Value = Record> {
    let limits = (option::of(limit()), option::of(limit()));
    let ends = option::of((any::<u32>(), any::<Option<u32>>()));
    (
        attachment(),
        "/[^\u{0}]{0,40}",
        ends,
        limits,
        vec(queue(), 0..3),
    )
        .prop_map(
            |(attachment, netns, ends, (ingress, egress), queues)| Record {
                attachment,
                netns: netns.into(),
                ends: ends.map(|(pod, host)| Ends { pod, host }),
                limits: Limits { ingress, egress },
                queues,
            },
        )
}

/// Takes a field away, or makes it another.
fn spoil(value: &mut Value, mut at: usize, with: Option<Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(at % fields.len()).unwrap().clone();
            at /= fields.len();
            match (at % 3, with) {
                (0, Some(with)) => drop(fields.insert(key, with)),
                (0, None) => drop(fields.remove(&key)),
                (_, with) => spoil(&mut fields[&key], at / 3, with),
            }
        }
        Value::Array(all) if !all.is_empty() => {
            let index = at % all.len();
            spoil(&mut all[index], at, with);
        }
        other => *other = with.unwrap_or_default(),
    }
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(record in record()) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        records.write(&record).unwrap();
        prop_assert_eq!(records.read(&record.attachment).unwrap(), Some(record.clone()));
        prop_assert_eq!(records.all().unwrap(), [record]);
    }

    /// A file that is nearly one reads as what it says, or is set aside.
    #[test]
    fn reading_never_panics_and_invents_nothing(
        record in record(),
        at: usize,
        with in option::of(select(&["null", "-1", "1e9", "\"..\"", "[]", "{}", "true"][..])),
        text in option::weighted(0.1, "(.|\n){0,60}"),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        let mut value = serde_json::to_value(&record).unwrap();
        spoil(&mut value, at, with.map(|text| serde_json::from_str(text).unwrap()));
        let path = records.0.folder().join(format!("{}.json", record.attachment.tag().names()));
        fs::write(&path, text.unwrap_or_else(|| value.to_string())).unwrap();
        match records.read(&record.attachment).unwrap() {
            Some(read) => {
                records.write(&read).unwrap();
                prop_assert_eq!(records.read(&read.attachment).unwrap(), Some(read));
            }
            None => prop_assert!(!path.exists()),
        }
    }
}
