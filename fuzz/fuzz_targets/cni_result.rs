//! See `netqos_promises::cni_result`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::cni_result(text));
