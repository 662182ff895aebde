//! The CNI meta plugin `netqos-multinet`, with real delegates in real namespaces.

mod add_makes_all_networks_or_none;
mod del_needs_only_the_record;
mod fixture;
mod killed_at_any_moment;
