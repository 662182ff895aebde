//! What an index makes of objects.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod agreement;
mod arbitrary;
mod broken;
mod elsewhere;
mod endpoints;
mod explanation;
mod incremental;
mod manifests;
mod networks;
mod objects;
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
