//! What is sent to the virtual addresses of Services, which iptables rewrites as kube-proxy has it
//! do: what a packet meets is what it would meet if it were sent to the backend.

mod backends_change_live;
mod crowded_services;
mod scene;
mod service_limits;
mod shadow_rules;
mod sniffer;
mod what_nobody_can_tell;
mod where_they_agree;
mod where_they_differ;
mod while_rules_change;
