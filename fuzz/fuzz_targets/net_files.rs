//! See `netqos_promises::net_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::net_files(text));
