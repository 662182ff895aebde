//! See `bodies::manifests`.
#![no_main]

#[path = "../../crates/k8s/tests/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|text: &str| bodies::manifests(text));
