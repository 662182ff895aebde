//! See `netqos_promises::quantity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::quantity(text));
