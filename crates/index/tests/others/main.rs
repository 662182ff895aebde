//! What an index makes of objects.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod agreement;
mod broken;
mod elsewhere;
mod endpoints;
mod explanation;
mod incremental;
mod manifests;
mod networks;
mod precedence;
mod primary;
mod profiles;
mod quotas;
mod recorded;
mod resolving;
mod selectors;
mod services;
mod sliced;
mod slicing;
mod written;

use netqos_testkit::index::{arbitrary, objects};
