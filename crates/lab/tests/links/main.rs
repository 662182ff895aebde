//! Labs of real CNI plugins, measured.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![forbid(unsafe_code)]

mod a_lab_leaves_no_trace;
mod testing_details;
