//! See `netqos_promises::networks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::networks(text));
