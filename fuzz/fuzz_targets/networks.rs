//! See `bodies::networks`.
#![no_main]

#[path = "../../crates/api/tests/bodies/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each target uses one of the bodies"
)]
mod bodies;

libfuzzer_sys::fuzz_target!(|text: &str| bodies::networks(text));
