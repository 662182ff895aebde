//! What is said of objects, and of which not.
#![allow(clippy::unwrap_used)]

mod attachment_policies;
mod attachments;
mod codes;
mod manifests;
mod networks;
mod objects;
mod unread;
