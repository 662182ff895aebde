//! See `netqos_promises::annotations`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::annotations(text));
