//! See `netqos_promises::network_list`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::network_list(text));
