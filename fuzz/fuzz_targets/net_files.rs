//! See `bodies::net_files`.
#![no_main]

#[path = "../../crates/api/tests/bodies/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each target uses one of the bodies"
)]
mod bodies;

libfuzzer_sys::fuzz_target!(|text: &str| bodies::net_files(text));
