//! The result cache's form of an attachment: what is read can be written, and is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netqos_cni::runtime::CachedAttachment;

fuzz_target!(|text: &[u8]| {
    let Ok(cached) = serde_json::from_slice::<CachedAttachment>(text) else {
        return;
    };
    let written = serde_json::to_vec(&cached).expect("what was read can be written");
    let read = serde_json::from_slice::<CachedAttachment>(&written);
    assert_eq!(read.ok(), Some(cached));
});
