//! What is read from manifests and taken of objects, and what is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_definition;
mod limits;
mod manifests;
