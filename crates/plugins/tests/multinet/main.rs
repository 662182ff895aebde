//! The CNI meta plugin `netqos-multinet`, with real delegates in real namespaces.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod add_makes_all_networks_or_none;
mod del_needs_only_the_record;
mod fixed_limits;
mod fixture;
mod hand_over;
mod hostile_nads;
mod killed_at_any_moment;
mod multus_pods;
mod other_lists;
mod runtime_without_annotations;
mod what_pods_request;
