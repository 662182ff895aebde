//! See `netqos_promises::attachment_tag`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| netqos_promises::attachment_tag(text));
