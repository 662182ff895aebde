//! See `netqos_promises::bandwidth_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::bandwidth_config(text));
