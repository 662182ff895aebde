//! What is read of outside documents, and what is not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod parsers_keep_their_promises_for_any_text;
mod what_koordinator_and_terway_qos_expect;
