//! See `netqos_promises::duration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::duration(text));
