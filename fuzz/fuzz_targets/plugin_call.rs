//! See `netqos_promises::plugin_call`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::plugin_call(text));
