//! See `netqos_promises::manifests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::manifests(text));
