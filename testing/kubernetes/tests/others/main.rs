//! Real API servers: how tests borrow them, and what they make of netqos' CRDs, accounts and policies; and
//! what kubectl reads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accounts;
mod crds;
mod pool;
mod yaml;
