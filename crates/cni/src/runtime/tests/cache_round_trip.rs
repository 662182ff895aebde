//! Whatever was remembered is read as the same; whatever stands in the cache does not panic.

use std::fs;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::stage::{list, three};
use crate::runtime::AttachmentRequest;
use crate::runtime::cache::ResultCache;
use crate::{CniResult, CniVersion};

/// Whatever JSON can say.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((".{0,5}", inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn request() -> impl Strategy<Value = AttachmentRequest> {
    (
        "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,64}",
        "[a-z@][a-z0-9@.-]{0,14}",
        option::of("/[^\u{0}]{0,30}"),
        vec((".{0,9}", ".{0,9}"), 0..4),
        vec((".{0,9}", json_value()), 0..4),
    )
        .prop_map(
            |(container_id, ifname, netns, args, capability_args)| AttachmentRequest {
                container_id,
                ifname,
                netns: netns.map(Into::into),
                args,
                capability_args: capability_args.into_iter().collect(),
            },
        )
}

/// A result with an interface, and a field that nobody knows.
fn result() -> impl Strategy<Value = CniResult> {
    let result = |(name, unknown): (String, Value)| {
        let mut fields = Map::new();
        fields.insert("cniVersion".to_owned(), json!("1.0.0"));
        fields.insert(
            "interfaces".to_owned(),
            json!([{"name": name, "x": unknown}]),
        );
        fields.insert("nobodys".to_owned(), unknown);
        CniResult::from_value(fields.into(), CniVersion::V1_0_0).unwrap()
    };
    ("[a-z0-9]{1,15}", json_value()).prop_map(result)
}

proptest! {
    #[test]
    fn an_attachment_is_read_as_it_was_remembered(request in request(), result in result()) {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(folder.path().to_owned());
        let list = list("1.0.0", three());
        cache.store(&list, &request, &result).unwrap();
        prop_assert_eq!(cache.result(&list, &request), Some(result));
        let cached = cache.attachment(&list, &request).unwrap();
        prop_assert_eq!(cached.request(), request.clone());
        prop_assert_eq!((&cached.config, &cached.network), (&list.text, &list.name));
        prop_assert_eq!(cache.attachments(), [cached]);
        cache.remove(&list, &request);
        prop_assert_eq!(cache.attachments(), []);
    }

    /// What is nearly right is read as what it says, or as nothing.
    #[test]
    fn reading_never_panics(
        request in request(),
        result in result(),
        at: usize,
        with in "[ -~]{0,6}",
        cut: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::new(folder.path().to_owned());
        let list = list("1.0.0", three());
        cache.store(&list, &request, &result).unwrap();
        let name = format!("net-{}-{}", request.container_id, request.ifname);
        let path = folder.path().join("results").join(name);
        let mut text = fs::read(&path).unwrap();
        let at = at % text.len();
        if cut {
            text.truncate(at);
        }
        text.splice(at..at, with.bytes());
        fs::write(&path, text).unwrap();
        let _ = cache.result(&list, &request);
        let _ = cache.attachments();
    }
}
