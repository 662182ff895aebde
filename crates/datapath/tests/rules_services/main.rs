//! What is sent to the virtual addresses of Services, which iptables rewrites as kube-proxy has it
//! do: what a packet meets is what it would meet if it were sent to the backend.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod backends_change_live;
mod crowded_services;
#[path = "../rules/hooks.rs"]
mod hooks;
mod proxy;
mod scene;
mod service_limits;
mod shadow_rules;
mod sniffer;
mod what_nobody_can_tell;
mod where_they_agree;
mod where_they_differ;
mod while_rules_change;
#[path = "../rules/world.rs"]
mod world;
