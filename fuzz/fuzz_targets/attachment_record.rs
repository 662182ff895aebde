//! The record of an attachment: what is read can be written, and is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netqos_datapath::Record;

fuzz_target!(|text: &[u8]| {
    let Ok(record) = serde_json::from_slice::<Record>(text) else {
        return;
    };
    let written = serde_json::to_vec(&record).expect("what was read can be written");
    assert_eq!(
        serde_json::from_slice::<Record>(&written).ok(),
        Some(record)
    );
});
